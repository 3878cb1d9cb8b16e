"""Which documents a step's queries are trained with: the relevant one, and negatives that change with the epoch.

An example is a (query, relevant document) pair: a query with two relevant documents makes two (one for each line of the
qrels, as RetroMAE's fine-tuning has it). A step takes the next examples of an endless sequence of shuffled epochs.

An example's group is its relevant document and G − 1 negatives. A query's *pool* is the union of its lists, each cut
to its first ``pool`` documents, without repeats and without any relevant document, shuffled once by (seed, query). Its
examples read it like a tape that begins again at its end: in epoch e, example j of a query's r examples takes the
G − 1 negatives from place ``(e·r + j)·(G − 1)`` on. So before one comes a second time, all others have come once
(tevatron dataset.py:114-141 moves its window in this way for r = 1; where a pool has fewer than G − 1 documents it
draws with replacement, and RetroMAE adds random documents, while here the tape goes round within one group).

Everything is a function of (seed, step): neither cuts, nor processes, nor a resumed run change what is trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pretrieve.errors import DataError
from pretrieve.pretraining.examples import epoch_order
from pretrieve.retrieval.negatives import Negatives
from pretrieve.tasks.dataset import Dataset


@dataclass(frozen=True)
class Group:
    """queries (B,) query rows; documents (B, G) candidate rows, the relevant one in column 0."""

    queries: np.ndarray
    documents: np.ndarray


def steps_for(examples: int, options: Mapping[str, Any]) -> int:
    """At most ``steps`` steps, and at most ``epochs`` epochs of ``batch`` examples (few-shot runs would only repeat
    themselves); at least one.

    >>> steps_for(24, {"batch": 16, "steps": 60, "epochs": 10})
    15

    Raises
    ------
    DataError
        when there is no example.
    """
    if not examples:
        raise DataError("there is no example to train on; expected one or more: take a larger training-set size.")
    batch = min(options["batch"], examples)
    return max(1, min(options["steps"], round(options["epochs"] * examples / batch)))


def refuse_unanswered(data: Dataset, rows: np.ndarray) -> None:
    """Raise :class:`DataError` when a query of these rows has no relevant document."""
    lost = [data.query_ids[row] for row in rows if data.positive[row] < 0]
    if lost:
        raise DataError(
            f"{data.directory}/qrels.parquet: {len(lost)} training questions have no answer, e.g. {lost[0]!r}; give "
            "each a relevant document, or leave it out of the splits."
        )


class Groups:
    """The groups of every step.

    Parameters
    ----------
    data, rows:
        a task, and the rows (n,) of the queries that are trained on.
    options:
        of the recipe: ``group`` is G, ``pool`` how many documents of each list are drawn from.
    negatives:
        lists, best first, of at least the queries ``rows``; their union counts. Not looked at for group 1.
    seed:
        of the order of examples and of the pools.

    Raises
    ------
    DataError
        when there is no query, a query has no relevant document or no negative, or a file names a query or a document
        that the task does not have; the message has the id and the file.
    """

    def __init__(
        self, data: Dataset, rows: np.ndarray, options: Mapping[str, Any], negatives: Sequence[Negatives], seed: int
    ) -> None:
        if not len(rows):
            raise DataError(
                f"{data.directory}/splits.parquet: no training query; expected one or more with a relevant document: take a "
                "larger training-set size, or train on another data set."
            )
        refuse_unanswered(data, rows)
        self.group, self._data, self._seed = options["group"], data, seed
        counts = np.array([len(data.relevant[row]) for row in rows], dtype=np.int64)
        self._query = np.repeat(np.asarray(rows, dtype=np.int64), counts)
        self._positive = np.concatenate([np.empty(0, np.int64), *(data.relevant[row] for row in rows)])
        self._place = np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)])  # j of r
        self._pools: dict[int, np.ndarray] = {}
        if self.group > 1:
            self._pools = _pools(data, rows, negatives, options["pool"])

    def __len__(self) -> int:
        """Examples of an epoch."""
        return len(self._query)

    def pool(self, query: int) -> np.ndarray:
        """Candidate rows that the negatives of a query row are drawn from: list after list, best first."""
        return self._pools[query]

    def at(self, step: int, batch: int) -> Group:
        """The groups of a step of ``batch`` examples (all, where there are fewer), sorted by query and relevant
        document.

        Where one epoch ends and the next begins, the same group can come twice: once is enough.
        """
        batch = min(batch, len(self))
        first = step * batch
        examples = epoch_order(len(self), self._seed, first, batch)
        epochs = (first + np.arange(batch)) // len(self)
        rows = np.empty((batch, 1 + self.group), dtype=np.int64)
        rows[:, 0], rows[:, 1] = self._query[examples], self._positive[examples]
        if self.group > 1:
            for place, (example, epoch) in enumerate(zip(examples.tolist(), epochs.tolist(), strict=True)):
                rows[place, 2:] = self._window(example, epoch)
        rows = np.unique(rows, axis=0)
        return Group(rows[:, 0], rows[:, 1:])

    def _window(self, example: int, epoch: int) -> np.ndarray:
        query, size = int(self._query[example]), self.group - 1
        pool = self._pools[query]
        begin = (epoch * len(self._data.relevant[query]) + int(self._place[example])) * size
        order = np.random.default_rng([self._seed, 121, query]).permutation(len(pool))
        return pool[order[(begin + np.arange(size)) % len(pool)]]


def _pools(data: Dataset, rows: np.ndarray, negatives: Sequence[Negatives], first: int) -> dict[int, np.ndarray]:
    """Query row → candidate rows, for all of ``rows``."""
    lists: dict[int, list[int]] = {int(row): [] for row in rows}
    for source in negatives:
        for query_id, doc_ids in zip(source.query_ids, source.doc_ids, strict=True):
            query = data.query_row(query_id)
            if query < 0:
                raise _of_another_task(source, f"query {query_id!r}", data)
            if query not in lists:
                continue
            found = [data.document_row.get(doc_id, -1) for doc_id in doc_ids]
            if -1 in found:
                raise _of_another_task(source, f"document {doc_ids[found.index(-1)]!r} of query {query_id!r}", data)
            relevant = set(data.relevant[query].tolist())
            lists[query] += [document for document in found if document not in relevant][:first]
    empty = [data.query_ids[query] for query, found in lists.items() if not found]
    if empty:
        names = ", ".join(source.name for source in negatives) or "no file of negatives"
        raise DataError(
            f"{names}: {len(empty)} of {len(lists)} training queries have no negatives, e.g. {empty[0]!r}; mine them "
            "from a run that has these queries, with a larger depth, or set group: 1."
        )
    return {query: np.array(list(dict.fromkeys(found)), dtype=np.int64) for query, found in lists.items()}


def _of_another_task(source: Negatives, what: str, data: Dataset) -> DataError:
    return DataError(
        f"{source.name}: {what} is not in the task {data.directory}; the file was made for another task. Mine it again."
    )
