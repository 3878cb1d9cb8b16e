"""Options and presets: every value allowed, every difference between paper and code documented and pinned by a test.

Seen to fail when: a preset's value is outside of what is allowed; ``admits`` takes True for 1; the scale's change is put behind
the encoder's; a row of docs/fidelity.md is deleted, names another value, or names a test that does not exist.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.base.options import PRESETS, Between, OneOf
from pretrieve.pretraining.presets import DEFAULT_PRESET, OPTIONS, resolve

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (`[a-z0-9-]+\.[a-z_]+`[^|]*) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|")


def rows() -> dict[tuple[str, str], tuple[str, str, str]]:
    """(objective, option) → paper's value, code's value, tests; from docs/fidelity.md. The default's value is bold."""
    found = {}
    for line in (ROOT / "docs/fidelity.md").read_text(encoding="utf-8").splitlines():
        if match := ROW.match(line):
            options = re.findall(r"`([a-z0-9-]+)\.([a-z_]+)`", match[1])
            found |= {option: match.groups()[1:] for option in options if option[0] in OPTIONS}
    return found


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_allowed(name: str, preset: str) -> None:
    values = resolve(name, preset, {}, "encoders.x")
    assert set(values) == set(OPTIONS[name])
    for option, value in values.items():
        assert OPTIONS[name][option].allowed.admits(value), option
        assert OPTIONS[name][option].source


def test_kinds_of_values() -> None:
    flag, number, count = OneOf((False, True)), Between(0, 1), Between(1, 12, True, ("all",))
    assert flag.admits(True) and flag.admits(False) and not flag.admits(1) and not flag.admits("true")
    assert number.admits(0) and number.admits(0.5) and not number.admits(1.1) and not number.admits(True)
    assert count.admits(12) and count.admits("all") and not count.admits(1.5) and not count.admits("any")
    assert str(count) == "a whole number from 1 to 12 or all" and str(flag) == "false, true"


def test_the_encoder_decides_over_the_scale_and_the_scale_over_the_preset() -> None:
    assert resolve("condenser", "paper", {}, "e")["skip_layer"] == 6
    assert resolve("condenser", None, {}, "e", {"skip_layer": 1})["skip_layer"] == 1
    assert resolve("condenser", None, {"skip_layer": 2}, "e", {"skip_layer": 1})["skip_layer"] == 2
    for name in OPTIONS:
        default = DEFAULT_PRESET.get(name, "paper")
        assert resolve(name, None, {}, "e") == resolve(name, default, {}, "e")


@pytest.mark.parametrize(
    ("name", "preset", "changes", "message"),
    [
        ("condensor", None, {}, "did you mean 'condenser'?"),
        ("condenser", "offical_code", {}, "did you mean 'official_code'?"),
        ("condenser", None, {"skip_layers": 1}, "encoders.x.options.skip_layers: unknown option of condenser"),
        ("condenser", None, {"late_mlm": 1}, "late_mlm: 1 is not allowed; allowed: false, true"),
        ("seed-encoder", None, {"span": 0}, "span: 0 is not allowed; allowed: a whole number from 1 to 4096 or all"),
    ],
)
def test_mistakes(name: str, preset: str | None, changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        resolve(name, preset, changes, "encoders.x")


def test_every_difference_is_documented_and_pinned() -> None:
    documented = rows()
    different = {
        (name, option): entry
        for name, options in OPTIONS.items()
        for option, entry in options.items()
        if entry.paper != entry.official_code
    }
    assert len(different) > 15
    assert set(documented) == set(different)
    for (name, option), (*values, tests) in documented.items():
        entry = different[name, option]
        wanted = [shown(entry.paper), shown(entry.official_code)]
        used = PRESETS.index(DEFAULT_PRESET.get(name, "paper"))
        wanted[used] = f"**{wanted[used]}**"
        assert values == wanted, (name, option)
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
        assert named, f"{name}.{option} names no test"
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test} does not exist"
