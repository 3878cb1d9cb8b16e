"""Pair samplers on the tiny corpus of tests/conftest.py, and on random stores, against the tasks' definitions.

Seen to fail when: ICT keeps the sentence in 50 %, or draws single sentences; BFS draws its query from any
section, or lets the query's passage be the document, or draws one document more often; WLP takes the linking page's
own introduction for the query; the mixture ignores its weights or is not shuffled; a sampler uses global random numbers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from store_sentences import sentence_of

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.commands.pair_statistics import pair_statistics
from pretrieve.pretraining.pairs.bfs import BodyFirstSelection
from pretrieve.pretraining.pairs.ict import InverseClozeTask
from pretrieve.pretraining.pairs.pair import Mixture, Pairs, make_sampler, pack_pairs
from pretrieve.pretraining.pairs.wlp import WikiLinkPrediction
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store

# Sentences of the tiny corpus: passage → sentence ids.
SENTENCES = {
    0: (0, 1),
    1: (2, 3),
    2: (4, 5),
    3: (6, 7),
    4: (8, 9),
    5: (10, 11, 12),
    6: (13, 14),
    7: (15, 16, 17),
    8: (18,),
}
#: Every (query sentence, document passage) there is, by hand.
ICT = {(s, p) for p, sentences in SENTENCES.items() if len(sentences) > 1 for s in sentences}
BFS = {(s, p) for s, own in [(0, 0), (1, 0), (2, 1), (3, 1)] for p in (0, 1, 2) if p != own} | {
    (s, p) for s, own in [(6, 3), (7, 3), (8, 4), (9, 4)] for p in (3, 4, 5) if p != own
}
LEAD = {0: (0, 1, 2, 3), 1: (6, 7, 8, 9), 3: (15, 16, 17), 4: (18,)}  # article → sentences of its first section
WLP = {(s, p) for p, article in [(0, 1), (0, 3), (2, 1), (4, 0), (5, 0), (6, 1)] for s in LEAD[article]}


def draw(sampler, n: int = 20_000, seed: int = 0) -> Pairs:
    return sampler.sample(np.random.default_rng(seed), n)


def counted(pairs: Pairs) -> Counter[tuple[int, int]]:
    return Counter(zip(pairs.query.tolist(), pairs.passage.tolist(), strict=True))


def chi_square(counts, expected) -> float:
    """Sum of squared standard deviations, divided by its degrees of freedom: about 1 when the draws are fair."""
    counts, expected = np.asarray(counts, dtype=float), np.asarray(expected, dtype=float)
    return float(((counts - expected) ** 2 / expected).sum() / (len(counts) - 1))


@pytest.mark.parametrize(
    ("task", "possible"), [(InverseClozeTask, ICT), (BodyFirstSelection, BFS), (WikiLinkPrediction, WLP)]
)
def test_exactly_the_possible_pairs(store: TokenStore, task, possible) -> None:
    assert set(counted(draw(task(store)))) == possible


def test_ict(store: TokenStore) -> None:
    sampler = InverseClozeTask(store, keep=0.1)
    assert sampler.n_pairs == len(ICT) == 18
    n = 10_000
    pairs = draw(sampler, n)
    kept = int((pairs.dropped == -1).sum())
    assert abs(kept - 0.1 * n) <= 4 * np.sqrt(n * 0.1 * 0.9)
    assert (pairs.dropped[pairs.dropped >= 0] == pairs.query[pairs.dropped >= 0]).all()
    assert pairs.titled.all()
    assert not (pairs.passage == 8).any()  # a single sentence
    by_passage = [counts for _, counts in sorted(Counter(pairs.passage.tolist()).items())]
    assert chi_square(by_passage, np.full(8, n / 8)) < 4
    assert not (draw(InverseClozeTask(store, keep=0.0)).dropped == -1).any()
    assert (draw(InverseClozeTask(store, keep=1.0)).dropped == -1).all()


def sequence(packed: Packed, example: int) -> list[int]:
    place = int(np.flatnonzero(packed.order == example)[0])
    start = packed.starts[place]
    return packed.tokens[start : start + packed.lengths[place]].tolist()


def test_ict_packed(store: TokenStore) -> None:
    articles = store.passage_article()
    pairs = draw(InverseClozeTask(store), 300)
    queries, documents = pack_pairs(store, articles, pairs, 100, 200)
    kept = 0
    for i in range(len(pairs)):
        article = articles[pairs.passage[i]]
        title = store.title_tokens[store.title_starts[article] : store.title_starts[article + 1]].tolist()
        query = sentence_of(store, pairs.query[i]).tolist()
        rest = [s for s in SENTENCES[pairs.passage[i]] if s != pairs.dropped[i]]
        body = [token for s in rest for token in sentence_of(store, s).tolist()]
        assert sequence(queries, i) == [2, *query, 3]
        assert sequence(documents, i) == [2, *title, 3, *body, 3]
        text, needle = str(sequence(documents, i))[1:-1], str(query)[1:-1]
        assert (needle in text) == (pairs.dropped[i] == -1)
        kept += pairs.dropped[i] == -1
    assert 0 < kept < 100


def test_bfs(store: TokenStore) -> None:
    sampler = BodyFirstSelection(store)
    articles = store.passage_article()
    pairs = draw(sampler)
    assert (pairs.dropped == -1).all() and not pairs.titled.any()
    holder = np.searchsorted(store.passage_starts, pairs.query, side="right") - 1
    assert (articles[holder] == articles[pairs.passage]).all() and (holder != pairs.passage).all()
    # An article without introduction (Ketch) has no pairs, nor has one of a single passage.
    assert set(articles[pairs.passage].tolist()) == {0, 1}
    assert sampler.n_pairs == 6
    assert (
        chi_square([count for _, count in sorted(Counter(pairs.passage.tolist()).items())], np.full(6, 20_000 / 6)) < 4
    )


def test_bfs_documents_are_equally_likely_whatever_the_article(tmp_path: Path, vocabulary) -> None:
    """Article 0: one passage of introduction, one of body. Article 1: three of introduction, two of body."""
    owners = [(0, 0), (1, 0), (2, 1), (2, 1), (2, 1), (3, 1), (3, 1)]
    passages = [PassageText(["a boat."] * (1 + i % 3), *owner) for i, owner in enumerate(owners)]
    sampler = BodyFirstSelection(write_token_store(tmp_path, vocabulary, passages))
    documents = Counter(draw(sampler, 12_000).passage.tolist())
    assert sorted(documents) == [1, 2, 3, 4, 5, 6]  # 0 holds all queries of its article
    assert sampler.n_pairs == 6
    assert chi_square(list(documents.values()), np.full(6, 2000)) < 4


def test_wlp(store: TokenStore) -> None:
    sampler = WikiLinkPrediction(store)
    assert sampler.n_pairs == 6
    articles = store.passage_article()
    links = set(zip(store.link_passages.tolist(), store.link_articles.tolist(), strict=True))
    pairs = draw(sampler)
    holder = np.searchsorted(store.passage_starts, pairs.query, side="right") - 1
    for query_article, passage in set(zip(articles[holder].tolist(), pairs.passage.tolist(), strict=True)):
        assert (passage, query_article) in links, "the document links to the query's page"
        assert articles[passage] != query_article
    by_link = Counter(zip(pairs.passage.tolist(), articles[holder].tolist(), strict=True))
    assert chi_square(list(by_link.values()), np.full(6, 20_000 / 6)) < 4
    assert (pairs.dropped == -1).all() and not pairs.titled.any()


def test_wlp_pairs_are_those_that_the_corpus_counted(store: TokenStore, tiny_corpus: Path) -> None:
    import json

    assert WikiLinkPrediction(store).n_pairs == json.loads((tiny_corpus / "stats.json").read_text())["wlp_pairs"]


@pytest.mark.parametrize("by", ["task", "pair"])
def test_mixture_shares(store: TokenStore, by: str) -> None:
    sampler = make_sampler(store, ["ict", "bfs", "wlp"], by=by)
    assert isinstance(sampler, Mixture) and sampler.n_pairs == 30
    assert [type(one) for one in sampler.samplers] == [InverseClozeTask, BodyFirstSelection, WikiLinkPrediction]
    n = 20_000
    pairs = draw(sampler, n)
    ict = pairs.titled
    holder = np.searchsorted(store.passage_starts, pairs.query, side="right") - 1
    same = store.passage_article()[holder] == store.passage_article()[pairs.passage]
    counts = [int(ict.sum()), int((~ict & same).sum()), int((~ict & ~same).sum())]
    shares = [1 / 3, 1 / 3, 1 / 3] if by == "task" else [18 / 30, 6 / 30, 6 / 30]
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - n * share) <= 4 * np.sqrt(n * share * (1 - share))
    first = ict[: n // 2].sum()  # the tasks are mixed within the batch
    assert abs(first - counts[0] / 2) <= 4 * np.sqrt(counts[0] / 4)


def test_same_seed_same_pairs(store: TokenStore) -> None:
    for tasks in (["ict"], ["bfs"], ["wlp"], ["ict", "bfs", "wlp"]):
        first, again, other = (draw(make_sampler(store, tasks), 500, seed) for seed in (1, 1, 2))
        for a, b in zip(vars(first).values(), vars(again).values(), strict=True):
            assert (a == b).all()
        assert (first.query != other.query).any()
        np.random.seed(0)
        assert (draw(make_sampler(store, tasks), 500, 1).query == first.query).all()


def test_one_task_is_not_mixed(store: TokenStore) -> None:
    assert isinstance(make_sampler(store, ["wlp"]), WikiLinkPrediction)
    for tasks in (["itc"], []):
        with pytest.raises(ConfigError, match="choose from"):
            make_sampler(store, tasks)


def test_a_corpus_without_pairs(tmp_path: Path, vocabulary) -> None:
    store = write_token_store(tmp_path, vocabulary, [PassageText(["a boat."], 0, 0), PassageText(["the sea."], 1, 1)])
    for task in (InverseClozeTask, BodyFirstSelection, WikiLinkPrediction):
        with pytest.raises(DataError):
            task(store)


def test_statistics_by_hand(store: TokenStore) -> None:
    """Exact expectations over all pairs against the sampled means."""
    sizes = np.diff(store.sentence_starts)
    passage = [sum(sizes[s] for s in SENTENCES[p]) for p in range(9)]
    found = pair_statistics(store, WikiLinkPrediction(store), sample=200_000)
    links = [(0, 1), (0, 3), (2, 1), (4, 0), (5, 0), (6, 1)]
    query = np.mean([np.mean([sizes[s] for s in LEAD[article]]) for _, article in links])
    document = np.mean([passage[p] for p, _ in links])
    assert found["pairs"] == 6
    assert found["query_tokens"] == pytest.approx(query, rel=0.01)
    assert found["doc_tokens"] == pytest.approx(document, rel=0.01)
    assert found["tokens"] == pytest.approx(6 * (query + document), rel=0.01)
    title = np.diff(store.title_starts)[store.passage_article()]
    expected = np.mean([passage[p] + title[p] - 0.9 * passage[p] / len(SENTENCES[p]) for p in range(8)])
    assert pair_statistics(store, InverseClozeTask(store), sample=200_000)["doc_tokens"] == pytest.approx(
        expected, rel=0.01
    )
