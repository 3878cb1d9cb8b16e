"""Descriptions: which articles qualify, gold sentences, shares, and what the open variant keeps and adds.

Seen to fail when: shared or empty descriptions are kept; case is not folded; pages count as leads; the training pool is
rounded down; the open variant repeats candidates; max-extra does not limit; the draw ignores the seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from store_sentences import sentence_of
from task_reader import Task
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.made.descriptions import build_descriptions, unique_descriptions
from pretrieve.corpora.tables import read_table
from pretrieve.tasks.splits import Target

SIZES = {"half": 0.5}


def build(corpus: Path, tokenizer: Tokenizer, out: Path, seed: int = 1, **options: object) -> Task:
    build_descriptions(corpus, Target(tokenizer, out, SIZES, seed), **options)
    return Task(out)


def test_unique_descriptions_by_hand() -> None:
    assert unique_descriptions(["Tool", "", " a  Tree ", "a tree", "Straße", "strasse", " Fruit "]) == {
        0: "Tool",
        6: "Fruit",
    }


def test_queries_and_gold(
    corpus: Path, leads: dict[str, tuple[str, str]], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """10 of 13 leads have a description of their own; two share one, one has none; Azimuth has no lead."""
    task = build(corpus, tokenizer, tmp_path / "task")
    titles = read_table(corpus / "articles.parquet", ["title"])["title"].to_pylist()
    rows = {row["doc_id"]: row for row in task.corpus.to_pylist()}
    found = {}
    for query in task.queries.to_pylist():
        (doc_id,) = task.relevant()[query["query_id"]]
        row, title = rows[doc_id], titles[int(query["query_id"])]
        lead, description = leads[title]
        assert query["text"] == description
        assert (row["title"], row["passage"]) == (title, lead)
        assert row["sentence"] == lead.split(". ")[0].rstrip(".") + "."
        found[title] = doc_id
    assert set(found) == set(leads) - {"Adobe", "Aspen", "Attic"}
    assert {row["title"] for row in rows.values()} == set(found)  # no other candidates
    assert len(rows) == sum(leads[title][0].count(". ") + 1 for title in found)


def test_shares(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """10 queries: 1 dev; of 9, 81.5 % rounded up is 8 to train from; half of the pool of 9 is 5, and 1 validates."""
    stats = build(corpus, tokenizer, tmp_path / "task").stats
    assert stats["splits"] == {"half": {"train": 4, "valid": 1, "test": 4, "dev": 1}}
    with pytest.raises(ConfigError, match="needs 9 training questions of the pool's 9, but only 8"):
        build_descriptions(corpus, Target(tokenizer, tmp_path / "more", {"most": 0.95}, 1))


def test_max_queries_draws_by_the_seed(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    def drawn(seed: int, n: int) -> set[str]:
        task = build(corpus, tokenizer, tmp_path / f"{seed}-{n}", seed, max_queries=n)
        return set(task.queries["query_id"].to_pylist())

    assert len(drawn(1, 7)) == 7
    assert drawn(1, 7) < drawn(1, 9)
    assert drawn(1, 7) != drawn(2, 7)


def test_open_adds_candidates_and_changes_nothing_else(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    closed = build(corpus, tokenizer, tmp_path / "closed", max_queries=8)
    opened = build(corpus, tokenizer, tmp_path / "open", max_queries=8, open_domain=True)
    for name in ("queries", "qrels", "splits"):
        assert getattr(opened, name).equals(getattr(closed, name)), name
    text = {row["doc_id"]: (row["title"], row["sentence"], row["passage"]) for row in opened.corpus.to_pylist()}
    for row in closed.corpus.to_pylist():
        assert text[row["doc_id"]] == (row["title"], row["sentence"], row["passage"])
    passages = read_table(
        corpus / "passages.parquet", ["passage_id", "text", "sentence_starts", "sentence_ends"]
    ).to_pylist()
    expected = {
        f"{row['passage_id']}-{i}": row["text"][start:end]
        for row in passages
        for i, (start, end) in enumerate(zip(row["sentence_starts"], row["sentence_ends"], strict=True))
    }
    assert {doc_id: sentence for doc_id, (_, sentence, _) in text.items()} == expected  # every sentence of the corpus


def test_max_extra_draws_so_many_of_the_rest(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    closed = build(corpus, tokenizer, tmp_path / "closed", max_queries=8).corpus["doc_id"].to_pylist()
    everything = set(
        build(corpus, tokenizer, tmp_path / "all", max_queries=8, open_domain=True).corpus["doc_id"].to_pylist()
    )
    some = build(corpus, tokenizer, tmp_path / "some", max_queries=8, open_domain=True, max_extra=3)
    found = some.corpus["doc_id"].to_pylist()
    assert found[: len(closed)] == closed
    assert len(found) == len(closed) + 3
    assert set(found) <= everything
    for row in some.corpus.to_pylist():  # a drawn sentence still points at its own tokens
        tokens = tokenizer.encode(row["sentence"], add_special_tokens=False).ids
        assert sentence_of(some.passages, row["sentence_index"]).tolist() == tokens


def test_a_limit_of_what_is_not_added(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max-extra limits what the open variant adds"):
        build(corpus, tokenizer, tmp_path / "task", max_extra=5)


def test_missing_corpus(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"articles.parquet: no such file"):
        build(tmp_path / "nowhere", tokenizer, tmp_path / "task")
