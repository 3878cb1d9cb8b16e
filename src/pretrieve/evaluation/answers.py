"""Hits@k of open-domain question answering: does one of the first k passages contain an answer?

What an answer is and when a passage contains it: :mod:`pretrieve.tasks.answers`. ::

    hits@k(q) = 1 if any of the first k passages of q is a hit, else 0
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import check_table
from pretrieve.retrieval.trec_run import Run
from pretrieve.tasks.answers import Answers, Passages, contains, read_answers


def hits_at(
    run: Run, answers: Mapping[str, Answers], passages: Passages, cuts: Sequence[int]
) -> dict[int, dict[str, int]]:
    """``hits[k][query_id]``, 0 or 1, for every question of ``answers`` and in its order.

    A question that is missing from the run, or has no hits there, counts 0; one that only the run has is omitted.
    Each passage is cut into words at most once, and none after the first hit of its question.

    Raises DataError when a document of the run has no passage.
    """
    ranked = dict(zip(run.query_ids, run.doc_ids, strict=True))
    first = {}
    for query_id, accepted in answers.items():
        hits = ranked.get(query_id, [])[: max(cuts)]
        first[query_id] = next((rank for rank, doc in enumerate(hits, 1) if contains(passages, doc, accepted)), None)
    return {cut: {q: int(rank is not None and rank <= cut) for q, rank in first.items()} for cut in cuts}


class TaskAnswers:
    """``answers.parquet`` and the passages of ``corpus.parquet`` of a task's directory, read when first needed.

    Passages are kept between runs, so an evaluation of several runs reads and cuts each of them once.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._path = self.directory / "answers.parquet"
        self._passages = Passages({}, self.directory / "corpus.parquet")

    @cached_property
    def _answers(self) -> dict[str, Answers]:
        return read_answers(self._path)

    def known(self, query_ids: Collection[str]) -> bool:
        """Whether the task has answers of all these questions; False where it has none at all."""
        return self._path.is_file() and all(query_id in self._answers for query_id in query_ids)

    def hits(self, run: Run, query_ids: Collection[str], cuts: Sequence[int]) -> dict[int, dict[str, int]]:
        """:func:`hits_at` for ``query_ids``.

        Raises DataError when a file is missing or damaged, a question has no row in ``answers.parquet``, or a document of the
        run none in ``corpus.parquet``; file and id are named.
        """
        if not self._path.is_file():
            raise DataError(
                f"{self._path}: no such file, and hits@{min(cuts)} needs it: it has the answers of each question. "
                "Write it with the task, or leave hits out of the metrics."
            )
        missing = [query_id for query_id in query_ids if query_id not in self._answers]
        if missing:
            raise DataError(
                f"{self._path}: {len(missing)} of {len(query_ids)} questions have no answers, the first is '{missing[0]}'; "
                "expected a row for every test question."
            )
        asked = {query_id: self._answers[query_id] for query_id in query_ids}
        wanted = {
            doc_id
            for query_id, doc_ids in zip(run.query_ids, run.doc_ids, strict=True)
            if query_id in asked
            for doc_id in doc_ids[: max(cuts)]
        }
        self._passages.texts.update(read_passages(self._passages.source, wanted - self._passages.texts.keys()))
        return hits_at(run, asked, self._passages, cuts)


def read_passages(path: Path, doc_ids: Collection[str]) -> dict[str, str]:
    """The texts, without titles, of ``doc_ids`` from a task's ``corpus.parquet``, row group by row group.

    Ids that the file lacks are omitted. A missing or damaged file is a DataError.
    """
    if not doc_ids:
        return {}
    check_table(path, ["doc_id", "passage"])
    file = pq.ParquetFile(path)
    wanted = pa.array(sorted(doc_ids), type=pa.string())
    found: dict[str, str] = {}
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["doc_id"])["doc_id"]
        chosen = pc.is_in(ids, value_set=wanted)
        if pc.any(chosen).as_py():
            texts = file.read_row_group(group, columns=["passage"])["passage"]
            found.update(zip(ids.filter(chosen).to_pylist(), texts.filter(chosen).to_pylist(), strict=True))
    return found
