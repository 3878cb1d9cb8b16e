"""Encoders that one table compares differ in their objective, and in nothing else: on the repository's own configuration.

Groups are those that the papers compare; what is looked at is what a training job gets.

Seen to fail when: one encoder of a group gets another budget, another start, fewer layers, or texts of another length.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pretrieve.workflow.job_options import encoder_options

DUPMAE = ("bert", "condenser", "cocondenser", "retromae", "dupmae", "dupmae-cls", "dupmae-ot")
#: Options of an objective that say how much text it sees; every objective of a group has the same.
AMOUNT = ("length", "examples", "query_length", "passage_length")


def group(config: dict[str, Any], name: str) -> list[str]:
    """Encoders of one comparison; papers condenser and dupmae, paper seed_encoder, paper pretraining_tasks."""
    encoders = config["encoders"]
    if name == "dupmae":
        return list(DUPMAE)
    if name == "seed_encoder":
        seeds = [other for other in encoders if other.startswith("seed-") and other != "seed-mlm"]
        return ["seed-mlm" if "seed-mlm" in encoders else "bert", "optimus", *seeds]
    return [
        other
        for other, entry in encoders.items()
        if entry.get("layers") == "deep" and entry["objective"] != "none" and entry.get("budget") == "pairs"
    ]


def differences(config: dict[str, Any], names: list[str]) -> list[str]:
    """What differs between the first encoder and the others, as ``encoder: key``, but for the objective's own options."""
    found = []
    resolved = {name: encoder_options(config, name).to_dict() for name in names}
    first = resolved[names[0]]
    for name, options in resolved.items():
        # Paper pretraining_tasks varies the dimension of the vectors (table 6); a word objective has no vectors.
        keys = (first.keys() | options.keys()) - {"objective", "dim"}
        found += [f"{name}: {key}" for key in sorted(keys) if options.get(key) != first.get(key)]
        amounts = [resolved[other]["objective"].get(key) for key in AMOUNT for other in (names[0], name)]
        pairs = zip(AMOUNT, amounts[::2], amounts[1::2], strict=True)
        found += [f"{name}: {key}" for key, one, own in pairs if None not in (one, own) and one != own]
    return found


GROUPS = {"dupmae": 7, "seed_encoder": 11, "pretraining_tasks": 6}


@pytest.mark.parametrize("name", GROUPS)
def test_nothing_but_the_objective_differs(config, name: str) -> None:
    names = group(config, name)
    assert len(names) >= GROUPS[name]
    assert differences(config, names) == []
    objectives = [str(encoder_options(config, encoder).objective) for encoder in names]
    dims = [encoder_options(config, encoder).dim for encoder in names]
    assert len(set(zip(objectives, dims, strict=True))) == len(names)  # and that does
    if name != "pretraining_tasks":
        assert len(set(dims)) == 1


def test_every_group_has_its_baseline(config) -> None:
    """Masked words alone, with the budget and the start of the others."""
    for name in GROUPS:
        first, *rest = group(config, name)
        assert config["encoders"][first]["objective"] == "mlm" and "mlm" not in {
            config["encoders"][other]["objective"]
            for other in rest
            if isinstance(config["encoders"][other]["objective"], str)
        }
        budget = encoder_options(config, first).budget.to_dict()
        assert {"batch", "steps", "learning_rate"} <= budget.keys()


def test_two_spans_are_as_much_text_as_one_passage(config) -> None:
    """coCondenser reads two spans of each of its documents where the others read one text."""
    scale = config["scales"][config["scale"]]
    assert 2 * encoder_options(config, "cocondenser").objective["span_length"] == scale["passage_length"]


@pytest.mark.parametrize(
    ("name", "encoder", "key", "value", "expected"),
    [
        ("dupmae", "condenser", "budget", "base", ["budget"]),
        ("dupmae", "dupmae-ot", "budget", "one more step", ["budget"]),
        ("dupmae", "retromae", "start", None, ["start"]),
        ("dupmae", "cocondenser", "layers", "shallow", ["body"]),
        ("seed_encoder", "seed-5-all", "budget", "one more step", ["budget"]),
        ("seed_encoder", "optimus", "start", "dir:elsewhere", ["start"]),
        ("pretraining_tasks", "transformer-ict", "budget", "one more step", ["budget"]),
        ("pretraining_tasks", "transformer-ict", "options", {"similarity": "dot"}, ["similarity"]),
    ],
)
def test_a_difference_is_seen(config, name: str, encoder: str, key: str, value: Any, expected: list[str]) -> None:
    other = copy.deepcopy(config)
    entry, scale = other["encoders"][encoder], other["scales"][other["scale"]]
    if value == "one more step":
        budgets = scale["pretraining"]["budgets"]
        budgets["another"] = dict(budgets[entry["budget"]], steps=budgets[entry["budget"]]["steps"] + 1)
        value = "another"
    names = group(config, name)
    if value is None:
        del entry[key]
    else:
        entry[key] = value
    assert differences(other, names) == [f"{encoder}: {what}" for what in expected]
