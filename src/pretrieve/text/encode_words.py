"""Texts → token ids, with every word looked up in the vocabulary once.

A BERT-style tokenizer normalises a text character by character (control characters go, ideographs get blanks around them, accents
go, letters become small), cuts it at blanks and punctuation, and splits each word by itself into word pieces. So the ids
of a text are those of its words, one after another, and

* blanks around an ASCII punctuation mark change nothing: the mark is a word of its own anyway;
* A-Z can be made small beforehand: no later step looks at case;
* what stands between two blanks has the same ids in any text, because no step looks past a blank. Accents are taken off after
  canonical decomposition, which reorders marks after a letter, and a blank ends such a run of marks.

A text is therefore cut at blanks and ASCII punctuation, and each piece, whatever characters it has, gets its ids from a table.
Pieces that are not in the table go through the library, all those of a batch as one text ``piece . piece . piece``,
which is cut at the id of the full stop: no piece has one, and no other character is normalised to one. The pieces' ids
lie in one array, and a batch of texts is one gather from it. The ids are the library's for *any* text; for other
kinds of tokenizers, the library does it all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

#: Texts at a time, and pieces or ids in the table before it is begun anew (about 50 MB).
BATCH, PIECES, IDS = 4096, 1 << 18, 1 << 20

_PUNCTUATION = [bytes([c]) for c in range(33, 127) if not chr(c).isalnum()]
_STOP = "."
# No text has this byte, for UTF-8 never uses it.
_END = b"\xff"


def word_by_word(tokenizer: Tokenizer) -> bool:
    """Whether the ids of a text are those of its words, by the rules of this module."""
    normaliser = tokenizer.normalizer
    return (
        isinstance(tokenizer.model, models.WordPiece)
        and isinstance(normaliser, normalizers.BertNormalizer)
        and normaliser.lowercase
        and normaliser.clean_text
        and isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and tokenizer.token_to_id(_STOP) is not None
        # Those that are looked for in the raw text leave a text without them as it is.
        and not any(token.normalized for token in tokenizer.get_added_tokens_decoder().values())
        and tokenizer.truncation is None
        and tokenizer.padding is None
    )


class WordTable:
    """The ids of every piece seen so far; bounded: a full table is begun anew."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._stop = tokenizer, tokenizer.token_to_id(_STOP)
        self._clear()

    def _clear(self) -> None:
        # Entry 0 is the end of a text, which has no ids; 1 the full stop, which cuts the others apart.
        self._number = {_END: 0, _STOP.encode(): 1}
        self._ids = np.array([self._stop], dtype=np.int32)
        self._lengths = np.array([0, 1], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._number)

    def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all texts, end to end, and how many each has (n,)."""
        if len(self._number) > PIECES or len(self._ids) > IDS:
            self._clear()
        pieces = _pieces(texts)
        number = self._number
        missing = [piece for piece in dict.fromkeys(pieces) if piece not in number]
        if missing:
            self._learn(missing)
        entries = np.fromiter(map(number.__getitem__, pieces), dtype=np.int64, count=len(pieces))
        lengths = self._lengths[entries]
        ends = np.cumsum(lengths)
        first = (np.cumsum(self._lengths) - self._lengths)[entries]
        ids = self._ids[np.arange(ends[-1]) + np.repeat(first - (ends - lengths), lengths)]
        return ids, np.diff(ends[entries == 0], prepend=0)

    def _learn(self, pieces: list[bytes]) -> None:
        text = f" {_STOP} ".join(piece.decode() for piece in pieces)
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        ids = np.array(encoding.ids, dtype=np.int32)
        stops = np.flatnonzero(ids == self._stop)
        if len(stops) != len(pieces) - 1:
            raise AssertionError(f"{len(pieces)} pieces came back as {len(stops) + 1}")
        lengths = np.diff(stops, prepend=-1, append=len(ids)) - 1
        self._number.update(zip(pieces, range(len(self._number), len(self._number) + len(pieces)), strict=True))
        self._ids = np.concatenate([self._ids, np.delete(ids, stops)])
        self._lengths = np.concatenate([self._lengths, lengths])


def _pieces(texts: list[str]) -> list[bytes]:
    """What stands between blanks and ASCII punctuation marks, and the marks, each text followed by ``_END``."""
    joined = b"".join(b"%b %b " % (text.encode(), _END) for text in texts)
    # These two the normaliser deletes, but split() takes them for blanks.
    joined = joined.translate(None, b"\x0b\x0c").lower()
    for mark in _PUNCTUATION:
        joined = joined.replace(mark, b" %b " % mark)
    return joined.split()


def encode_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids of the texts without special tokens, in batches: (ids of n texts, end to end; how many each has (n,)).

    Equal to ``tokenizer.encode(text, add_special_tokens=False).ids`` for every text.
    """
    table = WordTable(tokenizer) if word_by_word(tokenizer) else None
    # A published tokenizer finds "[MASK]" in a text and makes it that token; such a batch is the library's.
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    texts = iter(texts)
    while batch := list(islice(texts, BATCH)):
        if table is not None and not any(content in text for text in batch for content in added):
            yield table.encode(batch)
        else:
            encoded = [e.ids for e in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]
            lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
            yield np.fromiter((i for ids in encoded for i in ids), dtype=np.int32, count=int(lengths.sum())), lengths
