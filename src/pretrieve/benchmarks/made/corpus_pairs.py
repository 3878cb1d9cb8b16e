"""Training pairs for a corpus that has no training questions: a retriever that is fine-tuned on them is zero-shot.

* Inverse cloze task, Lee et al. 2019 (https://aclanthology.org/P19-1612, §4); paper ``pretraining_tasks`` §3. A sentence of a
  document is the query; the document without that sentence is what it has to find. In a share ``keep`` of the pairs the sentence
  stays, so that a model learns to match words too (the ORQA code's ``mask_rate`` of 0.9).
* Random crops, for documents without sentences: Contriever, Izacard et al. 2022 (https://openreview.net/forum?id=jKN1pXi7b0),
  §3.1. Two spans of words are drawn from a document, each without regard to the other. Lengths as in their appendix A.1: a piece
  of 256 words (theirs: tokens), and 5 % to 50 % of it for a crop, here at least two words. Every other document is a crop of
  itself as well, so that nothing can be told by length. Their deletion of words is omitted.

Of documents with one text the first is a candidate and the others are left out, for they would be wrong answers to its query.
Input is ``corpus.jsonl`` of BEIR's layout. It is read twice, so that no text is held: once for the ids that are drawn, once for
the texts. A document is drawn by its id and the seed, so the order of the file decides nothing else.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.base.errors import DataError
from pretrieve.corpora.beir_documents import Document, read_documents
from pretrieve.corpora.sentences import sentence_spans
from pretrieve.tasks.splits import draw_key

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter

#: Fewer pairs are no training set.
LEAST_PAIRS = 10
#: Share of the pairs that choose hyper-parameters, and that test; both were never seen in training.
APART = 0.1
#: Scripts without blanks between words, of which two letters count as a word: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han.
UNSPACED = (
    "\u0e01-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\s{UNSPACED}]+")


def draw(
    path: Path, writer: CollectionWriter, usable: Callable[[str], object], what: str, pairs: int, seed: int
) -> dict[str, str]:
    """Id → split (train, dev, test) of at most ``pairs`` documents with different texts that are ``usable``, in the order of the
    draw. ``what``: what these have, for messages.

    Raises DataError when fewer than 10 documents can be drawn.
    """
    texts = DistinctTexts()
    found = (
        (draw_key(seed, document.doc_id), document.doc_id)
        for _, document in read_documents(path, writer.warnings)
        if texts.is_new(document.text) and usable(document.text)
    )
    drawn = [doc_id for _, doc_id in heapq.nsmallest(pairs, found)]
    if len(drawn) < LEAST_PAIRS:
        raise DataError(
            f"{path}: {len(drawn)} documents with texts of their own have {what}; expected {LEAST_PAIRS} or more to make "
            "training pairs of: give qrels/train.tsv, or longer documents."
        )
    apart = max(1, round(APART * len(drawn)))
    split_of = dict.fromkeys(drawn, "train") | dict.fromkeys(drawn[:apart], "test")
    return split_of | dict.fromkeys(drawn[apart : 2 * apart], "dev")


class DistinctTexts:
    """Tells a text from those that came before, by 16 bytes of its hash."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def is_new(self, text: str) -> bool:
        """Whether the text, white space apart, comes for the first time."""
        before = len(self._seen)
        self._seen.add(hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).digest())
        return len(self._seen) > before


def _candidates(path: Path, writer: CollectionWriter) -> Iterator[tuple[int, Document]]:
    """Line and content of each document but those with the text of another one, which are counted."""
    texts = DistinctTexts()
    for line, document in read_documents(path, writer.warnings):
        if document.text.strip() and not texts.is_new(document.text):
            kind = "document with the text of another one, left out"
            writer.warnings.add(kind, f"{path}: line {line}: {document.doc_id!r}")
        else:
            yield line, document


def word_spans(text: str) -> list[tuple[int, int]]:
    """Offsets of what stands between blanks; where there are none, of every two letters.

    >>> word_spans("It rained."), word_spans("下雨了。")
    ([(0, 2), (3, 10)], [(0, 2), (2, 3), (3, 4)])
    """
    return [found.span() for found in _WORD.finditer(text)]


