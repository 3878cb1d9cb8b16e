"""references/claims.yaml: every claim names cells that are measured here, and the papers' own values pass its check.

Seen to fail when: a claim names a cell that is not there, or one that is only quoted; a pair lacks its second cell; a list has
another length than its neighbour's; the cells of a pair are swapped, or have different measures; an id is used twice;
a smallest effect is above half of the paper's own.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy.stats import spearmanr

REFERENCES = Path(__file__).parents[2] / "references"
PAPERS = {"seed_encoder", "dual_encoders", "dupmae", "pretraining_tasks", "condenser"}
CLAIMS = yaml.safe_load((REFERENCES / "claims.yaml").read_text(encoding="utf-8"))["claims"]
#: Cells in a group; None: all cells are one group.
GROUP = dict.fromkeys(("greater", "at-least", "not-worse", "near", "reach"), 2) | {
    "gap": 4,
    "order": None,
    "correlation": None,
}


@cache
def cells_of(name: str) -> list[dict[str, str]]:
    """The lines of a table's CSV, read without the loader."""
    with open(REFERENCES / f"{name}.csv", newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def groups_of(claim: dict[str, Any]) -> list[list[dict[str, str]]]:
    """The claim's cells in groups, with paper and table filled in and lists taken in step."""
    check = claim["check"]
    n = GROUP[check["type"]] or len(check["cells"])
    assert check["cells"] and len(check["cells"]) % n == 0, "cells that are no whole number of groups"
    groups = []
    for i in range(0, len(check["cells"]), n):
        some = [{"paper": claim["paper"], "table": claim["table"]} | cell for cell in check["cells"][i : i + n]]
        lengths = {len(value) for cell in some for value in cell.values() if isinstance(value, list)} or {1}
        assert len(lengths) == 1, f"lists of lengths {sorted(lengths)} in one group"
        groups += [
            [{key: value[j] if isinstance(value, list) else value for key, value in cell.items()} for cell in some]
            for j in range(lengths.pop())
        ]
    return groups


def size_of(effect: Any, value: float) -> float:
    """A size of effect in the cells' unit: ``5%`` is a part of ``value``."""
    return float(effect.rstrip("%")) / 100 * value if isinstance(effect, str) else effect


def holds(claim: dict[str, Any], values: list[float]) -> bool:
    """Whether the printed values alone say what the claim says."""
    check, kind = claim["check"], claim["check"]["type"]
    if kind == "correlation":
        correlation = spearmanr(values, check["with"]).statistic
        return abs(correlation) >= abs(claim["smallest_effect"]) and correlation * claim["smallest_effect"] > 0
    if kind == "order":
        return all(a > b for a, b in pairwise(values))
    gains = [values[0] - values[1], values[2] - values[3]] if kind == "gap" else values
    difference, margin = gains[0] - gains[1], size_of(claim["smallest_effect"], gains[1])
    if difference > size_of(check.get("at_most", float("inf")), gains[1]) or (check.get("both_gain") and gains[1] <= 0):
        return False
    least = {"at-least": margin, "not-worse": -margin, "near": -margin}.get(kind, 0)
    return difference > least - (1e-9 if least else 0) and (kind != "near" or difference <= margin + 1e-9)


def test_claims_are_many_and_of_all_papers():
    assert len(CLAIMS) >= 40 and len({claim["id"] for claim in CLAIMS}) == len(CLAIMS)
    of_tables = [claim for claim in CLAIMS if claim["table"].startswith("table")]
    assert len(of_tables) >= 40 and {claim["paper"] for claim in of_tables} == PAPERS


def test_a_claim_about_a_number_of_examples_says_how_many_it_needs():
    """So that ninety questions are never taken for the thousand that the sentence is about."""
    numbers = {"thousand": 1000, "ten thousand": 10000}
    for claim in CLAIMS:
        words = [
            word
            for word in numbers
            if re.search(rf"\b{word} (training )?(questions|queries|triplets|examples)", claim["claim"].lower())
        ]
        assert claim.get("needs_train", 0) == max(
            (numbers[word] for word in words), default=claim.get("needs_train", 0)
        )
        assert not words or "needs_train" in claim, claim["id"]


def test_each_claim_has_its_place_paraphrase_estimand_and_smallest_effect():
    for claim in CLAIMS:
        assert re.search(r"§[A\d]", claim["section"]) and re.fullmatch(r"(table|figure)\d+", claim["table"]), claim[
            "id"
        ]
        assert len(claim["claim"].split()) > 4 and len(claim["estimand"].split()) > 2 and "smallest_effect" in claim


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_a_claim_is_about_cells_that_are_measured_and_holds_in_its_paper(claim):
    check = claim["check"]
    assert check["type"] in GROUP and 0 < check.get("share", 1) <= 1
    assert claim["estimand"].endswith(".") and "\n" not in claim["estimand"].strip()
    assert ("with" in check) == (check["type"] == "correlation")
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim["id"]) and claim["section"].startswith("§")
    groups = groups_of(claim)
    if claim["table"].startswith("figure"):
        keys = {"paper", "table", "figure", "panel", "series", "x"}
        assert all(set(cell) == keys and cell["figure"] == claim["table"] for group in groups for cell in group)
        assert "with" not in check or len(check["with"]) == len(groups[0])
        return
    verdicts, half = [], []
    for group in groups:
        found = []
        for cell in group:
            assert set(cell) == {"paper", "table", "row", "column"}
            lines = cells_of(f"{cell['paper']}/{cell['table']}")
            matching = [line for line in lines if (line["row"], line["column"]) == (cell["row"], cell["column"])]
            assert len(matching) == 1, f"no such cell: {cell}"
            assert matching[0]["system"], f"only quoted, so nothing of ours can be compared: {cell}"
            found.append(matching[0])
        assert len({line["unit"] for line in found}) == 1
        values = [float(line["published"]) for line in found]
        verdicts.append(holds(claim, values))
        if check["type"] in ("greater", "gap"):
            gains = values if len(values) == 2 else [values[0] - values[1], values[2] - values[3]]
            half.append(gains[0] - gains[1] >= 2 * size_of(claim["smallest_effect"], gains[1]))
    assert sum(verdicts) >= check.get("share", 1) * len(verdicts), f"{sum(verdicts)} of {len(verdicts)} groups"
    # Or a result that repeats the paper's numbers could count against the paper.
    assert sum(half) >= check.get("share", 1) * len(half), f"half of the effect is too small in {half}"
