"""Texts drawn for analyses, against plain loops over the store.

Seen to fail when: sections without a token are drawn; a piece may begin so late that it runs into the next article;
the two of a pair may come from one article; a generator ignores the seed; a batch's rows are not those of the packed
order, or count from its own chunk.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

from pretrieve.analysis import shared
from pretrieve.analysis.shared import batches, draw_pairs, draw_pieces, draw_sections
from pretrieve.base.errors import DataError
from pretrieve.text.token_store import TokenStore

CPU = torch.device("cpu")


def spans(store: TokenStore, level: str) -> list[tuple[int, int]]:
    """(first token, end) of every section or article, sentence by sentence."""
    result = []
    sections = range(len(store.section_starts) - 1)
    groups = [[s] for s in sections]
    if level == "article":
        bounds = store.article_starts.tolist()
        groups = [list(range(a, b)) for a, b in itertools.pairwise(bounds)]
    for group in groups:
        sentences = [
            sentence
            for section in group
            for passage in range(store.section_starts[section], store.section_starts[section + 1])
            for sentence in range(store.passage_starts[passage], store.passage_starts[passage + 1])
        ]
        ends = [(int(store.sentence_starts[s]), int(store.sentence_starts[s + 1])) for s in sentences]
        result.append((ends[0][0], ends[-1][1]) if ends else (0, 0))
    return result


def test_sections(articles) -> None:
    expected = {(a, b - a) for a, b in spans(articles, "section") if b > a}
    assert len(expected) == 10 < len(articles.section_starts) - 1
    starts, lengths = draw_sections(articles, 100, 1)
    assert len(starts) == 10 and set(zip(starts.tolist(), lengths.tolist(), strict=True)) == expected
    some = [tuple(draw_sections(articles, 4, seed)[0]) for seed in (1, 1, 2)]
    assert some[0] == some[1] != some[2] and len(set(some[0])) == 4
    drawn = Counter(int(s) for seed in range(300) for s in draw_sections(articles, 1, seed)[0])
    assert len(drawn) == 10 and min(drawn.values()) > 12, "each section is as likely as any other"


@pytest.mark.parametrize("length", [3, 12, 25])
def test_pieces(articles, length: int) -> None:
    bounds = spans(articles, "article")
    long = [(a, b) for a, b in bounds if b - a >= length - 2]
    assert 1 < len(long) < len(bounds)
    allowed = {
        (i, int(s)) for i, (a, b) in enumerate(long) for s in articles.sentence_starts if a <= s and s + length - 2 <= b
    }
    seen = set()
    for seed in range(400):
        starts = draw_pieces(articles, 100, length, seed)
        owners = [next(i for i, (a, b) in enumerate(long) if a <= s < b) for s in starts]
        assert sorted(owners) == list(range(len(long))), "every article that is long enough, once"
        seen |= set(zip(owners, starts.tolist(), strict=True))
    assert seen == allowed
    assert len(draw_pieces(articles, 1, length, 1)) == 1


def test_pairs(articles) -> None:
    long = [(a, b) for a, b in spans(articles, "article") if b - a >= 10]
    pairs = draw_pairs(articles, 2000, 12, 1)
    owner = [[next(i for i, (a, b) in enumerate(long) if a <= s and s + 10 <= b) for s in side] for side in pairs]
    counts = Counter(zip(*owner, strict=True))
    assert pairs.shape == (2, 2000) and all(one != other for one, other in counts)
    n = len(long)
    assert len(counts) == n * (n - 1) and min(counts.values()) > 0.6 * 2000 / (n * (n - 1))
    assert np.array_equal(pairs, draw_pairs(articles, 2000, 12, 1))
    assert not np.array_equal(pairs, draw_pairs(articles, 2000, 12, 2))


def test_a_corpus_without_texts_of_that_length(articles, tmp_path) -> None:
    rooms = sorted(b - a for a, b in spans(articles, "article"))
    longest, second = rooms[-1] + 2, rooms[-2] + 2
    assert len(draw_pieces(articles, 5, longest, 1)) == 1
    with pytest.raises(
        DataError, match=rf"0 articles have a text of {longest + 1} tokens.*shorter.*at most {longest}\."
    ):
        draw_pieces(articles, 5, longest + 1, 1)
    with pytest.raises(DataError, match=rf"at least 2 are needed.*at most {second}\."):
        draw_pairs(articles, 5, second + 1, 1)
    with pytest.raises(DataError, match="a text of 2 tokens has no word"):
        draw_pairs(articles, 5, 2, 1)


def test_batches(articles, monkeypatch) -> None:
    """Cut into chunks and passes, every text comes once, as [CLS] words [SEP], cut at the length."""
    monkeypatch.setattr(shared, "TOKEN_BUDGET", {"cpu": 30})
    monkeypatch.setattr(shared, "CHUNK_ROWS", 4)
    starts, lengths = draw_sections(articles, 100, 3)
    found, passes = {}, 0
    for rows, packed in batches(articles, starts, lengths, 20, CPU):
        passes += 1
        assert len(packed.tokens) <= 30 or len(rows) == 1
        for row, start, size in zip(rows, packed.starts, packed.lengths, strict=True):
            found[int(row)] = packed.tokens[start : start + size].tolist()
    assert passes > 4 and sorted(found) == list(range(len(starts)))
    assert max(lengths) > 18 > min(lengths)
    for row, tokens in found.items():
        words = articles.tokens[starts[row] : starts[row] + min(lengths[row], 18)].tolist()
        assert tokens == [articles.special.cls, *words, articles.special.sep]
