"""Which choices a run made where papers and released code differ: every option, the value used, both sources' values.

Paper and code differ in every one of the five (docs/fidelity.md), and a small scale changes more. A reader of a number can see
here what stands behind it. Values come from the configuration as the stages resolve it; sources from
:mod:`pretrieve.pretraining.presets` and :mod:`pretrieve.finetuning.recipes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pretrieve.base.options import Option
from pretrieve.finetuning import recipes
from pretrieve.pretraining import presets
from pretrieve.workflow.job_options import encoder_options, recipe_options


class Choice(NamedTuple):
    """One option as text. ``follows``: paper, code, both, or neither (the scale's or the row's own value)."""

    option: str
    used: str
    paper: str
    code: str
    follows: str
    source: str


@dataclass(frozen=True)
class Choices:
    """An encoder's objective, or a recipe on some data sets. ``facts``: what has no preset (body, budget), as (term, text)."""

    name: str
    what: str
    facts: list[tuple[str, str]]
    choices: list[Choice]


def encoder_choices(config: Mapping[str, Any], encoder: str) -> Choices:
    """The options of an encoder's pre-training, and its body and budget."""
    entry, options = config["encoders"][encoder], encoder_options(config, encoder)
    objective = options.objective
    preset = entry.get("preset") or presets.DEFAULT_PRESET.get(objective["name"], "paper")
    tasks = f" ({', '.join(objective['tasks'])})" if "tasks" in objective else ""
    facts = [("objective", f"{objective['name']}{tasks}, preset {preset}")]
    if options.start:
        facts.append(("start", options.start))
    facts.append(("body", _pairs(options.body)))
    facts.append(("budget", _pairs(options.budget.to_dict()) if options.budget else "none: a random initialisation"))
    known = presets.OPTIONS[objective["name"]]
    return Choices(encoder, "pre-training", facts, _choices(known, objective))


def recipe_choices(config: Mapping[str, Any], recipe: str, datasets: Iterable[str]) -> list[Choices]:
    """The options of a recipe: once for all data sets that it has the same options on."""
    entry = config["recipes"][recipe]
    base = entry.get("recipe", recipe)
    preset = entry.get("preset") or recipes.DEFAULT_PRESET.get(base, "paper")
    same: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for dataset in datasets:
        options = recipe_options(config, recipe, dataset)
        same.setdefault(json.dumps(options, sort_keys=True), (options, []))[1].append(dataset)
    found = []
    for options, names in same.values():
        facts = [("recipe", f"{base} ({options['kind']}), preset {preset}"), ("data", ", ".join(names))]
        found.append(Choices(recipe, "fine-tuning", facts, _choices(recipes.RECIPES[base], options)))
    return found


def _choices(known: Mapping[str, Option], used: Mapping[str, Any]) -> list[Choice]:
    choices = []
    for name, option in known.items():
        if name in used:
            values = (used[name], option.paper, option.official_code)
            paper, code = used[name] == option.paper, used[name] == option.official_code
            follows = "both" if paper and code else "paper" if paper else "code" if code else "neither"
            choices.append(Choice(name, *map(_text, values), follows, option.source))
    return choices


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1 << 30:
        return "no limit"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in ("", None) else str(value)


def _pairs(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {_text(value)}" for key, value in options.items())
