"""The decoder's masks against the same rule in plain Python, and what it is for: no row sees the word that it predicts.

Seen to fail when: the diagonal is visible; [CLS] can be hidden; padding is seen; there is a mask too many; rows draw
among the masks of the group's longest text, or take the first text's; each row has its own mask where a number is
asked for; both kinds of draws are one; masks depend on the padding, on the place in the cut, or not on the sequence;
words are those of the masked text; the count is that of the longest text.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_store import make_store
from test_hashed import splitmix

from pretrieve.models.batch import WASTE, Batch
from pretrieve.pretraining.examples import MaskedPassages, TextForm
from pretrieve.pretraining.masking import Masking
from pretrieve.pretraining.row_masks import RowMasks
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore

LENGTH, BATCH, SEED = 22, 24, 7
KINDS = [("word", 256), ("word", "all"), ("token", "all"), ("token", 3), ("word", 1)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """Texts of every length from 1 to 20 tokens, some several times."""
    return make_store(tmp_path_factory.mktemp("store"), [[[n]] for n in [*range(1, 21), 20, 20, 19, 7]])


@pytest.fixture(autouse=True, params=[0.0, 0.3], ids=["equal", "padded"])
def _groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of equal lengths, as on a CPU, and groups with padding, as on a GPU."""
    monkeypatch.setitem(WASTE, "cpu", request.param)


def masks_of(unit: str, masks: int | str, rate: float = 0.5, seed: int = SEED, of: str = "all") -> RowMasks:
    return RowMasks(Masking(unit, rate, of), masks, seed)


def sequences(corpus: TokenStore, budget: int | None = None, step: int = 0):
    """The step's examples, cut at the budget."""
    examples = MaskedPassages(corpus, 3, BATCH, TextForm(LENGTH), Masking("word", 0.3, "all"), budget)
    return [part.data for part in examples.micro_batches(step, 1, "cpu", lambda masked: {})]


def visible_of(masks: RowMasks, masked, corpus: TokenStore) -> list[np.ndarray]:
    """(L, L) bool of each sequence, without padding."""
    batch = Batch.of(masked.corrupted)
    result = []
    groups = masks.of(masked.corrupted, masked.original, masked.draws, corpus, batch)
    for (first, last, _, _, longest, _), visible in zip(batch.groups, groups, strict=True):
        assert visible.shape == (last - first, 1, longest, longest) and visible.dtype == torch.bool
        for i, length in enumerate(masked.corrupted.lengths[first:last].tolist()):
            own = visible[i, 0].numpy()
            assert not own[:, length:].any()  # padding is seen by no row
            assert own.any(axis=1).all()  # and no softmax is over nothing, not even in a row of padding
            result.append(own[:length, :length])
    return result


def words_by_hand(tokens: list[int], corpus: TokenStore, unit: str) -> list[list[int]]:
    """Columns of each word."""
    words: list[list[int]] = []
    for column in range(1, len(tokens) - 1):
        if words and unit == "word" and not corpus.word_starts[tokens[column]]:
            words[-1].append(column)
        else:
            words.append([column])
    return words


def visible_by_hand(tokens: list[int], draw: int, corpus: TokenStore, unit: str, masks: int | str) -> np.ndarray:
    """RetroMAE's data.py:44-57 for one text, with hashed numbers for random ones."""
    length = len(tokens)
    words = words_by_hand(tokens, corpus, unit)
    count = length if masks == "all" else min(length, masks)
    mask_set = []
    for mask in range(count):
        order = sorted(range(len(words)), key=lambda word: splitmix(SEED, draw, 0, mask, word))
        wanted, hidden = max(1, round(length * 0.5)), set()
        for word in order:
            if len(hidden) + len(words[word]) <= wanted:
                hidden |= set(words[word])
        mask_set.append(hidden)
    matrix = np.ones((length, length), dtype=bool)
    for row in range(length):
        taken = row if masks == "all" else (splitmix(SEED, draw, 1, row) >> 1) % 2**63 % count
        matrix[row, [*mask_set[taken], row]] = False
    return matrix


@pytest.mark.parametrize(("unit", "masks"), KINDS)
def test_against_plain_python(corpus: TokenStore, unit: str, masks: int | str) -> None:
    (masked,) = sequences(corpus)
    found = visible_of(masks_of(unit, masks), masked, corpus)
    assert len({len(v) for v in found}) == 20 and len(found) == BATCH
    for visible, start, draw in zip(found, masked.corrupted.starts, masked.draws.tolist(), strict=True):
        tokens = masked.original[start : start + len(visible)].tolist()
        assert (visible == visible_by_hand(tokens, draw, corpus, unit, masks)).all()


@pytest.mark.parametrize(("unit", "masks"), KINDS)
def test_what_is_always_hidden_and_never(corpus: TokenStore, unit: str, masks: int | str) -> None:
    """Itself always; [CLS] and [SEP] never, but from themselves."""
    (masked,) = sequences(corpus)
    for visible in visible_of(masks_of(unit, masks), masked, corpus):
        assert not visible.diagonal().any()
        assert visible[1:, 0].all() and visible[:-1, -1].all()


