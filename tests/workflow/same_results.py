"""Two runs of one miniature, compared."""

from __future__ import annotations

import csv
import io

from miniature import Workflow

#: What a run costs differs from run to run; nothing else may.
COSTS = ("wall_s", "gpu_h", "peak_gb")


def without_costs(content: bytes) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert rows and set(COSTS) <= set(rows[0])
    return [{name: value for name, value in row.items() if name not in COSTS} for row in rows]


def assert_same_results(one: Workflow, other: Workflow) -> None:
    """The same models, runs and metrics, byte for byte, and the same tables but for what they cost."""
    for pattern in (
        "encoders/*/*/*.safetensors",
        "retrievers/**/*.safetensors",
        "runs/**/*.trec.gz",
        "metrics/**/*.json",
    ):
        expected, found = one.files(pattern), other.files(pattern)
        assert expected and expected.keys() == found.keys(), f"{pattern}: {sorted(expected)} and {sorted(found)}"
        different = [name for name in expected if expected[name] != found[name]]
        assert different == [], f"other bytes: {different}"
    expected, found = one.files("tables/**/*.csv"), other.files("tables/**/*.csv")
    assert expected and expected.keys() == found.keys(), f"{sorted(expected)} and {sorted(found)}"
    for name in expected:
        assert without_costs(found[name]) == without_costs(expected[name]), name
