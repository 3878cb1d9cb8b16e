"""Training pairs for a corpus that has no training questions: the inverse cloze task as a collection.

Lee et al. 2019 (https://aclanthology.org/P19-1612, §4); paper ``pretraining_tasks`` §3. A sentence of a document is the
query; the document without that sentence is what it has to find. In a share ``keep`` of the pairs the sentence stays, so
that a model learns to match words too (the ORQA code's ``mask_rate`` of 0.9). A retriever that is fine-tuned on
such pairs has seen no question: it is zero-shot.

Input is ``corpus.jsonl`` of BEIR's layout. It is read twice, so that no text is held: once for the ids that are drawn,
once for the texts. Every document is a candidate; of a document that is drawn, the text without its sentence.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.base.errors import DataError
from pretrieve.corpora.beir_documents import document_fields
from pretrieve.corpora.sentences import sentence_spans
from pretrieve.raw.raw_text import read_json_lines
from pretrieve.tasks.splits import draw_key

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter

#: Words of a sentence that is a query: a shorter one says too little, a longer one is no sentence.
SHORTEST, LONGEST = 4, 64
#: Letters of scripts without blanks between words, of which two count as a word: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han.
_LETTER = re.compile(
    "[\u0e01-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
#: Where a sentence ends besides: behind the marks of Indian scripts, Tibetan, Burmese and Khmer; at a blank of Thai and Lao,
#: which have no mark.
_END = re.compile(r"(?<=[।॥།။។])\s*|(?<=[\u0e01-\u0eff])\s+(?=[\u0e01-\u0eff])")
#: Fewer pairs are no training set.
LEAST_PAIRS = 10
#: Share of the pairs that choose hyper-parameters, and that test; both were never seen in training.
APART = 0.1


def read_inverse_cloze(
    files: Mapping[str, Path], writer: CollectionWriter, pairs: int = 2000, keep: float = 0.1, seed: int = 1
) -> None:
    """Write the collection.

    Parameters
    ----------
    files:
        ``corpus``: ``corpus.jsonl``.
    pairs:
        at most so many pairs are drawn, one from a document; a tenth of them is dev, a tenth test.
    keep:
        share of the pairs whose document keeps the sentence.
    seed:
        decides documents, sentences and splits.

    Raises
    ------
    DataError
        when fewer than 10 documents have two sentences, one of them of 4 to 64 words, and what
        :func:`~pretrieve.raw.raw_text.read_json_lines` raises.
    """
    path = files["corpus"]
    usable = ((draw_key(seed, doc_id), doc_id) for _, doc_id, _, text in _documents(path, writer) if queries_of(text))
    drawn = [doc_id for _, doc_id in heapq.nsmallest(pairs, usable)]
    if len(drawn) < LEAST_PAIRS:
        raise DataError(
            f"{path}: {len(drawn)} documents have two sentences, one of them of {SHORTEST} to {LONGEST} words; expected 10 "
            "or more to make training pairs of: give qrels/train.tsv, or longer documents."
        )
    apart = max(1, round(APART * len(drawn)))
    split_of = dict.fromkeys(drawn, "train") | dict.fromkeys(drawn[:apart], "test")
    split_of |= dict.fromkeys(drawn[apart : 2 * apart], "dev")
    kept = set(drawn[2 * apart :][: round(keep * len(drawn))])
    writer.variant = f"inverse cloze task: {len(drawn)} pairs, the sentence kept in {len(kept)} of them"
    pairs_of: list[tuple[str, str, str]] = []
    for line, doc_id, title, text in _documents(path, writer):
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


def _documents(path: Path, writer: CollectionWriter) -> Iterator[tuple[int, str, str, str]]:
    for line, record in read_json_lines(path, ["_id", "text"], warnings=writer.warnings):
        yield line, *document_fields(record, path, line, writer.warnings)


def queries_of(text: str) -> list[tuple[int, int]]:
    """Offsets of the sentences that can be a query; none of a text of one sentence, for nothing would remain.

    >>> queries_of("It rained. We stayed in the house all day."), queries_of("下雨了。我们整天都待在家里。")
    ([(11, 42)], [(4, 14)])
    """
    spans = [part for start, end in sentence_spans(text) for part in _parts(text, start, end)]
    return [(a, b) for a, b in spans if SHORTEST <= _words(text[a:b]) <= LONGEST] if len(spans) > 1 else []


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence, cut where scripts end one that the splitter does not know."""
    for found in _END.finditer(text, start, end):
        if found.start() > start and found.end() < end:
            yield start, found.start()
            start = found.end()
    yield start, end


def _words(text: str) -> int:
    """What stands between blanks; where there are none, two letters are a word."""
    return len(_LETTER.sub(" ", text).split()) + len(_LETTER.findall(text)) // 2
