"""The commands (:mod:`pretrieve.commands`) as a bundle runs them, with the same arguments.

**The end of a slice.** Training asks after every step whether it is to stop (:func:`after`); the next slice continues from what
was saved. What has no state to save, such as a search, is ended by :func:`alarm`, wherever it is, and begins again: its files
appear whole or not at all. Finished shards of vectors stay. A moment is a value of ``time.monotonic``; infinity means never.

**Scores.** A metrics file needs ranx. Where that is missing, it is made when the run has been brought home (:func:`score`); what
a slice shows, and sends home in its manifest, is a :func:`preview`, by the definitions of :mod:`pretrieve.evaluation.metrics`; a
test compares the two.
"""

import argparse
import json
import math
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from pretrieve.base.program import make_parser
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.evaluation.task_scores import score_options
from pretrieve.operations.bundle.jobs import Call
from pretrieve.retrieval.trec_run import Run, read_trec
from pretrieve.tasks.split_table import SplitTable

if TYPE_CHECKING:
    from pretrieve.training.device import Device


def run_call(
    call: Call, device: "Device", until: float, checkpoint_seconds: float = 60.0, scored: bool = False
) -> dict[str, float]:
    """Run one call on ``device`` until it is done, or until a moment of ``time.monotonic``; returns what a search scores.

    scored: also write the scores of a search, which needs ranx; else they are made where the run is brought to.

    Raises Stopped when the time is over; a training run is saved then, anything else begins again.
    """
    words = ["--precision", "bf16" if device.bf16 else "fp32"]
    if call.program in ("pretrain", "finetune"):
        command, arguments = _parsed(call, *words, "--checkpoint-seconds", str(checkpoint_seconds))
        command.main(arguments, after(until))
        return {}
    with alarm(until):
        command, arguments = _parsed(call, *words)
        if call.program != "retrieve":
            command.main(arguments)
            return {}
        command.main(arguments, scored)
        if scored:
            return json.loads(arguments.outputs[0].read_text(encoding="utf-8"))["metrics"]
        run, qrels = read_trec(arguments.runs[0]), read_qrels(arguments.task / "qrels.parquet")
        queries = SplitTable(arguments.task / "splits.parquet").needed(arguments.sizes[0])
        return preview(run, qrels, queries, arguments.metrics)


def _parsed(call: Call, *more: str) -> tuple[ModuleType, argparse.Namespace]:
    """The module of a call's program, and its arguments."""
    command = import_module(f"pretrieve.commands.{call.program}")
    return command, make_parser(command).parse_args([*call.words(), *more])


def score(call: Call) -> None:
    """Score the run of a search, as the workflow's program does."""
    score_options(_parsed(call)[1])


def after(until: float) -> Callable[[], bool]:
    """What says whether a moment has come."""
    return lambda: time.monotonic() >= until


@contextmanager
def alarm(until: float) -> Iterator[None]:
    """End the block with :class:`~pretrieve.training.loop.Stopped` when a moment comes."""
    if math.isinf(until):
        yield
        return
    from pretrieve.training.loop import Stopped  # torch takes two seconds to load

    def ring(*_: object) -> None:
        raise Stopped("the time of this slice is over")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_NAME = re.compile(r"(mrr|ndcg|precision|recall)(?:@(\d+))?")


def preview(
    run: Run, qrels: Mapping[str, Mapping[str, int]], queries: Sequence[str], metrics: Sequence[str]
) -> dict[str, float]:
    """Metric → mean over ``queries``, 0 to 1, of those of the ``metrics`` that are known here; {} where a query has no
    judgement, and only answers."""
    wanted = set(queries)
    if not wanted <= qrels.keys():
        return {}
    hits = dict(zip(run.query_ids, run.doc_ids, strict=True))
    found = {}
    for metric in metrics:
        if match := _NAME.fullmatch(metric):
            depth = int(match[2]) if match[2] else None
            values = [_scores(hits.get(query, [])[:depth], qrels[query], depth)[match[1]] for query in wanted]
            found[metric] = round(sum(values) / len(values), 10)
    return found


def _scores(hits: Sequence[str], grades: Mapping[str, int], depth: int | None) -> dict[str, float]:
    """Each metric of one query, whose ``hits`` end at ``depth``."""
    gains, best = [grades.get(document, 0) for document in hits], sorted(grades.values(), reverse=True)[:depth]
    found, relevant = (sum(gain > 0 for gain in some) for some in (gains, grades.values()))
    size = len(hits) if depth is None else depth
    dcg, ideal = (sum(gain / math.log2(1 + rank) for rank, gain in enumerate(some, 1)) for some in (gains, best))
    return {
        "mrr": next((1 / rank for rank, gain in enumerate(gains, 1) if gain > 0), 0.0),
        "recall": found / relevant if relevant else 0.0,
        "precision": found / size if size else 0.0,
        "ndcg": dcg / ideal if ideal else 0.0,
    }