#: Words of a sentence that is a query: a shorter one says too little, a longer one is not a sentence.
SHORTEST, LONGEST = 4, 64
_LETTER = re.compile(f"[{UNSPACED}]")


def read_inverse_cloze(
    files: Mapping[str, Path], writer: CollectionWriter, pairs: int = 2000, keep: float = 0.1, seed: int = 1
) -> None:
    """Write the collection.

    files: ``corpus``: ``corpus.jsonl``; pairs: at most this many pairs are drawn, one from a document; a tenth of them is dev,
    a tenth test; keep: share of the pairs whose document keeps the sentence; seed: decides documents, sentences and splits.

    Raises as :func:`draw` does; a document needs two sentences, one of them of 4 to 64 words.
    """
    path = files["corpus"]
    what = f"two sentences, one of them of {SHORTEST} to {LONGEST} words"
    split_of = draw(path, writer, queries_of, what, pairs, seed)
    train = [doc_id for doc_id, split in split_of.items() if split == "train"]
    kept = set(train[: round(keep * len(split_of))])
    writer.variant = f"inverse cloze task: {len(split_of)} pairs, the sentence kept in {len(kept)} of them"
    pairs_of: list[tuple[str, str, str]] = []
    for line, (doc_id, title, text) in _candidates(path, writer):
        writer.at(path, line)
        split = split_of.pop(doc_id, None)
        if split is not None:
            spans = queries_of(text)
            start, end = spans[draw_key(seed, f"sentence of {doc_id}") % len(spans)]
            pairs_of.append((doc_id, text[start:end], split))
            text = text if doc_id in kept else f"{text[:start].rstrip()} {text[end:].lstrip()}".strip()
        writer.add_document(doc_id, title, text)
    for doc_id, query, split in pairs_of:
        writer.add_query(f"ict-{doc_id}", query, split)
        writer.add_judgement(f"ict-{doc_id}", doc_id, 1, split)


def queries_of(text: str) -> list[tuple[int, int]]:
    """Offsets of the sentences that can be a query; none of a text of one sentence, for nothing would remain.

    >>> queries_of("It rained. We stayed in the house all day."), queries_of("下雨了。我们整天都待在家里。")
    ([(11, 42)], [(4, 14)])
    """
    spans = sentence_spans(text)
    return [(a, b) for a, b in spans if SHORTEST <= _words(text[a:b]) <= LONGEST] if len(spans) > 1 else []


def _words(text: str) -> int:
    """What stands between blanks; where there are none, two letters are a word."""
    return len(_LETTER.sub(" ", text).split()) + len(_LETTER.findall(text)) // 2


#: Words of a document that a crop can be made of, and of the shortest crop.
LEAST_WORDS, LEAST_CROP = 4, 2
#: Words of the piece that crops are drawn from, and their shares of it.
PIECE, LEAST, MOST = 256, 0.05, 0.5


def read_random_crops(files: Mapping[str, Path], writer: CollectionWriter, pairs: int = 2000, seed: int = 1) -> None:
    """Write the collection, as :func:`read_inverse_cloze`. Raises as :func:`draw` does; a document needs 4 words."""
    path = files["corpus"]
    split_of = draw(path, writer, has_crops, f"{LEAST_WORDS} words", pairs, seed)
    writer.variant = f"random crops: {len(split_of)} pairs, every document a crop of itself"
    queries: list[tuple[str, str, str]] = []
    for line, (doc_id, title, text) in _candidates(path, writer):
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
    return len(word_spans(text)) >= LEAST_WORDS


def _crop(text: str, piece: list[tuple[int, int]], key: int) -> str:
    """A span of a piece of 4 words or more; the bits of ``key`` decide length and place."""
    least = max(LEAST_CROP, math.ceil(LEAST * len(piece)))
    length = least + (key & 0xFFFFFFFF) % (max(least, int(MOST * len(piece))) - least + 1)
    first = (key >> 32) % (len(piece) - length + 1)
    return text[piece[first][0] : piece[first + length - 1][1]]
