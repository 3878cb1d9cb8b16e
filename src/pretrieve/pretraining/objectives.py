"""Objectives by name, each in a module that is imported when it is used: an edit of one trains no encoder of another again.

An objective ``seed-encoder`` is what ``build`` of ``pretrieve/pretraining/seed_encoder.py`` makes of a setting; its options are
in ``presets.py``. No torch here: the workflow reads this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pretrieve.base.errors import ConfigError
from pretrieve.pretraining.presets import OPTIONS

if TYPE_CHECKING:
    from pretrieve.pretraining.examples import Setting
    from pretrieve.pretraining.pairs.pair import PairSampler
    from pretrieve.training.objective import Objective

#: Pair task → its sampler.
PAIR_TASKS = {
    "ict": "pretrieve.pretraining.pairs.ict:InverseClozeTask",
    "bfs": "pretrieve.pretraining.pairs.bfs:BodyFirstSelection",
    "wlp": "pretrieve.pretraining.pairs.wlp:WikiLinkPrediction",
}


def modules_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules that an objective with these options is made of, beside what all have in common.

    >>> modules_of({"name": "seed-encoder"})
    ('pretrieve.pretraining.seed_encoder',)
    """
    if options["name"] == "none":
        return ()
    own = "contrastive" if options["name"] == "pairs" else options["name"].replace("-", "_")
    pairs = (PAIR_TASKS[task].partition(":")[0] for task in options.get("tasks", ()))
    return (f"pretrieve.pretraining.{own}", *pairs)


def pair_modules() -> tuple[str, ...]:
    """The modules of all pair tasks."""
    return tuple(place.partition(":")[0] for place in PAIR_TASKS.values())


def build_objective(setting: Setting) -> Objective:
    """The objective that ``setting.options['name']`` names.

    Raises ConfigError for an unknown name.
    """
    name = setting.options["name"]
    if name not in OPTIONS or name == "none":
        raise ConfigError(
            f"objective {name!r} is not allowed; choose from {', '.join(sorted(OPTIONS.keys() - {'none'}))}."
        )
    return import_module(modules_of(setting.options)[0]).build(setting)


def pair_task(name: str) -> type[PairSampler]:
    """The sampler of a pair task.

    Raises ConfigError for an unknown name.
    """
    if name not in PAIR_TASKS:
        raise ConfigError(f"pair task {name!r} is not allowed; choose from {', '.join(PAIR_TASKS)}.")
    return resolve_name(PAIR_TASKS[name])