@pytest.mark.parametrize("rate", [0.15, 0.5, 0.9])
@pytest.mark.parametrize("of", ["all", "ordinary"])
def test_exact_counts_of_tokens(corpus: TokenStore, rate: float, of: str) -> None:
    """``round(rate · L)``, half to even, at least one and at most all; and the row's own word, if it is not in."""
    (masked,) = sequences(corpus)
    exact = 0
    for visible in visible_of(masks_of("token", "all", rate, of=of), masked, corpus):
        length = len(visible)
        wanted = min(max(1, round(rate * (length if of == "all" else length - 2))), length - 2)
        hidden = (~visible).sum(axis=1)
        assert ((hidden == wanted) | (hidden == wanted + 1))[1:-1].all()
        assert (hidden[[0, -1]] == wanted + 1).all()  # whose own words are in no mask
        exact += (hidden[1:-1] == wanted).sum()
    assert exact > 0.05 * len(masked.original)


def test_whole_words(corpus: TokenStore) -> None:
    """A word is hidden or seen as a whole, but for the row's own token; and as many as fit."""
    (masked,) = sequences(corpus)
    several = 0
    for visible, start in zip(
        visible_of(masks_of("word", "all"), masked, corpus), masked.corrupted.starts, strict=True
    ):
        words = words_by_hand(masked.original[start : start + len(visible)].tolist(), corpus, "word")
        # The rows of [CLS] and [SEP] show their mask as it is.
        for hidden in (~visible[0], ~visible[-1]):
            states = [hidden[word] for word in words]
            assert all(state.all() or not state.any() for state in states)
            count, wanted = sum(map(sum, states)), max(1, round(len(visible) * 0.5))
            assert count <= wanted
            assert all(count + len(word) > wanted for word, state in zip(words, states, strict=True) if not state.any())
        several += sum(len(word) > 1 for word in words)
    assert several > 30


def test_neither_cut_nor_group_nor_neighbours_change_a_mask(corpus: TokenStore) -> None:
    for unit, masks in KINDS:
        drawn = masks_of(unit, masks)
        (whole,) = sequences(corpus)
        expected = visible_of(drawn, whole, corpus)
        parts = sequences(corpus, 40)
        assert len(parts) > 5
        found = [visible for part in parts for visible in visible_of(drawn, part, corpus)]
        assert all((a == b).all() for a, b in zip(expected, found, strict=True))
        # All in one group, with much padding, behind a longer text.
        packed = whole.corrupted
        batch = replace(Batch.of(packed), groups=[(0, BATCH, 0, len(packed.tokens), int(packed.lengths[0]), False)])
        (together,) = drawn.of(packed, whole.original, whole.draws, corpus, batch)
        for visible, own in zip(together[:, 0].numpy(), expected, strict=True):
            assert (visible[: len(own), : len(own)] == own).all()


def test_masks_differ(corpus: TokenStore) -> None:
    """Between seeds, steps, sequences, and the rows of a text."""
    (masked,) = sequences(corpus)
    drawn = masks_of("token", "all")
    first = visible_of(drawn, masked, corpus)[0]
    assert len({row.tobytes() for row in first}) == len(first) == LENGTH
    assert (visible_of(masks_of("token", "all", seed=8), masked, corpus)[0] != first).any()
    (later,) = sequences(corpus, step=1)
    assert set(masked.draws) == set(range(BATCH)) and set(later.draws) == set(range(BATCH, 2 * BATCH))
    second = visible_of(drawn, masked, corpus)[1]
    assert len(second) == LENGTH and (second != first).any()


def long_text(corpus: TokenStore, n: int, length: int = 22) -> tuple[Packed, np.ndarray]:
    """n sequences of different single-token words."""
    tokens = np.full((n, length), 5, dtype=np.int64) + np.arange(length)
    tokens[:, 0], tokens[:, -1] = corpus.special.cls, corpus.special.sep
    flat = tokens.reshape(-1)
    return Packed(flat, np.zeros_like(flat), np.full(n, length), np.arange(n)), flat


def test_every_word_is_hidden_equally_often(corpus: TokenStore) -> None:
    n = 400
    packed, tokens = long_text(corpus, n)
    (visible,) = masks_of("token", "all").of(packed, tokens, np.arange(n), corpus, Batch.of(packed))
    share = (~visible[:, 0]).float().mean(0).numpy()  # (row, column) over the sequences
    expected = 11 / 20
    deviation = np.sqrt(expected * (1 - expected) / n)
    off = ~np.eye(22, dtype=bool)
    off[:, [0, -1]] = False
    assert (np.abs(share[off] - expected) <= 5 * deviation).all()
    together = (~visible[:, 0, 0, 1:-1]).float()  # two columns of one row: 11·10 of 20·19
    pairs = (together.T @ together / n).numpy()[~np.eye(20, dtype=bool)]
    assert np.abs(pairs - 11 * 10 / (20 * 19)).max() <= 5 * deviation


def test_rows_draw_with_replacement(corpus: TokenStore) -> None:
    """Of 22 masks 22 rows take about 22·(1 − (21/22)²²) different ones; of a single mask all take it."""
    n = 200
    packed, tokens = long_text(corpus, n)

    def rows_of(masks: int) -> np.ndarray:
        (visible,) = masks_of("token", masks).of(packed, tokens, np.arange(n), corpus, Batch.of(packed))
        return visible[:, 0].numpy()

    for sequence in rows_of(1):
        mask = sequence[0] | (np.arange(22) == 0)
        assert all((row == mask & (np.arange(22) != i)).all() for i, row in enumerate(sequence))
    distinct = []
    for sequence in rows_of(256):
        # Two rows have one mask if they agree but in their own two columns.
        classes: list[int] = []
        for i in range(22):
            agree = [j for j in classes if (np.delete(sequence[i] == sequence[j], [i, j])).all()]
            classes += [] if agree else [i]
        distinct.append(len(classes))
    assert np.mean(distinct) == pytest.approx(22 * (1 - (21 / 22) ** 22), abs=0.5)
