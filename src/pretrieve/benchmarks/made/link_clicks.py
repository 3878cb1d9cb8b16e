"""Reading paths along hyperlinks, in the form of news clicks. They substitute for MIND where it is not available.

This is **link prediction, not clicks**: nobody read anything. A 'user' is an article; what it links to, in the order
of its text, is their reading path. An impression has MIND's form (Wu et al. 2020, *MIND: A Large-scale Dataset for
News Recommendation*): the history is the titles of the articles linked so far (oldest first), the candidates are the
next one or two linked articles (label 1; MIND has 1.5 clicks an impression, paper ``seed_encoder`` Table 7) among
articles that the user's article does not link to (label 0). These others are drawn from what *other* articles of the
same part link to, so that being linked at all tells nothing. A candidate's text is its title and, where it has a lead,
the lead's first words (paper ``seed_encoder`` §4.4: "the concatenation of their titles and snippets").

Users belong to one part each (train, valid, dev, test). Candidates recur, as news do.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.structure_sts import linked_articles
from pretrieve.corpora.tables import read_rows, titles_of
from pretrieve.tasks.click_statistics import ClickStatistics
from pretrieve.tasks.example_splits import SHARES, drawn, parts_of_groups
from pretrieve.tasks.example_task import Example, ExampleContents
from pretrieve.tasks.splits import Target, draw_key

#: Split → part of the statistics; articles are counted once in each.
COUNTED = {"train": "train", "valid": "train", "test": "dev"}


def impressions(path: list[int], first: int, seed: int, user: int) -> list[tuple[list[int], list[int]]]:
    """(history, clicked) along a reading path: after ``first`` titles, one or two are clicked at a time.

    >>> impressions([10, 11, 12, 13, 14], 2, seed=1, user=0)
    [([10, 11], [12]), ([10, 11, 12], [13, 14])]
    """
    found = []
    at = first
    while at < len(path):
        count = 1 + draw_key(seed, f"clicks {user} {at}") % 2
        found.append((path[:at], path[at : at + count]))
        at += count
    return found


def build_link_clicks(
    corpus: Path,
    target: Target,
    candidates: int = 20,
    first: int = 3,
    lead_words: int = 30,
    max_examples: int | None = None,
) -> dict[str, Any]:
    """Write the task and return its statistics. Ids are ``{article id}-{titles in the history}``.

    candidates: of each impression (fewer where a part links to fewer articles); first: titles in a user's first history;
    lead_words: words of a lead that are its snippet; max_examples: at most this many impressions, drawn from all; None: all.

    Raises DataError when the corpus is damaged, or a part has no impression, and ConfigError when a size cannot be drawn.
    """
    seed = target.seed
    titles = titles_of(corpus)
    rows = read_rows(corpus / "passages.parquet", ["article_id", "source", "text"])
    snippets = {article: " ".join(text.split()[:lead_words]) for article, source, text in rows if source == "lead"}
    links = {article: path for article, path in linked_articles(corpus).items() if len(path) > first}
    parts = parts_of_groups(Counter({str(article): len(path) - first for article, path in links.items()}), SHARES, seed)
    contents = ExampleContents()
    paths = {user: impressions(path, first, seed, user) for user, path in links.items()}
    ids = [f"{user}-{len(history)}" for user in sorted(paths) for history, _ in paths[user]]
    kept = drawn(ids, max_examples, seed)
    for part in SHARES:
        users = [article for article in sorted(links) if parts[str(article)] == part]
        pool = sorted({target for user in users for target in links[user]})
        for user in users:
            linked = {*links[user], user}
            others = [article for article in pool if article not in linked]
            for history, clicked in paths[user]:
                example_id = f"{user}-{len(history)}"
                if not others or example_id not in kept:
                    continue
                rng = np.random.default_rng(draw_key(seed, example_id))
                unlinked = rng.choice(others, min(candidates - len(clicked), len(others)), replace=False).tolist()
                shown = rng.permutation(clicked + unlinked).tolist()
                rows = [
                    contents.row(f"n{article}", f"{titles[article]}. {snippets.get(article, '')}".removesuffix(". "))
                    for article in shown
                ]
                past = [contents.row(f"t{article}", titles[article]) for article in history]
                contents.add(Example(example_id, rows, [int(article in clicked) for article in shown], past), part)
        if part not in contents.part_of.values():
            raise DataError(
                f"{corpus}/links.parquet: the part '{part}' has no impression; take a corpus with more links."
            )
    what = "link prediction in the form of clicks (not MIND)"
    about = {"task": what, "users": len(links), "first": first, "seed": seed}
    counted = _statistics(contents, titles, target.tokenizer)
    return contents.write("clicks", target, about, counted=counted.summary)


def _statistics(contents: ExampleContents, titles: list[str], tokenizer: Tokenizer) -> ClickStatistics:
    """The counts of what the task has: a user is an article, and so is what is clicked."""
    counted, ids = ClickStatistics(tokenizer), list(contents.texts)
    seen: dict[str, set[int]] = {part: set() for part in COUNTED.values()}
    for example in contents.examples:
        if (split := contents.part_of[example.example_id]) in COUNTED:
            part, user = COUNTED[split], example.example_id.partition("-")[0]
            counted.impression(part, user, int(sum(example.labels)), len(example.texts), len(example.history))
            seen[part].update(int(ids[row][1:]) for row in (*example.texts, *example.history))
    for part, articles in seen.items():
        for article in sorted(articles):
            counted.article(part, titles[article])
    return counted
