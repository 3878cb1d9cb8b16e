"""Several families in one job.

Seen to fail when: a pattern lets another rule's family pass; families that other tables ask for, that another is made of, or
that have another trainer are joined; a scale that does not say so joins; what `only` leaves out is joined; a second command
goes on with what the first one has left.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
from miniature import PROJECT, Workflow, clone
from tiny_science import ENCODERS, change_config

from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

RECIPES = ("dual-t5-ade", "dual-t5-sde")
TABLE = "references/pretrieve/controls.csv"


def plan_of(monkeypatch: pytest.MonkeyPatch, **changes) -> Plan:
    monkeypatch.chdir(PROJECT)
    return Plan.load(copy.deepcopy(read_config(PROJECT / "config.yaml")) | changes)


def test_what_the_same_tables_ask_for_is_one_job(monkeypatch) -> None:
    plan = plan_of(monkeypatch)
    joined = plan.joined("t5-small.dual-t5-sde", "questions", trained=True)
    assert len(joined) == 5 and all(family.startswith("t5-small.dual-t5-") for family in joined)
    assert not plan.joined("bert.dpr-bm25", "questions", trained=True), "negatives are mined with it"
    assert not plan.joined("dupmae.dupmae-1stage", "questions", trained=True), "others are made of it"
    assert len(plan.joined("transformer-none.reqa", "fanoutqa", trained=False)) == 5
    rules = [*plan.trainings("questions"), *plan.searches("fanoutqa"), *plan.trainings("questions-open")]
    for families in rules:
        encoders = {family.partition(".")[0] for family in families.families}
        assert not (families.together and families.follows) or (families.follows, len(encoders)) == ("scored", 1)
    trained = [family for families in plan.trainings("questions") for family in families.families]
    assert len(trained) == len(set(trained)), "no family has two rules"


def test_what_a_run_leaves_out_is_no_part_of_its_jobs(monkeypatch) -> None:
    plan = plan_of(monkeypatch, only=["t5-small.dual-t5-sde", "t5-small.dual-t5-ade"])
    assert len(plan.joined("t5-small.dual-t5-sde", "questions", trained=True)) == 2
    assert not plan.joined("t5-small.dual-t5-ade-spl", "questions", trained=True)


def test_where_trainings_take_hours_each_family_is_a_job(monkeypatch) -> None:
    for scale in ("small", "paper"):
        plan = plan_of(monkeypatch, scale=scale)
        assert not any(families.together for task in plan.tasks for families in plan.trainings(task))


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_the_patterns_of_a_data_set_tell_its_families_apart(monkeypatch, scale: str) -> None:
    """Python compiles a pattern for each output of a rule: long ones were a seventh of a plan's time."""
    plan = plan_of(monkeypatch, scale=scale)
    every = {f"{encoder}.{recipe}" for encoder in plan.config["encoders"] for recipe in plan.config["recipes"]}
    for names, families_on in ((plan.tasks, plan.trainings), (plan.config["datasets"], plan.searches)):
        for name in names:
            for rule in families_on(name):
                size, pattern = rule.sizes[0], plan.family_pattern(rule.families)
                in_path = re.compile(f"(?P<family>{pattern})-{size}/")
                found = {family for family in every if in_path.fullmatch(f"{family}-{size}/")}
                assert found == {*rule.families} and len(pattern) < 1400


def test_one_job_gives_what_two_give(finished: Workflow, tmp_path: Path) -> None:
    """Two recipes of one encoder in a table of their own, on the data set that trains them and on another one."""
    families = [f"{ENCODERS[0]}.{recipe}" for recipe in RECIPES]
    places = {"reqa-squad": "questions", "msmarco-passage-dev-rerank": "questions-rerank"}
    wanted = [
        f"results/demo/metrics/{family}-80pct/{place}/seed1.json" for family in families for place in places.values()
    ]
    made = []
    for together in (True, False):
        workflow = clone(finished, tmp_path / str(together))
        rows = [f"{family},{role},{family}-80pct,{role},mrr@10,,%,," for family in families for role in places]
        head = "row,column,system,dataset,metric,published,unit,marker,note"
        (workflow.folder / TABLE).write_text("\n".join([head, *rows, ""]))
        change_config(workflow.folder, "scales", "demo", "together", to=together)
        ended = workflow.run("--cores", "2", *wanted)
        assert ended.code == 0, ended.text
        assert ended.jobs["finetune_questions"] == ended.jobs["retrieve_questions_rerank"] == 1 + (not together)
        ends = ("model.safetensors", "seed1.trec.gz", "seed1.json")
        made.append(
            {
                name: content
                for kind in ("retrievers", "runs", "metrics")
                for name, content in workflow.files(f"{kind}/*dual-t5*/**/*").items()
                if name.endswith(ends)
            }
        )
    assert made[0] == made[1] and len(made[0]) == 2 * 5 + 1, "one retriever has two towers"
