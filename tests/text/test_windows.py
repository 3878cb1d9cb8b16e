"""Windows of long passages: by hand, against plain slices of the tokens, and the first one against FirstP.

Seen to fail when: windows overlap; the last window is dropped or longer than what is left; the limit is one more; a document
without tokens has no window; the front is left out of the later windows, or of the room; a title is not limited; segments begin
one token late; a document's offsets begin with the passage before it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_sentences import sentence_of
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError
from pretrieve.text.packing import Packed, pack_passages, passage_spans
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import NO_TOKEN
from pretrieve.text.windows import PassageWindows, cut_windows


def in_order(packed: Packed) -> list[tuple[list[int], list[int]]]:
    """(tokens, segments) of each sequence, in the caller's order."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for place, example in enumerate(packed.order):
        rows = packed.rows(place, place + 1)
        found[int(example)] = (packed.tokens[rows].tolist(), packed.segments[rows].tolist())
    return [found[example] for example in range(len(found))]


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory, vocabulary: Tokenizer) -> TokenStore:
    """Passages of many, one, no and a few sentences; titles of the first two and a long one for the last."""
    texts = [
        ["It is a boat.", "The anchor holds the boat to the bed of the sea."] * 6,
        ["A ketch."],
        [],
        ["Iron came."],
    ]
    passages = [PassageText(sentences, i, i) for i, sentences in enumerate(texts)]
    titles = ["Boat", "Small ketch", "", "anchor of the sea " * 8]
    return write_token_store(tmp_path_factory.mktemp("long"), vocabulary, passages, titles)


def test_by_hand() -> None:
    windows = cut_windows(np.array([10, 3, 0, 7]), np.array([4, 3, 4, 2]), limit=3)
    assert windows.documents.tolist() == [0, 0, 0, 1, 2, 3, 3, 3]
    assert windows.offsets.tolist() == [0, 4, 8, 0, 0, 0, 2, 4]
    assert windows.lengths.tolist() == [
        4,
        4,
        2,
        3,
        0,
        2,
        2,
        2,
    ]  # the last token of the last document is beyond the limit
    assert len(cut_windows(np.array([10]), np.array([4]), limit=1)) == 1


@pytest.mark.parametrize("limit", [2, 4, 100])
@pytest.mark.parametrize("front", ["none", "sentence", "title"])
def test_against_slices(long_store: TokenStore, front: str, limit: int) -> None:
    store, length = long_store, 16
    passages = np.arange(4)
    sentences = np.array([1, 12, -1, 13]) if front == "sentence" else np.full(4, -1)
    titled = np.ones(4, dtype=bool) if front == "title" else None
    cut = PassageWindows(store, sentences, passages, length, limit, titled)
    found = in_order(cut.pack(np.arange(len(cut))))
    starts, lengths = passage_spans(store, passages)
    expected, owners = [], []
    for passage in range(4):
        tokens = store.tokens[starts[passage] : starts[passage] + lengths[passage]].tolist()
        head = [store.special.cls]
        before = []
        if front == "sentence" and sentences[passage] >= 0:
            before = sentence_of(store, sentences[passage]).tolist()
        if front == "title":
            before = store.title_tokens[store.title_starts[passage] : store.title_starts[passage + 1]].tolist()
        if before:
            head += [*before[: length // 2], store.special.sep]
        room = length - len(head) - 1
        for begin in list(range(0, max(len(tokens), 1), room))[:limit]:
            piece = [*tokens[begin : begin + room], store.special.sep]
            expected.append((head + piece, [0] * len(head) + [int(bool(before))] * len(piece)))
            owners.append(passage)
    assert found == expected and cut.windows.documents.tolist() == owners
    assert owners.count(0) > 2 or limit == 2
    assert max(len(tokens) for tokens, _ in found) == length and {1, 2} <= set(owners)


@pytest.mark.parametrize("length", [12, 16, 200])
def test_the_first_window_is_what_firstp_reads(long_store: TokenStore, length: int) -> None:
    store, passages, sentences = long_store, np.arange(4), np.array([0, -1, 1, 13])
    cut = PassageWindows(store, sentences, passages, length, 3)
    first = np.searchsorted(cut.windows.documents, passages)
    firstp = PassageWindows(store, sentences, passages, length, 1)
    assert in_order(cut.pack(first)) == in_order(firstp.pack(np.arange(4)))
    titled = np.array([True, False, True, False])
    cut = PassageWindows(store, np.full(4, -1), passages, length, 3, titled)
    first = np.searchsorted(cut.windows.documents, passages)
    # Passage 2 has an empty title, which is no front here.
    wanted = in_order(pack_passages(store, passages, length, titled=titled & (passages != 2), articles=passages))
    assert in_order(cut.pack(first)) == wanted
    if length == 200:
        assert len(cut) == 4  # everything fits: one window each


def test_any_rows_in_any_order(long_store: TokenStore) -> None:
    cut = PassageWindows(long_store, np.full(4, -1), np.array([3, 0, 0, 1]), 9, 3)
    all_of_them = in_order(cut.pack(np.arange(len(cut))))
    rows = np.array([4, 0, 2, 2])
    assert in_order(cut.pack(rows)) == [all_of_them[row] for row in rows]
    assert cut.windows.documents.tolist() == [0, 1, 1, 1, 2, 2, 2, 3] and all_of_them[1] == all_of_them[4]


def test_without_cls(long_store: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """T5's texts have none, so a window is one token longer."""
    special = long_store.special
    with_cls = PassageWindows(long_store, np.full(4, -1), np.arange(4), 10, 2)
    without = type(special)(special.pad, special.unk, NO_TOKEN, special.sep, special.mask)
    monkeypatch.setattr(long_store, "special", without)
    cut = PassageWindows(long_store, np.full(4, -1), np.arange(4), 10, 2)
    assert cut.windows.lengths[0] == 9 == with_cls.windows.lengths[0] + 1
    tokens, segments = in_order(cut.pack(np.array([1])))[0]
    assert tokens == [*long_store.tokens[9:18].tolist(), special.sep] and set(segments) == {0}


def test_no_room(long_store: TokenStore) -> None:
    with pytest.raises(ConfigError, match="passage_length 4 leaves no room"):
        PassageWindows(long_store, np.array([1]), np.array([0]), 4, 2)
    assert len(PassageWindows(long_store, np.empty(0, np.int64), np.empty(0, np.int64), 4, 2)) == 0


def test_the_fixture_is_long_enough(long_store: TokenStore, tmp_path: Path) -> None:
    _, lengths = passage_spans(long_store, np.arange(4))
    assert lengths[0] > 60 and 0 < lengths[1] < 10 and lengths[2] == 0
    assert np.diff(long_store.title_starts)[3] > 8
