"""Training pairs for a corpus that has neither training questions nor sentences: two crops of one document.

Contriever, Izacard et al. 2022 (https://openreview.net/forum?id=jKN1pXi7b0), §3.1: independent random cropping. Two spans of
words are drawn from a document, each without regard to the other; one is the query, the other is what it has to find.
Lengths as in their appendix A.1: a piece of 256 words (theirs: tokens), and 5 % to 50 % of it for a crop, here at least two
words. Every other document is a crop of itself as well, so that nothing can be told by length. Their deletion of words is
omitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.benchmarks.made.corpus_pairs import draw, word_spans
from pretrieve.corpora.beir_documents import read_documents
from pretrieve.tasks.splits import draw_key

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter

#: Words of a document that a crop can be made of, and of the shortest crop.
SHORTEST, LEAST_CROP = 4, 2
#: Words of the piece that crops are drawn from, and their shares of it.
PIECE, LEAST, MOST = 256, 0.05, 0.5


def read_random_crops(files: Mapping[str, Path], writer: CollectionWriter, pairs: int = 2000, seed: int = 1) -> None:
    """Write the collection.

    files: ``corpus``, a ``corpus.jsonl``. pairs: at most this many are drawn, one from a document; a tenth of them is dev, a
    tenth test. seed: decides documents, crops and splits.

    Raises what :func:`~pretrieve.benchmarks.made.corpus_pairs.draw` raises; a document needs 4 words.
    """
    path = files["corpus"]
    split_of = draw(path, writer, has_crops, f"{SHORTEST} words", pairs, seed)
    writer.variant = f"random crops: {len(split_of)} pairs, every document a crop of itself"
    queries: list[tuple[str, str, str]] = []
    for line, (doc_id, title, text) in read_documents(path, writer.warnings):
        writer.at(path, line)
        if has_crops(text):
            spans = word_spans(text)
            first = draw_key(seed, f"piece of {doc_id}") % max(1, len(spans) - PIECE + 1)
            piece = spans[first : first + PIECE]
            if doc_id in split_of:
                queries.append((doc_id, _crop(text, piece, draw_key(seed, f"query of {doc_id}")), split_of.pop(doc_id)))
            text = _crop(text, piece, draw_key(seed, f"passage of {doc_id}"))
        writer.add_document(doc_id, title, text)
    for doc_id, query, split in queries:
        writer.add_query(f"crop-{doc_id}", query, split)
        writer.add_judgement(f"crop-{doc_id}", doc_id, 1, split)


def has_crops(text: str) -> bool:
    """Whether a text has the words that two crops need."""
    return len(word_spans(text)) >= SHORTEST


def _crop(text: str, piece: list[tuple[int, int]], key: int) -> str:
    """A span of a piece of 4 words or more; the bits of ``key`` decide length and place."""
    least = max(LEAST_CROP, math.ceil(LEAST * len(piece)))
    length = least + (key & 0xFFFFFFFF) % (max(least, int(MOST * len(piece))) - least + 1)
    first = (key >> 32) % (len(piece) - length + 1)
    return text[piece[first][0] : piece[first + length - 1][1]]
