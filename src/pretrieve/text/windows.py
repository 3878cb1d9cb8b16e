"""Long documents as several passages: windows of tokens for MaxP (Dai & Callan 2019; Xiong et al. 2021, §4).

A document of L tokens and an encoder that reads ``r`` of them at a time give ``⌈L/r⌉`` windows, at most ``limit``::

    window k = tokens k·r .. min((k+1)·r, L) − 1          k = 0, 1, …

and the document's score is the greatest of its windows' scores. Paper ``seed_encoder`` (§4.2, on MARCO documents): "ANCE (FirstP)
only uses one vector per document from its first passage, while ANCE (MaxP) uses four vectors per document from its first four
passages". The windows follow one another without overlap, and what stands in front of a passage (a title, or the sentence
of a ReQA candidate) stands in front of each of its windows. So the first window is exactly what FirstP reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pretrieve.base.errors import ConfigError
from pretrieve.text.packing import Packed, Part, constant, pack, passage_spans, ragged_arange, second_segment
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import NO_TOKEN


@dataclass(frozen=True)
class Windows:
    """W windows of n documents, in order: ``documents`` (W,) row of the document, ascending; ``offsets`` (W,) first token within
    its passage; ``lengths`` (W,) tokens."""

    documents: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.documents)


def cut_windows(lengths: np.ndarray, room: np.ndarray, limit: int) -> Windows:
    """Windows of documents of ``lengths`` (n,) tokens, ``room`` (n,) tokens each, at most ``limit`` a document.

    A document without tokens has one window without tokens, so each document has at least one.

    >>> windows = cut_windows(np.array([7, 0, 3]), np.array([3, 3, 3]), limit=2)
    >>> windows.documents.tolist(), windows.offsets.tolist(), windows.lengths.tolist()
    ([0, 0, 1, 2], [0, 3, 0, 0], [3, 3, 0, 3])
    """
    counts = np.clip(-(-lengths // room), 1, limit)
    documents = np.repeat(np.arange(len(lengths)), counts)
    offsets = ragged_arange(counts) * room[documents]
    return Windows(documents, offsets, np.minimum(room[documents], lengths[documents] - offsets))


class PassageWindows:
    """The windows of candidates: ``[CLS] (front [SEP])? window [SEP]``, at most ``max_length`` tokens; for ReQA
    ``[CLS] sentence [SEP] passage [SEP]`` (paper ``pretraining_tasks`` §4.1, downstream tasks).

    passages (n,); sentences (n,) sentence in front of each, or -1 for none; titled (n,) bool: those without a sentence that have
    their article's title in front, if it has any. A front takes at most half of the room, so that its passage is never cut away;
    what comes after it stands in segment 1.

    Raises ConfigError when ``max_length`` leaves no room for a window.
    """

    def __init__(
        self,
        store: TokenStore,
        sentences: np.ndarray,
        passages: np.ndarray,
        max_length: int,
        limit: int,
        titled: np.ndarray | None = None,
    ) -> None:
        self._store, self._max_length = store, max_length
        has = sentences >= 0
        safe = np.maximum(sentences, 0)
        self._sentence_starts = store.sentence_starts[safe]
        sentence_lengths = np.where(has, store.sentence_starts[safe + 1] - self._sentence_starts, 0)
        self._title_starts, title_lengths = np.zeros_like(safe), np.zeros_like(safe)
        if titled is not None and titled.any():
            articles = store.article_of(passages)
            self._title_starts = store.title_starts[articles]
            title_lengths = np.where(titled & ~has, store.title_starts[articles + 1] - self._title_starts, 0)
        half = max_length // 2
        self._sentence_lengths, self._title_lengths = (
            np.minimum(sentence_lengths, half),
            np.minimum(title_lengths, half),
        )
        self._fronted = has | (self._title_lengths > 0)
        self._starts, lengths = passage_spans(store, passages)
        self._first = self._sentence_lengths + self._title_lengths + 1 + (store.special.cls != NO_TOKEN)
        # [CLS], front and [SEP], then the window, then [SEP]
        room = max_length - 1 - np.where(self._fronted, self._first, self._first - 1)
        if len(room) and room.min() < 1:
            raise ConfigError(f"passage_length {max_length} leaves no room for a passage after its title or sentence.")
        self.windows = cut_windows(lengths, room, limit)

    def __len__(self) -> int:
        return len(self.windows)

    def pack(self, rows: np.ndarray) -> Packed:
        """The windows of rows (m,)."""
        store, owner, n = self._store, self.windows.documents[rows], len(rows)
        packed = pack(
            [
                constant(store.special.cls, n),
                Part(store.title_tokens, self._title_starts[owner], self._title_lengths[owner]),
                Part(store.tokens, self._sentence_starts[owner], self._sentence_lengths[owner]),
                constant(store.special.sep, n, where=self._fronted[owner]),
                Part(store.tokens, self._starts[owner] + self.windows.offsets[rows], self.windows.lengths[rows]),
                constant(store.special.sep, n),
            ],
            self._max_length,
        )
        return second_segment(packed, self._first[owner], self._fronted[owner])
