"""What the readers share that make training pairs of a corpus: which documents are drawn, their splits, and what a word is.

Input is ``corpus.jsonl`` of BEIR's layout. It is read twice, so that no text is held: once for the ids that are drawn, once for
the texts. A document is drawn by its id and the seed, so the order of the file decides nothing; of documents with one text
the first counts, for the others would be its wrong answers.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.beir_documents import read_documents
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
    draw.

    Raises ConfigError when ``pairs`` is below 10, and DataError when fewer than 10 documents can be drawn; ``what`` says what
    they must have.
    """
    if pairs < LEAST_PAIRS:
        raise ConfigError(f"pairs {pairs}: expected {LEAST_PAIRS} or more.")
    texts = DistinctTexts()
    found = (
        (draw_key(seed, document.doc_id), document.doc_id)
        for _, document in read_documents(path, writer.warnings)
        if usable(document.text) and texts.is_new(document.text)
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


def word_spans(text: str) -> list[tuple[int, int]]:
    """Offsets of what stands between blanks; where there are none, of every two letters.

    >>> word_spans("It rained."), word_spans("下雨了。")
    ([(0, 2), (3, 10)], [(0, 2), (2, 3), (3, 4)])
    """
    return [found.span() for found in _WORD.finditer(text)]
