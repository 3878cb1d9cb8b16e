"""Runs of many seeds: refused where Snakemake could not plan them, and a table in batches is the table.

Seen to fail when: the limit is of seeds and not of jobs; ``table`` reads its inputs from its rule, which has those of a batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from config_cases import checked, project_config
from miniature import Workflow, clone

from pretrieve.base.errors import ConfigError
from pretrieve.operations.estimate.jobs import MOST_JOBS, check_run_size, jobs_of_a_seed

TABLE = "results/demo/tables/pretraining_tasks/table3.csv"


def test_a_run_that_snakemake_could_not_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is of jobs, so that many seeds of a single table pass."""
    config = project_config()
    most = MOST_JOBS // jobs_of_a_seed(checked(config))
    assert 20 < most < 200
    check_run_size(checked(config | {"seeds": list(range(1, most + 1))}))
    with pytest.raises(
        ConfigError, match=rf"seeds: {most + 1} seeds make .* run at most {most} seeds at a time"
    ) as said:
        check_run_size(checked(config | {"seeds": list(range(1, most + 2))}))
    monkeypatch.setenv("PRETRIEVE_SIZE_LIMIT", str(said.value).rpartition("=")[2])
    check_run_size(checked(config | {"seeds": list(range(1, most + 2))}))
    monkeypatch.delenv("PRETRIEVE_SIZE_LIMIT")
    thousand = {"seeds": list(range(1, 1001))}
    check_run_size(checked(config | thousand | {"tables": ["pretraining_tasks/table3"], "figures": []}))
    monkeypatch.setenv("PRETRIEVE_SIZE_LIMIT", "20")
    check_run_size(checked(config | thousand))


def test_a_table_in_batches(undisturbed: Workflow, fault_folders: Path) -> None:
    """``--batch`` as docs/faults.md has it: the first batch makes no table, the last makes it of all that is there."""
    workflow = clone(undisturbed, fault_folders / "batches")
    table = workflow.folder / TABLE
    whole = table.read_bytes()
    table.unlink()
    ended = workflow.run("--cores", "1", "--batch", "table=1/2", "--", TABLE)
    assert ended.code == 0 and not table.exists(), ended.text
    ended = workflow.run("--cores", "1", "--batch", "table=2/2", "--", TABLE)
    assert ended.code == 0 and ended.count("table") == 1, ended.text
    assert table.read_bytes() == whole
