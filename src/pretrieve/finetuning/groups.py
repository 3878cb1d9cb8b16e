"""Which documents a step's queries are trained with: the relevant one, and negatives that change with the epoch.

``examples: judgement``: an example is a (query, relevant document) pair, so a query with two relevant documents makes two
(one for each line of the qrels, as RetroMAE's fine-tuning has it). ``query``: each query is one example an epoch, and its
relevant documents take turns from epoch to epoch (tevatron dataset.py:125). ``first``: the same, and its relevant document is
always the first one in the order of the source. DPR's files have the gold passage there, and the others only contain an answer
(DPR biencoder.py:176, SEED-Encoder DPR_data.py:116). A step takes the next examples of an endless sequence of shuffled epochs.

An example's group is its relevant document and G − 1 negatives. Each list of negatives gives a query at most ``pool``
documents, never a relevant one: its first ones, or with ``pool_from: N`` a random draw of ``pool`` among its first N
(``all``: among the whole list), made once for each (seed, query, list), as tevatron's build_train.py:33 and
build_train_hn.py:23-25 make it. ``sources: union``: a query's *pool* is the union of its lists without repeats.
``separate``: each list makes examples of its own, with a pool of its own, as tevatron has one training file for each.

A query that no list has a document for ("???", a word that stands in its relevant document only) draws its negatives from all
documents, as RetroMAE fills its groups. One that every document is relevant to is excluded from groups; where that is
true of all queries, each is trained against the others of its batch. Both are counted (``random``, ``left_out``).

A pool is shuffled once by (seed, query, list). Its examples read it like a tape that begins again at its end: in epoch e, example
j of the r examples of a pool takes the G − 1 negatives from place ``(e·r + j)·(G − 1)`` on. So before one comes a second time,
all others have come once (tevatron dataset.py:137-141 moves its window in this way for r = 1; where a pool has fewer than G − 1
documents it draws with replacement, and RetroMAE adds random documents, while here the tape goes round within one group).

Everything is a function of (seed, step): neither cuts, nor processes, nor a resumed run change what is trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.retrieval.negatives import Negatives
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.objective import epoch_order


@dataclass(frozen=True)
class Group:
    """queries (B,) query rows; documents (B, G) candidate rows, the relevant one in column 0."""

    queries: np.ndarray
    documents: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Group:
        return Group(self.queries[rows], self.documents[rows])


class StepGroups(Protocol):
    """Which groups a step has: :class:`Groups`, or :class:`pretrieve.finetuning.train_ance.FreshGroups`."""

    def at(self, step: int, batch: int) -> Group:
        """The groups of a step: ``batch`` examples (all, where there are fewer), sorted by query and relevant document."""
        ...

    def known_until(self, step: int) -> float:
        """The last step whose groups can be made at ``step``; later ones depend on weights that are not there yet."""
        ...


def steps_for(examples: int, options: Mapping[str, Any]) -> int:
    """At most ``steps`` steps, and at most ``epochs`` epochs of ``batch`` examples (few-shot runs would only repeat
    themselves); at least one, unless ``steps`` is 0.

    >>> steps_for(24, {"batch": 16, "steps": 60, "epochs": 10}), steps_for(24, {"batch": 16, "steps": 0, "epochs": 10})
    (15, 0)

    Raises DataError when there is no example.
    """
    if not options["steps"]:
        return 0
    if not examples:
        raise DataError("there is no example to train on; expected one or more: take a larger training-set size.")
    batch = min(options["batch"], examples)
    return min(options["steps"], max(1, round(options["epochs"] * examples / batch)))


def refuse_unanswered(data: Dataset, rows: np.ndarray) -> None:
    """Raise :class:`DataError` when a query of these rows has no relevant document."""
    lost = [data.query_ids[row] for row in rows if data.positive[row] < 0]
    if lost:
        raise DataError(
            f"{data.directory}/qrels.parquet: {len(lost)} training questions have no answer, e.g. {lost[0]!r}; give "
            "each a relevant document, or remove it from the splits."
        )


class Groups:
    """The groups of every step.

    data, rows: a task, and the rows (n,) of the queries that are trained on. options: of the recipe: ``group`` is G;
    ``pool``, ``pool_from``, ``sources`` and ``examples`` as above. negatives: lists, best first, of at least the
    queries ``rows``; their union counts; not looked at for group 1. seed: of the order of examples and of the pools.

    Raises DataError when there is no query and the recipe trains, a query has no relevant document, a file names a
    query or a document that the task does not have (the message has the id and the file) or none of the queries, or
    every document is relevant to all of them and the loss is not over the batch.
    """

    def __init__(
        self, data: Dataset, rows: np.ndarray, options: Mapping[str, Any], negatives: Sequence[Negatives], seed: int
    ) -> None:
        if not len(rows) and options["steps"]:
            raise DataError(
                f"{data.directory}/splits.parquet: no training query; expected one or more with a relevant document: take a "
                "larger training-set size, or train on another data set."
            )
        refuse_unanswered(data, rows)
        self.group, self._data, self._seed = options["group"], data, seed
        #: Of each list (or of all together): query row → candidate rows that its negatives are drawn from, best first.
        self.pools: list[dict[int, np.ndarray]] = [{}]
        #: Queries whose negatives are random documents, and queries without any.
        self.random = self.left_out = 0
        if self.group > 1:
            self.pools = _pools(data, rows, negatives, options, seed)
            lost = [row for row in map(int, rows) if not any(row in pools for pools in self.pools)]
            drawn = {row: found for row in lost if len(found := _random(data, row, options["pool"], seed))}
            self.pools[0] |= drawn
            self.random, self.left_out = len(drawn), len(lost) - len(drawn)
            if self.left_out == len(rows):
                if not options["in_batch"]:
                    raise DataError(
                        f"{data.directory}/corpus.parquet: every document is relevant to every training query; expected others "
                        "for negatives: add documents, or take a recipe with in_batch: true."
                    )
                self.group = 1
        numbers = {"random_negatives": self.random, "left_out_without_negatives": self.left_out}
        #: For ``pretrieve.json``: queries with random negatives and those omitted, where there are any.
        self.counts = {name: number for name, number in numbers.items() if number}
        self._one_each, self._in_turn = options["examples"] != "judgement", options["examples"] == "query"
        examples = [
            (row, place, source)
            for source, pools in enumerate(self.pools)
            for row in map(int, rows)
            if self.group == 1 or row in pools
            for place in range(1 if self._one_each else len(data.relevant[row]))
        ]
        self._query, self._place, self._source = np.array(examples, dtype=np.int64).reshape(-1, 3).T

    def __len__(self) -> int:
        """Examples of an epoch."""
        return len(self._query)

    def known_until(self, step: int) -> float:
        """No limit: groups depend on no weights."""
        return math.inf

    def at(self, step: int, batch: int) -> Group:
        """As :class:`StepGroups` has it. Where one epoch ends and the next begins, the same group can come twice: once is
        enough."""
        batch = min(batch, len(self))
        first = step * batch
        examples = epoch_order(len(self), self._seed, first, batch)
        epochs = (first + np.arange(batch)) // len(self)
        rows = np.empty((batch, 1 + self.group), dtype=np.int64)
        for place, (example, epoch) in enumerate(zip(examples.tolist(), epochs.tolist(), strict=True)):
            rows[place, :2] = self._query[example], self._positive(example, epoch)
            if self.group > 1:
                rows[place, 2:] = self._window(example, epoch)
        rows = np.unique(rows, axis=0)
        return Group(rows[:, 0], rows[:, 1:])

    def _positive(self, example: int, epoch: int) -> int:
        query, source = int(self._query[example]), int(self._source[example])
        relevant = self._data.relevant[query]
        if not self._in_turn:
            return int(relevant[self._place[example]])
        first = np.random.default_rng([self._seed, 123, query, source]).integers(len(relevant))
        return int(relevant[(first + epoch) % len(relevant)])

    def _window(self, example: int, epoch: int) -> np.ndarray:
        query, source, size = int(self._query[example]), int(self._source[example]), self.group - 1
        pool = self.pools[source][query]
        of_pool = 1 if self._one_each else len(self._data.relevant[query])
        begin = (epoch * of_pool + int(self._place[example])) * size
        # The first (or only) source has no number of its own in the seed.
        order = np.random.default_rng([self._seed, 121, query, *([source] if source else [])]).permutation(len(pool))
        return pool[order[(begin + np.arange(size)) % len(pool)]]


def _pools(
    data: Dataset, rows: np.ndarray, negatives: Sequence[Negatives], options: Mapping[str, Any], seed: int
) -> list[dict[int, np.ndarray]]:
    """Query row → candidate rows: one such dictionary, or with ``sources: separate`` one for each list, which lacks the queries
    that the list has nothing for."""
    separate, depths = options["sources"] == "separate", options["pool_from"]
    pools: list[dict[int, list[int]]] = [{} for _ in range(len(negatives) if separate else 1)]
    wanted = set(map(int, rows))
    for number, source in enumerate(negatives):
        depth = depths[number] if isinstance(depths, list) else depths
        lists = pools[number if separate else 0]
        if source.query_ids and wanted.isdisjoint(map(data.query_row, source.query_ids)):
            raise DataError(
                f"{source.name}: has none of the {len(rows)} training queries, e.g. {data.query_ids[rows[0]]!r}; mine negatives "
                "from a run that has these queries."
            )
        for query_id, doc_ids in zip(source.query_ids, source.doc_ids, strict=True):
            query = data.query_row(query_id)
            if query < 0:
                raise _of_another_task(source, f"query {query_id!r}", data)
            if query not in wanted:
                continue
            found = [data.document_row.get(doc_id, -1) for doc_id in doc_ids]
            if -1 in found:
                raise _of_another_task(source, f"document {doc_ids[found.index(-1)]!r} of query {query_id!r}", data)
            relevant = set(data.relevant[query].tolist())
            kept = [document for document in found if document not in relevant]
            drawn = _drawn(kept, options["pool"], depth, [seed, 124, query, number])
            if drawn:
                lists[query] = lists.get(query, []) + drawn
    return [
        {query: np.array(list(dict.fromkeys(found)), dtype=np.int64) for query, found in lists.items()}
        for lists in pools
    ]


def _random(data: Dataset, query: int, pool: int, seed: int) -> np.ndarray:
    """At most ``pool`` documents that are not relevant to a query, drawn from all."""
    relevant, every = data.relevant[query], len(data.document_ids)
    size = min(every, pool + len(relevant))
    drawn = np.random.default_rng([seed, 125, query]).choice(every, size, replace=False)
    return drawn[~np.isin(drawn, relevant)][:pool]


def _drawn(found: list[int], pool: int, depth: int | str, seed: list[int]) -> list[int]:
    """At most ``pool`` documents of a list, best first: the ``first`` ones, or drawn from the first ``depth`` or ``all``."""
    if depth == "first":
        return found[:pool]
    found = found if depth == "all" else found[:depth]
    chosen = np.random.default_rng(seed).permutation(len(found))[:pool]
    return [found[place] for place in np.sort(chosen)]


def _of_another_task(source: Negatives, what: str, data: Dataset) -> DataError:
    return DataError(
        f"{source.name}: {what} is not in the task {data.directory}; the file was made for another task. Mine it again."
    )
