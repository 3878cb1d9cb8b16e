"""Negatives: for each training query, documents that a retriever ranks high and that are not relevant; and their file.

A file is gzip'd text (``*.jsonl.gz``), one JSON object a line, readable with ``zcat``:

1. the header ``{"negatives": 1, "source": "bm25" or a system, "run": path, "depth": …}``: the format, and their origin;
2. ``{"query": id, "documents": [ids, best first], "scores": [as long]}`` for each query.

Equal lists give equal bytes. Scores keep every bit of float32. Queries without any negative keep their line, so that
what was searched for and what was found can be told apart; training refuses them (:mod:`pretrieve.finetuning.groups`).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.base.files import DAMAGED_TEXT, whole_file
from pretrieve.raw.raw_text import check_characters
from pretrieve.retrieval.trec_run import Run, check_lists

#: Version of the form: the value of the header's first entry.
FORMAT = 1


@dataclass
class Negatives:
    """Lists of Q queries, which may differ in length and may be empty.

    query_ids: Q unique ids; doc_ids: Q lists of unique ids, best first; scores: Q arrays float32, as long; about: the
    header without the format; path: the file they were read from, '' for none (for messages).

    Raises DataError when lengths differ, an id repeats, or a score is not finite; file and id are named.
    """

    query_ids: list[str]
    doc_ids: list[list[str]]
    scores: list[np.ndarray]
    about: dict[str, Any] = field(default_factory=dict)
    path: str = ""

    def __post_init__(self) -> None:
        self.scores = [np.asarray(scores, dtype=np.float32) for scores in self.scores]
        check_lists(self.name, self.query_ids, self.doc_ids, self.scores)
        for query_id, scores in zip(self.query_ids, self.scores, strict=True):
            if not np.isfinite(scores).all():
                raise DataError(
                    f"{self.name}: query '{query_id}' has a score that is not finite; mine the negatives again."
                )

    def __len__(self) -> int:
        return len(self.query_ids)

    @property
    def name(self) -> str:
        """How messages call them."""
        return self.path or f"negatives of {self.about.get('source', 'no file')}"


def mine(
    run: Run,
    qrels: Mapping[str, Mapping[str, int]],
    depth: int,
    about: Mapping[str, Any],
    answered: Mapping[str, Collection[str]] | None = None,
) -> Negatives:
    """The first ``depth`` hits of each query that are not relevant (grade 1 or more in ``qrels[query_id][doc_id]``).

    Relevant documents are taken out before the cut, as in tevatron's build_train_hn.py. ``about`` (``source``,
    ``run``, …) goes into the header, with ``depth``, ``queries``, and ``without_negatives``: how many of them have
    none left. answered: hits of each query that contain its answer (:mod:`pretrieve.retrieval.answered`). They are
    taken out too, and the header counts those that are not relevant: ``with_answer``.

    Raises DataError when a query of the run has no judgement at all: its relevant documents would become negatives.
    """
    kept, kept_scores, with_answer = [], [], 0
    for query_id, doc_ids, scores in zip(run.query_ids, run.doc_ids, run.scores, strict=True):
        if query_id not in qrels:
            raise DataError(
                f"{about.get('run', 'run')}: query '{query_id}' has no judgement: its relevant documents are unknown; "
                "mine from a run over queries of the qrels."
            )
        grades = qrels[query_id]
        places = [place for place, doc_id in enumerate(doc_ids) if grades.get(doc_id, 0) < 1]
        if answered is not None:
            found, places = len(places), [place for place in places if doc_ids[place] not in answered[query_id]]
            with_answer += found - len(places)
        places = places[:depth]
        kept.append([doc_ids[place] for place in places])
        kept_scores.append(scores[places])
    empty = sum(not doc_ids for doc_ids in kept)
    header = {**about, "depth": depth, "queries": len(run), "without_negatives": empty}
    if answered is not None:
        header["with_answer"] = with_answer
    return Negatives(list(run.query_ids), kept, kept_scores, header)


def write_negatives(path: Path | str, negatives: Negatives) -> None:
    """Write the file whole or not at all; the bytes depend on the lists and the header alone."""
    header = {"negatives": FORMAT, **dict(sorted(negatives.about.items()))}
    write_lists(path, header, negatives.query_ids, negatives.doc_ids, negatives.scores)


def write_lists(
    path: Path | str,
    header: Mapping[str, Any],
    query_ids: Iterable[str],
    doc_ids: Iterable[list[str]],
    scores: Iterable[np.ndarray],
) -> None:
    """Write a file of this form with any header; scores (n,) float32 of each query keep every bit.

    Raises DataError for half of a surrogate pair in an id.
    """

    def line(value: Mapping[str, Any]) -> bytes:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
        return check_characters(f"{path}: {text[:60]!r}", text)

    # No name and no time in the gzip header.
    with whole_file(path) as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
        stream.write(line(header))
        for query_id, own, values in zip(query_ids, doc_ids, scores, strict=True):
            # numpy writes the shortest digits that give the same float32 back.
            digits = [float(text) for text in values.astype(str)]
            stream.write(line({"query": query_id, "documents": own, "scores": digits}))


def read_negatives(path: Path | str) -> Negatives:
    """Read what :func:`write_negatives` wrote.

    Raises DataError as :func:`read_lists`, and when a query or a document repeats.
    """
    about, query_ids, doc_ids, scores = read_lists(path, "negatives", "mine the negatives again")
    return Negatives(query_ids, doc_ids, scores, about, str(path))


def read_lists(
    path: Path | str, kind: str, again: str
) -> tuple[dict[str, Any], list[str], list[list[str]], list[np.ndarray]]:
    """What :func:`write_lists` wrote: the header without its entry ``kind``, the format; query ids, documents and scores. again:
    how the file is made, for messages.

    Raises DataError when the file is missing or damaged, has no header of this format, or a line is malformed; file and line are
    named.
    """
    path, number = Path(path), 0
    known: dict[str, str] = {}  # each document id once in memory, however many lists it is in
    query_ids: list[str] = []
    documents: list[list[str]] = []
    scores: list[np.ndarray] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
            number, about = 1, _header(path, stream.readline(), kind, again)
            for number, text in enumerate(stream, 2):
                query_id, own, values = _row(path, number, text, again)
                query_ids.append(query_id)
                documents.append([known.setdefault(doc_id, doc_id) for doc_id in own])
                scores.append(values)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file, expected {kind}; {again}.") from None
    except DAMAGED_TEXT as error:
        raise DataError(
            f"{path}: damaged after line {number}: {error}. Expected gzip'd UTF-8 text; {again}."
        ) from error
    return about, query_ids, documents, scores


def _header(path: Path, text: str, kind: str, again: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
        version = header.pop(kind)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f'{path}, line 1: found {text.rstrip()[:120]!r}, expected the header {{"{kind}": {FORMAT}, …}}; {again}.'
        ) from None
    if version != FORMAT:
        raise DataError(f"{path}, line 1: format {version!r}, expected {FORMAT}; {again}.")
    return header


def _row(path: Path, number: int, text: str, again: str) -> tuple[str, list[str], np.ndarray]:
    try:
        row = json.loads(text)
        query_id, own, values = row["query"], row["documents"], np.array(row["scores"], dtype=np.float32)
        if not isinstance(query_id, str) or not all(isinstance(doc_id, str) for doc_id in own) or values.ndim != 1:
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}, line {number}: found {text.rstrip()[:120]!r}, expected "
            f'{{"query": id, "documents": [ids], "scores": [numbers]}}; {again}.'
        ) from None
    return query_id, own, values
