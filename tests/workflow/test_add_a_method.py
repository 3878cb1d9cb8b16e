"""docs/add-a-method.md tells the truth: its blocks, put where they say, add an objective, a kind of training and a format of data
sets that run; and nothing that was there runs again.

Seen to fail when: the page names another module, or leaves the entry of `presets.py` out; a registry is among the code of all
jobs; a block names a budget that the scale demo has not.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from miniature import PROJECT, Workflow, clone

PAGE = PROJECT / "docs/add-a-method.md"
#: A block: its place, where in a file that is there, and what goes there.
BLOCK = re.compile(
    r"^```(?:python|yaml)\n# (\S+?)(?:, (below|above) `([^`\n]+)`)?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def put(folder: Path, name: str, where: str, line: str, content: str) -> None:
    """A block into its file; the miniature has the configuration's files in one."""
    path = folder / ("config.yaml" if name.startswith("config/") and not (folder / name).exists() else name)
    if not where:
        assert not path.exists(), name
        path.write_text(content)
        return
    lines = path.read_text().splitlines(keepends=True)
    (found,) = [number for number, text in enumerate(lines) if text.startswith(line)]
    lines.insert(found + (where == "below"), content)
    path.write_text("".join(lines))


def with_the_page(begun: Workflow, folder: Path) -> Workflow:
    """A copy with everything of the page."""
    workflow = clone(begun, folder)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 12
    for block in blocks:
        put(workflow.folder, *block)
    (workflow.folder / "data").mkdir(exist_ok=True)
    with open(workflow.folder / "data/faq.tsv", "w", newline="") as stream:
        rows = ((f"what is number {n} of the harbour", f"Number {n} is a stone in the old garden.") for n in range(60))
        csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(rows)
    return workflow


@pytest.fixture(scope="module")
def extended(finished: Workflow, folders: Path) -> Workflow:
    """A finished miniature with everything of the page."""
    return with_the_page(finished, folders / "extended")


def targets() -> list[str]:
    return re.findall(r"^snakemake (\S+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_each_is_planned_in_the_project_itself(project: Workflow, tmp_path: Path) -> None:
    """Whose scales have not all that the miniature's may have."""
    assert with_the_page(project, tmp_path / "project").plan(*targets()).count("pretrain") == 2


def test_nothing_that_was_there_runs_again(extended: Workflow) -> None:
    """But the tables, whose manifests have the configuration's hash."""
    assert extended.plan().jobs == {"table": 2}


def test_each_runs(extended: Workflow) -> None:
    """An objective, a kind of training, and a data set."""
    ended = extended.run("--cores", "2", *targets())
    assert ended.code == 0, ended.text
    jobs = {"pretrain": 1, "finetune": 2, "retrieve": 2, "collection": 1, "task": 1}
    assert {stage: ended.count(stage) for stage in jobs} == jobs, ended.text
    assert len(targets()) == 3 and all((extended.folder / target).is_file() for target in targets())
