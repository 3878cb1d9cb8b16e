"""Masked examples: a step is the same wherever it is cut, an epoch has everything once, and masks belong to their text.

Seen to fail when: masks are drawn for each micro-batch; positions of a part are not moved to its rows; the draws are
numbers within the micro-batch, or those of another sequence; ids are in the caller's order; nine equal texts make
three parts for four processes; an epoch begins at a step; every epoch has the same order, or every step shuffles it
again; passages without a token are drawn; the corrupted tokens are put in place of the original ones; ``examples`` is
ignored.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_store import make_store

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.pretraining.examples import Masked, MaskedPassages, TextForm, cut
from pretrieve.pretraining.masking import Masking
from pretrieve.text.blocks import build_blocks
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore
from pretrieve.training import objective
from pretrieve.training.objective import MicroBatch, epoch_order

LENGTH, BATCH = 24, 10


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """17 passages of 1 to 36 tokens in 4 articles, and three without a token."""
    lengths = [1, 2, 3, 5, 8, 0, 9, 11, 12, 17, 21, 22, 0, 23, 25, 30, 36, 6, 4, 0]
    passages = [[n] if n < 9 else [n // 3, n - n // 3] for n in lengths]
    return make_store(tmp_path_factory.mktemp("store"), [passages[i::4] for i in range(4)])


def source(corpus: TokenStore, budget: int | None = None, seed: int = 3, **options) -> MaskedPassages:
    masking = Masking("word", 0.3)
    return MaskedPassages(corpus, seed, options.pop("batch", BATCH), TextForm(LENGTH, **options), masking, budget)


def parts_of(corpus: TokenStore, budget: int | None, parts: int, step: int, **options) -> list[MicroBatch]:
    return source(corpus, budget, **options).micro_batches(step, parts, "cpu", lambda m: {"w": len(m.positions)})


@pytest.mark.parametrize("kind", ["passages", "blocks"])
@pytest.mark.parametrize(("budget", "parts"), [(60, 1), (25, 1), (1, 1), (10**6, 3), (60, 4), (10**6, 10)])
def test_a_cut_changes_nothing(corpus: TokenStore, kind: str, budget: int, parts: int) -> None:
    """Tokens, masks, replacements, draws, counts and ids, put together again, are those of the whole step."""
    for step in range(5):
        (whole,) = parts_of(corpus, None, 1, step, examples=kind)
        pieces = parts_of(corpus, budget, parts, step, examples=kind)
        assert len(pieces) >= max(2, parts) and len(pieces) % parts == 0
        assert all(piece.tokens <= budget or len(piece.ids) == 1 for piece in pieces)
        data = [piece.data for piece in pieces]
        for name in ("tokens", "segments", "lengths"):
            joined = np.concatenate([getattr(d.corrupted, name) for d in data])
            assert (joined == getattr(whole.data.corrupted, name)).all(), name
        assert (np.concatenate([d.original for d in data]) == whole.data.original).all()
        assert (np.concatenate([d.draws for d in data]) == whole.data.draws).all()
        offsets = np.cumsum([0, *(piece.tokens for piece in pieces)])[:-1]
        joined = np.concatenate([d.positions + offset for d, offset in zip(data, offsets, strict=True)])
        assert (joined == whole.data.positions).all() and len(joined) >= BATCH
        assert (np.concatenate([piece.ids for piece in pieces]) == whole.ids).all()
        assert sum(piece.counts["w"] for piece in pieces) == whole.counts["w"] == len(whole.data.positions)
        assert sum(piece.tokens for piece in pieces) == whole.tokens == len(whole.data.original)
        for d in data:
            batch, (rows, targets) = d.batch("cpu"), d.targets("cpu")
            assert len(batch) == len(d.draws) == len(d.corrupted.lengths) and rows.dtype == torch.int64
            assert (targets.numpy() == d.original[d.positions]).all()


@pytest.mark.parametrize("lengths", [[3] * 9, [100, 3, 3, 3], [9, 9, 3, 3, 3, 3, 3], [5] * 12, [7]])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 8])
def test_every_process_gets_as_many_parts(lengths: list[int], parts: int) -> None:
    """Where there are as many sequences; and cut in order, nothing twice or missing."""
    sizes = np.array(lengths)
    tokens = np.arange(sizes.sum())
    packed = Packed(tokens, np.zeros_like(tokens), sizes, np.arange(len(sizes)))
    masked = Masked(packed, tokens, tokens[::2], np.arange(len(sizes)))
    for budget in (1, 6, 20, 1000):
        pieces = cut(masked, budget, parts)
        assert len(pieces) >= min(parts, len(lengths))
        assert len(pieces) % parts == 0 or len(pieces) == len(lengths)
        bounds = [bound for first, last, _ in pieces for bound in (first, last)]
        assert bounds[0] == 0 and bounds[-1] == len(lengths) and bounds[1:-1:2] == bounds[2::2]
        assert all(first < last for first, last, _ in pieces)
        assert np.concatenate([piece.original for _, _, piece in pieces]).tolist() == tokens.tolist()


def test_a_text_and_its_masks_belong_together(corpus: TokenStore) -> None:
    """Each sequence is [CLS] text [SEP] of the passage that its id names, also where the passage is too long; what is
    not predicted is not changed; and a word is predicted as the corpus has it. (The released Condenser draws the
    window of an over-long text twice, and so masks positions of another window than it reads.)"""
    long = changed = 0
    for step in range(8):
        masked, ids = source(corpus).draw(step)
        packed = masked.corrupted
        assert (np.diff(packed.lengths) <= 0).all() and sorted(masked.draws) == list(
            range(step * BATCH, (step + 1) * BATCH)
        )
        for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
            first, last = corpus.sentence_starts[corpus.passage_starts[[ids[i], ids[i] + 1]]]
            text = corpus.tokens[first:last].tolist()
            expected = [corpus.special.cls, *text[: LENGTH - 2], corpus.special.sep]
            assert masked.original[start : start + length].tolist() == expected and length >= 3
            long += len(text) > LENGTH - 2
        elsewhere = np.ones(len(packed.tokens), dtype=bool)
        elsewhere[masked.positions] = False
        assert (packed.tokens[elsewhere] == masked.original[elsewhere]).all()
        changed += int((packed.tokens != masked.original).sum())
        assert not np.isin(masked.original[masked.positions], list(vars(corpus.special).values())).any()
    assert long > 8 and changed > 100


def test_draws_follow_the_sequence(corpus: TokenStore) -> None:
    """The draw of a sequence is step · batch + its place in the order of the epoch, and so its own in the whole run."""
    seen: list[int] = []
    for step in range(6):
        masked, ids = source(corpus).draw(step)
        by_draw = ids[np.argsort(masked.draws)]
        items = np.flatnonzero(np.diff(corpus.sentence_starts[corpus.passage_starts]))
        assert len(items) == 17
        assert by_draw.tolist() == items[epoch_order(17, 3, step * BATCH, BATCH)].tolist()
        seen += masked.draws.tolist()
    assert sorted(seen) == list(range(6 * BATCH))


def test_blocks_as_examples(corpus: TokenStore) -> None:
    blocks = build_blocks(corpus, LENGTH - 2)
    ids = []
    for step in range(4):
        masked, chosen = source(corpus, examples="blocks", batch=len(blocks)).draw(step)
        starts = masked.corrupted.starts
        for start, length, block in zip(starts, masked.corrupted.lengths, chosen, strict=True):
            text = corpus.tokens[blocks.starts[block] : blocks.starts[block] + blocks.lengths[block]].tolist()
            assert masked.original[start : start + length].tolist() == [corpus.special.cls, *text, corpus.special.sep]
        ids.append(sorted(chosen.tolist()))
    assert ids == [list(range(len(blocks)))] * 4 and len(blocks) > 10


def test_a_step_is_of_seed_and_step(corpus: TokenStore) -> None:
    """Whatever was asked for before, and however often."""

    states = iter(range(10))

    def tokens(seed: int, step: int) -> list[int]:
        np.random.seed(next(states))  # the state that must not matter
        return source(corpus, seed=seed).draw(step)[0].corrupted.tokens.tolist()

    first = tokens(3, 4)
    assert first == tokens(3, 4) and first != tokens(3, 5) and first != tokens(4, 4)
    one = source(corpus)
    for step in (9, 0, 4):
        again = one.draw(step)[0].corrupted.tokens.tolist()
    assert again == first


@pytest.mark.parametrize("n", [1, 7, 20])
def test_epochs(n: int) -> None:
    """Every epoch holds every item once, in an order of its own, wherever a step begins."""
    whole = epoch_order(n, 3, 0, 5 * n)
    epochs = [whole[first : first + n].tolist() for first in range(0, 5 * n, n)]
    assert all(sorted(epoch) == list(range(n)) for epoch in epochs)
    assert n == 1 or len({tuple(epoch) for epoch in epochs}) == 5
    for position in range(3 * n):
        for count in (0, 1, n, 2 * n - 1):
            assert epoch_order(n, 3, position, count).tolist() == whole[position : position + count].tolist()
    assert n == 1 or epoch_order(n, 4, 0, n).tolist() != epochs[0]


def test_an_epoch_is_shuffled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every step: shuffling a corpus costs more than a step. And nobody can spoil the order that is kept."""
    objective._shuffled.cache_clear()
    made = []
    make = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda key: made.append(key) or make(key))
    for step in range(40):
        epoch_order(100, 8, step * 5, 5)[:] = -1
    assert made == [[8, 101, 0], [8, 101, 1]]
    assert sorted(epoch_order(100, 8, 0, 100)) == list(range(100))


def test_mistakes(tmp_path: Path, corpus: TokenStore) -> None:
    empty = make_store(tmp_path, [[[0], [0, 0]], []])
    for kind in ("passages", "blocks"):
        with pytest.raises(DataError, match="no passage has a token"):
            source(empty, examples=kind)
    with pytest.raises(ConfigError, match="length=2"):
        MaskedPassages(corpus, 0, 4, TextForm(2), Masking())
