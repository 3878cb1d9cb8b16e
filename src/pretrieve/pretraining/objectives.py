"""Objectives by name. A method is one file with a ``build`` function, one line here, and its options in ``presets.py``."""

from __future__ import annotations

from pretrieve.base.errors import ConfigError
from pretrieve.pretraining import cocondenser, condenser, contrastive, dupmae, mlm, optimus, retromae, seed_encoder
from pretrieve.pretraining.setting import Setting
from pretrieve.training.objective import Objective

BUILDERS = {
    "mlm": mlm.build,
    "condenser": condenser.build,
    "cocondenser": cocondenser.build,
    "pairs": contrastive.build,
    "seed-encoder": seed_encoder.build,
    "optimus": optimus.build,
    "retromae": retromae.build,
    "dupmae": dupmae.build,
}


def build_objective(setting: Setting) -> Objective:
    """The objective that ``setting.options['name']`` names.

    Raises
    ------
    ConfigError
        for an unknown name.
    """
    name = setting.options["name"]
    if name not in BUILDERS:
        raise ConfigError(f"objective {name!r} is not allowed; choose from none, {', '.join(BUILDERS)}.")
    return BUILDERS[name](setting)
