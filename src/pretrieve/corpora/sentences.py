"""Sentence boundaries as character offsets (blingfire: rules compiled to automata, about 35,000 sentences a second)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

import blingfire

#: Ends that blingfire does not know: after the marks of Indian scripts, Tibetan, Burmese and Khmer; at a blank of Thai and Lao,
#: which have no mark.
_END = re.compile(r"(?<=[।॥།။។])\s*|(?<=[\u0e01-\u0eff])\s+(?=[\u0e01-\u0eff])")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """``(start, end)`` character offsets of the sentences of ``text``; empty text has none.

    >>> sentence_spans("It rained. We stayed in."), sentence_spans("बारिश हुई। हम घर पर रहे।")
    ([(0, 10), (11, 24)], [(0, 10), (11, 24)])
    """
    if not text.strip():
        return []
    joined, byte_spans = blingfire.text_to_sentences_and_offsets(text)
    if not joined:
        return [(0, len(text))]
    spans = [(start, end) for start, end in byte_spans if end > start]
    return spans if text.isascii() else [part for span in spans for part in _parts(text, *span)]


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence of blingfire's, cut at the ends that it does not know."""
    for found in _END.finditer(text, start, end):
        if found.start() > start and found.end() < end:
            yield start, found.start()
            start = found.end()
    yield start, end


def sentence_of(spans: list[tuple[int, int]], position: int) -> int:
    """Index of the sentence that holds the character ``position``; the last one that starts at or before it.

    Raises ValueError when there is no sentence at all.
    """
    if not spans:
        raise ValueError("no sentences")
    return max(0, bisect_right(spans, position, key=itemgetter(0)) - 1)
