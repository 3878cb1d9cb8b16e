"""Which hits contain an answer of their query. In open-domain question answering these are no negatives: nobody has judged
most passages, and one with the answer may well be what is asked for.

DPR's hard negatives are hits of BM25 without an answer (Karpukhin et al. 2020, §3.2), and SEED-Encoder takes its own hits of
open QA through the same test (drivers/run_ann_data_gen_dpr.py:321-323). When a passage contains an answer:
:mod:`pretrieve.tasks.answers`, as hits@k has it, in the text without its title.
"""

from __future__ import annotations

from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_rows
from pretrieve.retrieval.trec_run import Run
from pretrieve.tasks.answers import Passages, contains, read_answers


def answered_hits(run: Run, task: Path) -> dict[str, set[str]]:
    """Query of the run → its hits that contain one of its answers; a query without answers in ``answers.parquet`` has none.

    The passages are read once, one in memory at a time; each is cut into words at most once, for all queries that found it.

    Raises DataError when a file of the task is missing or damaged, or a hit has no row in ``corpus.parquet``.
    """
    answers, corpus = read_answers(task / "answers.parquet"), task / "corpus.parquet"
    finders: dict[str, list[str]] = {}
    for query_id, doc_ids in zip(run.query_ids, run.doc_ids, strict=True):
        for doc_id in doc_ids if query_id in answers else ():
            finders.setdefault(doc_id, []).append(query_id)
    answered: dict[str, set[str]] = {query_id: set() for query_id in run.query_ids}
    for doc_id, text in read_rows(corpus, ["doc_id", "passage"]):
        if doc_id in finders:
            passage = Passages({doc_id: text}, corpus)
            for query_id in finders.pop(doc_id):
                if contains(passage, doc_id, answers[query_id]):
                    answered[query_id].add(doc_id)
    if finders:
        raise DataError(
            f"{corpus}: document '{next(iter(finders))}' of the run has no passage; expected every document. Search this "
            "corpus again."
        )
    return answered
