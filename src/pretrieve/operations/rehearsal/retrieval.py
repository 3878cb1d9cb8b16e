"""Made retrieval benchmarks in their publishers' layouts: MS MARCO, TREC Deep Learning, BEIR, DPR.

Layouts: :mod:`pretrieve.benchmarks.official.msmarco`, :mod:`pretrieve.benchmarks.official.beir`,
:mod:`pretrieve.benchmarks.official.dpr_collection`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from pretrieve.benchmarks.official.beir import SETS
from pretrieve.operations.rehearsal.world import BUILDINGS, SPLITS, Building, asked, others

#: First query id of a split in MS MARCO's files.
_FIRST = {"train": 1000, "dev": 2000, "test": 3000}
#: The sets of BEIR that are for download, as the sources name them.
_CLOSED = ("bioasq", "signal1m", "trec-news", "robust04")
BEIR = [name.replace("/", "-") for name in SETS if name != "msmarco" and name not in _CLOSED]


def _lines(rows: Iterable[Iterable[object]], separator: str = "\t") -> bytes:
    return "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()


def _json_lines(records: Iterable[Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def queries(split: str) -> bytes:
    """``queries.*.tsv``: query id, text."""
    return _lines((_FIRST[split] + b.number, b.question(split)) for b in asked(split))


def judgements(split: str, document: Callable[[Building], str], graded: bool = False) -> bytes:
    """``qrels.*.tsv``: query id, 0, document id, grade; TREC's have grades up to 3, and 0 for judged and not relevant."""
    rows = []
    for building in asked(split):
        query = _FIRST[split] + building.number
        rows.append((query, "Q0" if graded else 0, document(building), 3 if graded else 1))
        if graded:
            rows += [(query, "Q0", document(other), grade) for grade, other in enumerate(others(building, 2))]
    return _lines(rows, " " if graded else "\t")


def _passage(building: Building) -> str:
    return str(building.number)


def _document(building: Building) -> str:
    return f"D{building.number}"


def documents() -> bytes:
    """``msmarco-docs.tsv``: id, url, title, body."""
    return _lines((_document(b), f"https://example.org/{b.number}", b.title, b.text) for b in BUILDINGS)


def beir_corpus() -> bytes:
    """``corpus.jsonl``."""
    return _json_lines({"_id": f"d{b.number}", "title": b.title, "text": b.text, "metadata": {}} for b in BUILDINGS)


def beir_queries() -> bytes:
    """``queries.jsonl``: of all splits."""
    return _json_lines(
        {"_id": f"{split}{b.number}", "text": b.question(split), "metadata": {}}
        for split in SPLITS
        for b in asked(split)
    )


def beir_judgements(split: str) -> bytes:
    """``qrels/*.tsv``, with its header."""
    rows = [(f"{split}{b.number}", f"d{b.number}", 1) for b in asked(split)]
    return _lines([("query-id", "corpus-id", "score"), *rows])


def wikipedia_passages() -> bytes:
    """``psgs_w100.tsv``: header, id from 1, quoted text, title."""
    return _lines([("id", "text", "title"), *((b.number + 1, f'"{b.text}"', b.title) for b in BUILDINGS)])


def training_file(split: str, id_key: str) -> bytes:
    """``biencoder-*.json``: one array; ``id_key``: what the set calls a passage's id."""

    def passage(building: Building) -> dict[str, str]:
        return {"title": building.title, "text": building.text, id_key: str(building.number + 1)}

    records = [
        {
            "question": b.question(split).lower().rstrip("?"),
            "answers": [b.answer(split)],
            "positive_ctxs": [passage(b)],
            "hard_negative_ctxs": [passage(other) for other in others(b, 3)],
            "negative_ctxs": [passage(other) for other in others(b, 5)[3:]],
        }
        for b in asked(split)
    ]
    return json.dumps(records, indent=1).encode()


def answers_file(split: str) -> bytes:
    """``*.qa.csv``: question, list of answers as Python writes it."""
    return _lines((b.question(split).lower().rstrip("?"), [b.answer(split)]) for b in asked(split))


FORMS: dict[str, Callable[[], bytes]] = {
    "msmarco-collection": lambda: _lines((b.number, b.text) for b in BUILDINGS),
    "msmarco-titled-passages": lambda: _lines((b.number, b.text) for b in BUILDINGS),
    "msmarco-titled-titles": lambda: _lines((b.number, b.title) for b in BUILDINGS),
    "msmarco-queries-train": lambda: queries("train"),
    "msmarco-qrels-train": lambda: judgements("train", _passage),
    "msmarco-queries-dev-small": lambda: queries("dev"),
    "msmarco-qrels-dev-small": lambda: judgements("dev", _passage),
    "msmarco-docs": documents,
    "msmarco-doctrain-queries": lambda: queries("train"),
    "msmarco-doctrain-qrels": lambda: judgements("train", _document),
    "msmarco-docdev-queries": lambda: queries("dev"),
    "msmarco-docdev-qrels": lambda: judgements("dev", _document),
    "dl19-queries": lambda: queries("test"),
    "dl19-passage-qrels": lambda: judgements("test", _passage, graded=True),
    "dl19-document-qrels": lambda: judgements("test", _document, graded=True),
    "dl20-queries": lambda: queries("test"),
    "dl20-passage-qrels": lambda: judgements("test", _passage, graded=True),
    "beir-msmarco-corpus": beir_corpus,
    "dpr-passages": wikipedia_passages,
    "dpr-nq-train": lambda: training_file("train", "passage_id"),
    "dpr-nq-dev": lambda: training_file("dev", "passage_id"),
    "dpr-nq-dev-answers": lambda: answers_file("dev"),
    "dpr-nq-test-answers": lambda: answers_file("test"),
    "dpr-trivia-train": lambda: training_file("train", "psg_id"),
    "dpr-trivia-dev": lambda: training_file("dev", "psg_id"),
    "dpr-trivia-test-answers": lambda: answers_file("test"),
}
for _set in BEIR:
    FORMS |= {f"beir-{_set}-corpus": beir_corpus, f"beir-{_set}-queries": beir_queries}
    FORMS |= {f"beir-{_set}-qrels-test": lambda: beir_judgements("test")}
