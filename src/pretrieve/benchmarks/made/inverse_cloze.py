"""Training pairs for a corpus that has no training questions: the inverse cloze task as a collection.

Lee et al. 2019 (https://aclanthology.org/P19-1612, §4); paper ``pretraining_tasks`` §3. A sentence of a document is the
query; the document without that sentence is what it has to find. In a share ``keep`` of the pairs the sentence stays, so
that a model learns to match words too (the ORQA code's ``mask_rate`` of 0.9). A retriever that is fine-tuned on
such pairs has seen no question: it is zero-shot.

Every document is a candidate; of a document that is drawn, the text without its sentence. How documents are drawn:
:mod:`pretrieve.benchmarks.made.corpus_pairs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.benchmarks.made.corpus_pairs import UNSPACED, draw
from pretrieve.corpora.beir_documents import read_documents
from pretrieve.corpora.sentences import sentence_spans
from pretrieve.tasks.splits import draw_key

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter

#: Words of a sentence that is a query: a shorter one says too little, a longer one is not a sentence.
SHORTEST, LONGEST = 4, 64
_LETTER = re.compile(f"[{UNSPACED}]")


def read_inverse_cloze(
    files: Mapping[str, Path], writer: CollectionWriter, pairs: int = 2000, keep: float = 0.1, seed: int = 1
) -> None:
    """Write the collection.

    files: ``corpus``: ``corpus.jsonl``; pairs: at most this many pairs are drawn, one from a document; a tenth of them is dev,
    a tenth test; keep: share of the pairs whose document keeps the sentence; seed: decides documents, sentences and splits.

    Raises as :func:`~pretrieve.benchmarks.made.corpus_pairs.draw` does; a document needs two sentences, one of them of 4 to 64
    words.
    """
    path = files["corpus"]
    what = f"two sentences, one of them of {SHORTEST} to {LONGEST} words"
    split_of = draw(path, writer, queries_of, what, pairs, seed)
    train = [doc_id for doc_id, split in split_of.items() if split == "train"]
    kept = set(train[: round(keep * len(split_of))])
    writer.variant = f"inverse cloze task: {len(split_of)} pairs, the sentence kept in {len(kept)} of them"
    pairs_of: list[tuple[str, str, str]] = []
    for line, (doc_id, title, text) in read_documents(path, writer.warnings):
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
