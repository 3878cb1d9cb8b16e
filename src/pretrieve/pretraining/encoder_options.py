"""What decides what one encoder is: the options of a pre-training job, between the configuration and the program.

As JSON they go to ``workflow_scripts/pretrain.py``, and parts of them into ``pretrieve.json``. No torch: the workflow reads this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.models.config import BodyConfig


def _checked(kind: type, values: Mapping[str, Any], what: str) -> dict[str, Any]:
    known = [one.name for one in fields(kind)]
    for name in values:
        if name not in known:
            raise ConfigError(f"{what}: unknown key {name!r}; it has {', '.join(known)}{nearest(name, known)}")
    for one in fields(kind):
        if one.default is MISSING and one.name not in values:
            raise ConfigError(f"{what}: {one.name} is missing; found {', '.join(values) or 'nothing'}")
    return dict(values)


@dataclass(frozen=True)
class Budget:
    """What encoders share that are compared: examples a step, steps (or epochs in their place), how many of these the
    body is frozen for and at which rate (:mod:`pretrieve.training.optimiser`), and the optimiser's constants; None: the
    default of :class:`pretrieve.training.optimiser.OptimiserConfig`."""

    batch: int
    learning_rate: float
    steps: int | None = None
    epochs: float | None = None
    warmup: float | None = None
    weight_decay: float | None = None
    beta1: float | None = None
    beta2: float | None = None
    eps: float | None = None
    clip: float | None = None
    heads_steps: int | None = None
    heads_rate: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ConfigError(f"budget: steps {self.steps}, epochs {self.epochs}; expected either steps or epochs.")

    def steps_over(self, examples: float) -> int:
        """Its steps, or those of its epochs over so many examples.

        >>> Budget(4, 0.1, steps=7).steps_over(100), Budget(1024, 0.1, epochs=8).steps_over(50_000)
        (7, 391)
        """
        return self.steps if self.steps is not None else max(1, round(self.epochs * examples / self.batch))

    def constants(self) -> dict[str, float]:
        """Of the optimiser, as far as they are given."""
        return {name: value for name, value in self.to_dict().items() if name not in ("batch", "steps", "epochs")}

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class EncoderOptions:
    """``body``: fields of :class:`~pretrieve.models.config.BodyConfig`; ``objective``: its ``name`` and every option of it
    (:mod:`pretrieve.pretraining.presets`), with the lengths of its texts; ``start``: what the encoder continues from;
    ``layers_of_start``: n takes every n-th layer of it, None all; ``budget``: None where nothing is trained."""

    body: Mapping[str, Any]
    objective: Mapping[str, Any]
    pooling: str
    dim: int
    similarity: str
    head: str
    start: str | None = None
    budget: Budget | None = None
    layers_of_start: int | None = None

    def __post_init__(self) -> None:
        if self.layers_of_start and not self.start:
            raise ConfigError(f"encoder options: layers_of_start {self.layers_of_start} without a start; expected one.")
        BodyConfig.from_dict(dict(self.body))
        check_together(self.objective)
        name = self.objective.get("name")
        if (name == "none") != (self.budget is None):
            raise ConfigError(
                f"encoder options: objective {name!r} with {'no budget' if self.budget is None else 'a budget'}; expected a "
                "budget for every objective except 'none'."
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EncoderOptions:
        """Of what :meth:`to_dict` gives. Raises ConfigError for a key that is unknown or missing, and for options that do not go
        together."""
        own = _checked(cls, values, "encoder options")
        if own.get("budget") is not None:
            own["budget"] = Budget(**_checked(Budget, own["budget"], "encoder options: budget"))
        return cls(**own)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``start`` and ``budget`` only where there are any."""
        values = vars(self) | {"budget": self.budget and self.budget.to_dict()}
        return {name: value for name, value in values.items() if value is not None}


def check_together(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for options of an objective that do not go together. Masks check their shares too; here it is done
    without torch, when a configuration is read."""
    found = ""
    if (shares := options.get("mask", 0) + options.get("random", 0)) > 1:
        found = f"mask {options['mask']} and random {options['random']} are {shares:g} of the masked words; expected at most 1"
    elif not options.get("decoder_weight", 1):
        found = "decoder_weight is 0, so nothing trains the decoder; expected more, or objective mlm"
    elif options.get("decode", "cls") != "cls" and not options.get("bow_weight", 1):
        found = f"bow_weight is 0; expected more, or decode: cls in place of {options['decode']}"
    elif (size := options.get("latent_size", "hidden")) != "hidden" and not options.get("kl_weight", 1):
        found = f"latent_size is {size}, but with kl_weight 0 there is no latent variable; expected hidden, or more kl_weight"
    if found:
        raise ConfigError(f"{options.get('name')}: {found}")
