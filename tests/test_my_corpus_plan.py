"""What a run on one's own corpus has within some minutes.

Seen to fail when: a rung is taken that does not fit; steps are left short where there is time; a job that was there before the
timetable counts as finished; the pace of finished jobs is not that of the others; converted documents are taken for the result
of a job.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.base.progress import VARIABLE, seconds_left, whole_run
from pretrieve.operations.estimate.jobs import Graph
from pretrieve.operations.estimate.my_corpus import LONGEST, SHORTEST, Amount, Forecast, choose, rungs
from pretrieve.workflow import my_corpus
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

PROJECT = Path(__file__).resolve().parents[1]
OPTIONS = read_config(PROJECT / "config.yaml")["my_corpus_options"]
LADDER = rungs(OPTIONS, 3, True)


def forecast(amount: Amount) -> Forecast:
    """A minute for the least, two for an objective and one for the cross-encoder, of each seed; half of it with steps."""
    rows = 1 + 2 * amount.objectives + amount.rerank
    return Forecast(60.0 * rows * amount.seeds * (0.5 + 0.5 * amount.factor))


@pytest.mark.parametrize("minutes", [1, 2.9, 4, 8, 12, 16, 40, 1000])
def test_the_most_that_fits_is_chosen(minutes: float) -> None:
    amount, found = choose(LADDER, forecast, 60 * minutes)
    assert found.seconds <= 60 * minutes and found == forecast(amount)
    place = LADDER.index(Amount(amount.objectives, amount.seeds, amount.rerank))
    if place + 1 < len(LADDER):
        higher = LADDER[place + 1]
        least = replace(higher, factor=SHORTEST if higher.seeds == 1 else 1.0)
        assert forecast(least).seconds > 60 * minutes, "no higher rung fits"
    assert amount.factor == LONGEST or found.seconds > 0.9 * 60 * minutes, "what is left makes the steps longer"


def test_too_little_time_takes_the_least() -> None:
    assert choose(LADDER, forecast, 30)[0] == Amount(0, 1, False, SHORTEST)


def test_an_amount_changes_rows_seeds_and_all_steps() -> None:
    made = Amount(2, 1, False, 2.0).of(OPTIONS)
    assert (
        made["objectives"] == OPTIONS["objectives"][:2]
        and made["seeds"] == OPTIONS["seeds"][:1]
        and made["rerank"] == 0
    )
    for part, before in (
        *((made["budgets"][name], OPTIONS["budgets"][name]) for name in OPTIONS["budgets"]),
        (made["finetuning"], OPTIONS["finetuning"]),
    ):
        assert part["steps"] == 2 * before["steps"] and part["learning_rate"] == before["learning_rate"]
    assert Amount(len(OPTIONS["objectives"]), 2, True).of(OPTIONS) == OPTIONS, "all of it is the configuration's own"


def test_few_steps_made_fewer_leave_one_for_the_body() -> None:
    """Of two steps, one of them for the heads alone, 0.6 of each were 1 and 1, which no budget may have."""
    budgets = {"continued": {"batch": 4, "steps": 2, "heads_steps": 1, "learning_rate": 1.0e-3}}
    made = Amount(1, 1, False, SHORTEST).of(OPTIONS | {"budgets": budgets})["budgets"]["continued"]
    assert (made["steps"], made["heads_steps"]) == (1, 0)


def test_the_time_left_is_that_of_the_jobs_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(tmp_path / f"{number}.json") for number in range(4)]
    timetable = tmp_path / "timetable.json"
    timetable.write_text(json.dumps({"places": 2, "jobs": dict.fromkeys(names, 100.0)}))
    assert seconds_left(timetable) == 200.0
    Path(names[0]).write_text(json.dumps({"wall_s": 150.0}))
    assert seconds_left(timetable) == pytest.approx(1.5 * 300 / 2), "on this machine all takes half as long again"
    os.utime(names[0], (0, 0))
    assert seconds_left(timetable) == 200.0, "of an earlier run"
    monkeypatch.setenv(VARIABLE, str(timetable))
    assert whole_run() == "; whole run: about 3 min left"
    timetable.write_text("{")
    assert seconds_left() is None and whole_run() == ""


def test_what_converted_documents_need_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the run's own folder, and no job makes them."""
    folder = tmp_path / "notes"
    (folder / "qrels").mkdir(parents=True)
    for number in range(12):
        (folder / f"{number}.txt").write_text(f"A boat of {number} metres. It floats.\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "Which boat floats?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\t3.txt\t1\n")
    config = read_config(PROJECT / "config.yaml") | {"my_corpus": str(folder)}
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)  # where the documents are written
        made = my_corpus.with_my_corpus(config)
    graph = Graph(Plan.load(made))
    target = graph.making("results/demo/my_corpus/metrics/ict.dpr-bm25-full/my-corpus/seed1.json")
    stages = {job.stage for job in graph.behind([target])}
    assert stages >= {"corpus", "collection", "token_store", "pretrain", "finetune", "retrieve"}
