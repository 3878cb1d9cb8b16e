"""Recipes: every value allowed, every difference between paper and code documented and pinned, docs/fine-tuning.md true.

Seen to fail when: a default is outside of what is allowed; a variant names an option that its recipe has not; a row of
docs/fine-tuning.md or of docs/fidelity.md is deleted or names another value; ``trainer_of`` takes the curve before the refresh.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pretrieve.finetuning.recipes import (
    DEFAULT_PRESET,
    KIND_OF,
    RECIPES,
    VARIANTS,
    Names,
    resolve_recipe,
    trainer_of,
)
from pretrieve.finetuning.trainers import TRAINERS
from pretrieve.options import PRESETS

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([a-z0-9-]+)\.([a-z_]+)` \| (.+?) \| (.+?) \| (paper|code) \| (.+?) \|")


def resolved(name: str, **entry: Any) -> dict[str, Any]:
    return resolve_recipe(name, entry, {})


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_allowed(name: str, preset: str) -> None:
    values = resolved(name, preset=preset)
    assert set(values) == {"kind", *RECIPES[name]} and values["kind"] == KIND_OF[name]
    for option, entry in RECIPES[name].items():
        assert entry.allowed.admits(values[option]), option
        assert entry.source, option
    assert trainer_of(values) in TRAINERS


def test_variants_change_what_their_recipes_have() -> None:
    for variant, recipes in VARIANTS.items():
        for name, changes in recipes.items():
            assert set(changes) <= set(RECIPES[name]), (variant, name)
            assert resolve_recipe(name, {}, {}, variant) == resolved(name) | changes
        assert resolve_recipe("reqa", {}, {}, variant) == resolved("reqa")


def test_names() -> None:
    one, many = Names("|[a-z]+"), Names("bm25|mined:[a-z]+", True)
    assert one.admits("") and one.admits("abc") and not one.admits("a1") and not one.admits(["abc"])
    assert many.admits([]) and many.admits(["bm25", "mined:x"]) and not many.admits("bm25") and not many.admits([1])


def test_trainers() -> None:
    ranking = {"kind": "ranking", "loss": "softmax", "refresh": 0, "curve": 0, "windows": 1}
    assert trainer_of(ranking) == "ranking" and trainer_of(ranking | {"curve": 3}) == "curve"
    assert trainer_of(ranking | {"curve": 3, "refresh": 5, "windows": 4}) == "ance"
    assert trainer_of(ranking | {"curve": 3, "windows": 4}) == "maxp"
    assert trainer_of(ranking | {"loss": "distillation", "curve": 3}) == "distillation"
    assert trainer_of({"kind": "clicks"}) == "examples" and trainer_of({"kind": "cross-encoder"}) == "cross-encoder"


def _row(name: str) -> str:
    """A recipe's line of the table, from its options."""
    options = resolved(name)
    group = f" × {options['group']}" if "group" in options else ""
    sources = (["the batch"] if options.get("in_batch") and options["loss"] == "softmax" else []) + options.get(
        "negatives", []
    )
    negatives = ", ".join(sources) or "–"
    if options.get("refresh"):
        negatives += f", then its own every {options['refresh']} steps"
    if name == "news":
        negatives = "of the impression"
    limits = [f"{options['steps']} steps"] if options["steps"] < 1 << 30 else []
    limits += [f"{options['epochs']:g} epochs"] if options["epochs"] < 1e6 else []
    cells = [
        options.get("loss", options["kind"]),
        f"{options['batch']}{group}",
        negatives,
        options["start"],
        f"{options['optimiser']} {options['learning_rate']:g}",
        ", ".join(limits),
        f"{options['query_length']}, {options['passage_length']}",
    ]
    return " | ".join(cells)


@pytest.mark.parametrize("name", RECIPES)
def test_the_table_of_recipes(name: str) -> None:
    lines = (ROOT / "docs/fine-tuning.md").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(f"| `{name}` |")]
    assert line.split(" | ", 2)[2] == f"{_row(name)} |"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def test_every_difference_is_documented_and_pinned() -> None:
    documented = {}
    for line in (ROOT / "docs/fidelity.md").read_text(encoding="utf-8").splitlines():
        if (match := ROW.match(line)) and match[1] in RECIPES:
            documented[match[1], match[2]] = match.groups()[2:]
    different = {
        (name, option): entry
        for name, options in RECIPES.items()
        for option, entry in options.items()
        if entry.paper != entry.official_code
    }
    assert different and set(documented) == set(different)
    for (name, option), entry in different.items():
        paper, code, used, tests = documented[name, option]
        assert (paper, code) == (_shown(entry.paper), _shown(entry.official_code)), (name, option)
        assert used == {"paper": "paper", "official_code": "code"}[DEFAULT_PRESET.get(name, "paper")], (name, option)
        named = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", tests)
        assert named, (name, option)
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
