"""Recipes: every value allowed, every difference between paper and code documented and pinned, docs/fine-tuning.md true.

Seen to fail when: a default is outside of what is allowed; a variant names an option that its recipe has not; a row of
docs/fine-tuning.md or of docs/fidelity.md is deleted or names another value; ``trainer_of`` takes the curve before the refresh;
a schedule ends with the training, or weights decay, under ``official_code``; open QA trains on every relevant passage, or its
ANCE has MS MARCO's steps or sample.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pretrieve.base.options import PRESETS, ByPreset
from pretrieve.finetuning.finetune import optimiser_config
from pretrieve.finetuning.recipe_parts import Depths, Names
from pretrieve.finetuning.recipes import DEFAULT_PRESET, KIND_OF, RECIPES, VARIANTS, resolve_recipe
from pretrieve.finetuning.trainers import modules_of, trainer_of
from pretrieve.training.optimiser import learning_rate_at
from pretrieve.workflow.stage_code import stage_sources

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (`[a-z0-9-]+\.[a-z_]+`[^|]*) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|")


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
    assert all(find_spec(module) for module in modules_of(values))


def test_variants_change_what_their_recipes_have() -> None:
    for variant, recipes in VARIANTS.items():
        for name, changes in recipes.items():
            assert set(changes) <= set(RECIPES[name]), (variant, name)
            for preset in PRESETS:
                own = {k: getattr(v, preset) if isinstance(v, ByPreset) else v for k, v in changes.items()}
                found = resolve_recipe(name, {"preset": preset}, {}, variant)
                assert found == resolved(name, preset=preset) | own, (variant, name, preset)
                assert all(RECIPES[name][option].allowed.admits(value) for option, value in own.items())
        assert resolve_recipe("reqa", {}, {}, variant) == resolved("reqa")


def test_names() -> None:
    one, many = Names("|[a-z]+"), Names("bm25|mined:[a-z]+", True)
    assert one.admits("") and one.admits("abc") and not one.admits("a1") and not one.admits(["abc"])
    assert many.admits([]) and many.admits(["bm25", "mined:x"]) and not many.admits("bm25") and not many.admits([1])


def test_depths() -> None:
    assert all(Depths().admits(value) for value in ("first", "all", 200, ["all", 200]))
    assert not any(Depths().admits(value) for value in ("last", 0, 1.5, True, [], ["first", 0], [["all"]]))


def test_released_schedules() -> None:
    """By hand from the commands: SEED-Encoder's warm-up is 35,000,000 // 256 · 2 steps, of which 1,000 warm up, and its
    checkpoint 90,000 is where 67 % of the peak is left; ANCE's are 440,000 and 800,000 of 1,000,000. None decays weights."""
    assert 35_000_000 // 256 * 2 == 273_436  # run_warmup.py:57 multiplies by 2.0 what // leaves: 136,718 · 2
    for name, variant, warm, total, last in (
        ("seed-pairwise", None, 1000, 273_437, 90_000),
        ("ance", None, 5000, 1_000_000, 440_000),
        ("ance", "documents", 3000, 1_000_000, 800_000),
    ):
        options = resolve_recipe(name, {"preset": "official_code"}, {}, variant)
        config = optimiser_config(options, options["steps"])
        assert (config.steps, config.weight_decay) == (last, 0.0)
        rates = [learning_rate_at(config, step) / options["learning_rate"] for step in (warm - 1, last)]
        assert rates == pytest.approx([1.0, (total - last) / (total - warm)], abs=1e-4)
    # A run that few questions make a tenth as long has a tenth of the schedule.
    options = resolved("seed-pairwise", preset="official_code")
    assert optimiser_config(options, 9000).schedule_steps == 27_344
    # dual_encoders §4: from 1e-3 linearly to 0; t5x_retrieval warms up for 1,000 of 20,000 steps.
    paper, code = (resolved("dual-t5", preset=preset) for preset in PRESETS)
    first, second = (learning_rate_at(optimiser_config(options, 20_000), 0) for options in (paper, code))
    assert first == 1e-3 and second < 1e-6
    assert learning_rate_at(optimiser_config(code, 20_000), 1000) == pytest.approx(1e-3)


def test_open_qa_as_released() -> None:
    """DPR, SEED-Encoder and tevatron train on the first positive alone. By hand from SEED-Encoder's run_ann_data_gen_dpr.sh,
    run_train_dpr.sh and the defaults of run_ann_dpr.py: 1,000 of 300,000 steps warm up, the gradient's norm is cut to 2, and
    the first 100 hits are looked at, whose answers are left out, and none is drawn."""
    for name, preset in product(("dpr-bm25", "dpr-hard", "ance"), PRESETS):
        assert resolve_recipe(name, {"preset": preset}, {}, "open-qa")["examples"] == "first"
        assert resolve_recipe(name, {"preset": preset}, {}, "documents")["examples"] != "first"
    for preset in PRESETS:
        options = resolve_recipe("ance", {"preset": preset}, {}, "open-qa")
        assert [options[key] for key in ("pool", "sample", "batch")] == [100, 100, 32 * 8]
        config = optimiser_config(options, options["steps"])
        assert (config.steps, config.schedule_steps, config.clip, config.name) == (300_000, 0, 2.0, "lamb")
        rates = [learning_rate_at(config, step) / 1e-5 for step in (499, 999, 1000, 299_999)]
        assert rates == pytest.approx([0.5, 1.0, 1.0, 0.0], abs=1e-5)
    usual = resolved("ance")
    assert (usual["pool"], usual["sample"]) == (200, 20)


def test_news_has_no_head() -> None:
    """The released code has a linear layer, tanh and LayerNorm, which the paper does not state."""
    assert [resolved("news", preset=preset)["head"] for preset in ("paper", "official_code")] == ["none"] * 2


def test_trainers() -> None:
    ranking = {"kind": "ranking", "loss": "softmax", "refresh": 0, "curve": 0, "windows": 1}
    assert trainer_of(ranking) == "ranking" and trainer_of(ranking | {"curve": 3}) == "curve"
    assert trainer_of(ranking | {"curve": 3, "refresh": 5, "windows": 4}) == "ance"
    assert trainer_of(ranking | {"curve": 3, "windows": 4}) == "maxp"
    assert trainer_of(ranking | {"loss": "distillation", "curve": 3}) == "distillation"
    assert trainer_of({"kind": "clicks"}) == "examples" and trainer_of({"kind": "cross-encoder"}) == "cross-encoder"


def test_no_retriever_is_trained_again_for_an_edit_of_pretraining() -> None:
    """The order of examples stood beside the masks of words, so an edit of these trained every retriever again."""
    for name in RECIPES:
        code = stage_sources("finetune.py", *modules_of(resolved(name)))
        assert len(code) > 20 and not [module for module in code if module.startswith("pretrieve.pretraining")], name


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
        if match := ROW.match(line):
            options = re.findall(r"`([a-z0-9-]+)\.([a-z_]+)`", match[1])
            documented |= {option: match.groups()[1:] for option in options if option[0] in RECIPES}
    different = {
        (name, option): entry
        for name, options in RECIPES.items()
        for option, entry in options.items()
        if entry.paper != entry.official_code
    }
    assert different and set(documented) == set(different)
    for (name, option), entry in different.items():
        *values, tests = documented[name, option]
        wanted = [_shown(entry.paper), _shown(entry.official_code)]
        used = PRESETS.index(DEFAULT_PRESET.get(name, "paper"))
        wanted[used] = f"**{wanted[used]}**"
        assert values == wanted, (name, option)
        named = re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`", tests)
        assert named, (name, option)
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
