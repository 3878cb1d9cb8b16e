"""The project's own configuration, and the checks that a run makes of one before its first job."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pretrieve.workflow.config_checks import check_size
from pretrieve.workflow.config_files import complete, read_config
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).resolve().parents[2]


@cache
def _read() -> dict[str, Any]:
    return read_config(ROOT / "config.yaml", code_folder=ROOT)


def project_config() -> dict[str, Any]:
    """A copy that may be changed."""
    return copy.deepcopy(_read())


def checked(config: Mapping[str, Any]) -> Plan:
    """As rules/common.smk checks it. Raises PretrieveError for what is wrong, and nothing else."""
    check_size(config)
    return Plan.load(complete(config, ROOT), ROOT / "references", ROOT / "resources/sources.tsv")
