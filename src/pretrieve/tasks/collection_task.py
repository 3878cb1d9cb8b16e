"""A collection directory → a task directory, document by document.

Candidates are whole passages (``sentence_index`` −1), each one sentence of the token store. What a collection leaves open
is decided here, and written into ``stats.json`` under ``collection``:

* **Splits.** The official test queries test (or, with ``test="dev"``, the dev queries, as MS MARCO is reported). Sizes are
  shares, numbers or all of the official train queries; a tenth of what is drawn validates (``valid_share``). The official dev
  queries are ``dev``; without these, or if they are used as test, a tenth of the train queries, drawn by the seed
  (``dev_share``). With both shares 0 every query trains. A size lists only the queries that it uses. Without train queries
  everything is test, for retrievers of another data set.
* **Titles.** ``none``: omitted. ``prefix``: in front of the text, with a blank. ``separate``: a text of their own in front,
  ``[CLS] title [SEP] passage [SEP]``. A document that has only a title is read as that.
* **Judgements.** Grades are kept; 0, judged and not relevant, is the same as not judged for every metric, and omitted.
* **Size of the corpus.** ``max_documents`` keeps every judged document of the task's queries and draws the others.

Texts stream through four times (ids, tokens, titles, table) and are never held. What stays in memory is queries, judgements
and, with ``max_documents``, the ids that are kept.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.tasks.answers import Answers
from pretrieve.tasks.collection_tables import Collection, with_title
from pretrieve.tasks.splits import VALID_SHARE, SplitRow, Target, all_test, draw_key, make_splits, rounded, shuffled
from pretrieve.tasks.task import Judgement, Query, TaskContents, TaskRows, check_rows, write_rows
from pretrieve.text.token_store import PassageText

TITLES = ("none", "prefix", "separate")
#: Share of the train queries that is dev where the publisher has no dev queries.
DEV_SHARE = 0.1
#: Documents that are decoded together; those of MS MARCO have a million characters at most.
_BATCH = 2048


def build_collection_task(
    collection: Path | str,
    target: Target,
    title: str = "none",
    max_documents: int | None = None,
    test: str | None = None,
    valid_share: float | Mapping[str, float] = VALID_SHARE,
    dev_share: float = DEV_SHARE,
) -> dict[str, Any]:
    """Write the task and return its statistics.

    collection: a collection directory (:mod:`pretrieve.tasks.collection_tables`); target, valid_share: see
    :func:`pretrieve.tasks.splits.make_splits`, shares are of the train queries, and the seed draws the documents too and, where
    there are no dev queries, ``dev_share`` of the train queries; title: ``none``, ``prefix`` or ``separate``; max_documents:
    None: all; test: the official split that is used as test, None: ``test``, or ``dev`` where there is none.

    Raises ConfigError for an option that is not allowed, a split without queries, sizes that cannot be drawn, or a
    ``max_documents`` below the number of judged documents, and DataError when the collection is damaged.
    """
    if title not in TITLES:
        raise ConfigError(f"title is {title!r}; expected one of {', '.join(TITLES)}.")
    given = valid_share.values() if isinstance(valid_share, Mapping) else [valid_share]
    for name, share in (("dev_share", dev_share), *(("valid_share", share) for share in given)):
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise ConfigError(f"{name} is {share!r}; expected a share between 0 and 1, or 0 for none.")
    source = Collection(collection)
    if title == "prefix" and source.has("answers"):
        raise ConfigError(
            f"{source.directory}: has answers, which are looked for in the text without its title; title 'prefix' would find "
            "them in titles. Expected 'none' or 'separate'."
        )
    contents = _Contents(source, title)
    contents.task.titled = title == "separate"
    contents.split_queries(target, test, valid_share, dev_share)
    contents.choose_documents(max_documents, target.seed)
    # A task of answers alone judges no document: all that must be known of its candidates is that there are some.
    documents = contents.found or range(contents.count)
    check_rows(documents, contents.task)
    stats = source.stats
    rows = TaskRows(
        passages=contents.passages,
        titles=contents.titles,
        corpus=lambda _: contents.corpus(),
        candidate_passage=np.arange(contents.count, dtype=np.int32),
        candidate_sentence=np.full(contents.count, -1, dtype=np.int32),
        contents=contents.task,
        about={
            "collection": {
                "reader": stats.get("reader"),
                "variant": stats.get("variant"),
                "title": title,
                "test": contents.test,
                "dev": contents.dev,
                "documents": source.document_count,
                "left_out": contents.left_out,
            },
            "documents": source.document_count,
            **_official_parts(stats.get("counts", {})),
        },
    )
    return write_rows(target.out, rows, target.tokenizer)


def _official_parts(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """``queries`` and ``judgements`` of the parts as the publisher ships them, whatever the task draws of them; queries that
    nobody judged count too, where the files have them. A part that is not there is empty."""
    parts: dict[str, dict[str, int]] = {}
    for part, split in (("train", "train"), ("dev", "dev"), ("eval", "test")):
        queries = counts.get(f"queries_read.{split}", counts.get(f"queries.{split}", 0))
        parts[part] = {"queries": queries, "judgements": counts.get(f"judgements.{split}", 0)} if queries else {}
    return parts


@dataclass
class _Contents:
    """The small parts of the task in memory, and its documents as streams."""

    source: Collection
    title: str
    left_out: Counter[str] = field(default_factory=Counter)
    task: TaskContents = field(default_factory=TaskContents)
    _kept: set[str] | None = None

    # ------------------------------------------------------------------------------------------------------------ queries

    def split_queries(
        self, target: Target, test: str | None, valid_share: float | Mapping[str, float], dev_share: float
    ) -> None:
        """Fill in queries, judgements, answers and splits of ``task``."""
        self._read_judged()
        groups: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
        texts = dict[str, str]()
        table = self.source.table("queries")
        for query_id, text, split in zip(*(column.to_pylist() for column in table.columns), strict=True):
            answered = query_id in self._relevant or (query_id in self._answers and split != "train")
            if not answered:
                self.left_out[f"{split} queries without a relevant document"] += 1
                continue
            groups[split].append(query_id)
            texts[query_id] = text
        self.test = test or ("test" if groups["test"] else "dev")
        if test is None and not groups["dev"] and "test queries without a relevant document" in self.left_out:
            self.test = "test"
        if self.test not in ("test", "dev") or not groups[self.test]:
            counts = ", ".join(f"{split} {len(ids):,}" for split, ids in groups.items())
            raise ConfigError(
                f"{self.source.directory}: split {self.test!r} cannot be tested; expected test or dev, and queries with a "
                f"relevant document (found: {counts}): name another split, or add its judgements."
            )
        task = self.task
        task.splits = self._splits(groups, target, valid_share, dev_share)
        used = {row.query_id for row in task.splits}
        task.queries = [Query(query_id, text) for query_id, text in texts.items() if query_id in used]
        task.judgements = [
            Judgement(query.query_id, doc_id, relevance)
            for query in task.queries
            for doc_id, relevance in self._relevant.get(query.query_id, {}).items()
        ]
        task.answers = {q.query_id: self._answers[q.query_id] for q in task.queries if q.query_id in self._answers}
        self._judged = {doc_id for query in task.queries for doc_id in self._others.get(query.query_id, ())}
        self._judged |= {judgement.doc_id for judgement in task.judgements}

    def _read_judged(self) -> None:
        self._relevant: dict[str, dict[str, int]] = {}
        self._others: dict[str, list[str]] = {}
        for batch in self.source.batches("qrels"):
            for query_id, doc_id, relevance, _ in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if relevance > 0:
                    self._relevant.setdefault(query_id, {})[doc_id] = relevance
                else:
                    self._others.setdefault(query_id, []).append(doc_id)
        self._answers: dict[str, Answers] = {}
        if self.source.has("answers"):
            columns = (column.to_pylist() for column in self.source.table("answers").columns)
            self._answers = {query_id: Answers(texts, regex) for query_id, texts, regex in zip(*columns, strict=True)}

    def _splits(
        self, groups: dict[str, list[str]], target: Target, valid_share: float | Mapping[str, float], dev_share: float
    ) -> list[SplitRow]:
        sizes, seed = target.sizes, target.seed
        train, tested = groups["train"], groups[self.test]
        dev = groups["dev"] if self.test != "dev" else []
        self.dev = "dev" if dev else "none"
        if train and not dev and dev_share:
            dev = shuffled(train, seed)[: max(1, rounded(dev_share * len(train)))]
            self.dev = "drawn from train"
            apart = set(dev)
            train = [query_id for query_id in train if query_id not in apart]
        fixed = dict.fromkeys(tested, "test") | dict.fromkeys(dev, "dev")
        split_of: dict[str, dict[str, str]] = {size: dict(fixed) for size in sizes}
        drawn = make_splits(train, train, [], [], sizes, seed, valid_share) if train else all_test([], sizes)
        for row in drawn:
            # Training queries that a size does not draw do not test it: the official test set is the same for all.
            if row.split != "test":
                split_of[row.size][row.query_id] = row.split
        order = [query_id for ids in groups.values() for query_id in ids]
        return [
            SplitRow(size, query_id, split_of[size][query_id])
            for size in sizes
            for query_id in order
            if query_id in split_of[size]
        ]

    # ---------------------------------------------------------------------------------------------------------- documents

    def choose_documents(self, limit: int | None, seed: int) -> None:
        """Count documents and find those that are judged; with a limit, choose which are kept."""
        self.found: set[str] = set()
        judged = pa.array(sorted(self._judged), pa.string())
        self.count = self.source.document_count
        for batch in self.source.batches("collection", columns=["doc_id"]):
            ids = batch.column(0)
            self.found.update(ids.filter(pc.is_in(ids, value_set=judged)).to_pylist())
        lost = self._judged - self.found
        if lost:
            raise DataError(
                f"{self.source.directory}: {len(lost)} judged documents are not in collection.parquet, such as "
                f"{min(lost)!r}; read the raw files again."
            )
        if limit is None or limit >= self.count:
            return
        if limit < max(1, len(self.found)):
            raise ConfigError(
                f"max_documents is {limit}, but {len(self.found):,} documents are judged for the queries of this task; give "
                "at least this many, or train on fewer queries."
            )
        others = (
            (draw_key(seed, doc_id), doc_id)
            for batch in self.source.batches("collection", columns=["doc_id"])
            for doc_id in batch.column(0).to_pylist()
            if doc_id not in self.found
        )
        self._kept = self.found | {doc_id for _, doc_id in heapq.nsmallest(limit - len(self.found), others)}
        self.left_out["documents that were not drawn"] = self.count - len(self._kept)
        self.count = len(self._kept)

    def _documents(self) -> Iterator[tuple[str, str, str]]:
        for doc_id, title, text in self.source.documents(_BATCH):
            if self._kept is None or doc_id in self._kept:
                yield doc_id, title, with_title(title if self.title == "prefix" or not text.strip() else "", text)

    def passages(self) -> Iterator[PassageText]:
        return (PassageText([text], number, number) for number, (_, _, text) in enumerate(self._documents()))

    def titles(self) -> Iterator[str]:
        return ("" if title == text else title for _, title, text in self._documents())

    def corpus(self) -> Iterator[tuple]:
        return ((doc_id, title, "", text, -1, number) for number, (doc_id, title, text) in enumerate(self._documents()))
