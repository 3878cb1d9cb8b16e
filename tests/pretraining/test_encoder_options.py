"""The options of a pre-training job: checked once, and the same dictionary on both sides.

Seen to fail when: unknown keys are passed on; a constant that is not given is written as null; epochs count as steps.
"""

from __future__ import annotations

import json

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import encoder_options
from pretrieve.workflow.scales import at_scale

NONE = {
    "body": {"hidden": 16, "heads": 2},
    "objective": {"name": "none"},
    "pooling": "cls",
    "dim": 8,
    "similarity": "dot",
    "head": "linear",
}
BUDGET = {"batch": 4, "learning_rate": 0.1, "steps": 7}
MLM = NONE | {"objective": {"name": "mlm"}, "budget": BUDGET}


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_what_the_workflow_writes_the_program_reads(scale: str) -> None:
    config = at_scale(read_config() | {"scale": scale})
    for name, encoder in config["encoders"].items():
        made = encoder_options(config, name)
        plain = json.loads(json.dumps(made.to_dict()))
        assert EncoderOptions.from_dict(plain) == made and None not in plain.values()
        named = config["scales"][scale]["pretraining"]["budgets"].get(encoder.get("budget"))
        assert plain.get("budget") == named


def test_a_budget_has_steps_or_epochs_and_the_constants_that_are_given() -> None:
    budget = EncoderOptions.from_dict(MLM | {"budget": BUDGET | {"warmup": 0.0}}).budget
    assert budget.steps_over(10_000) == 7 and budget.constants() == {"learning_rate": 0.1, "warmup": 0.0}
    assert OptimiserConfig(steps=7, **budget.constants()) == OptimiserConfig(7, 0.1, warmup=0.0)
    epochs = {key: value for key, value in BUDGET.items() if key != "steps"} | {"epochs": 2.5}
    assert EncoderOptions.from_dict(MLM | {"budget": epochs}).budget.steps_over(100) == 62


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MLM | {"poling": "cls"}, "encoder options: unknown key 'poling'; it has body, .*did you mean 'pooling'"),
        ({"body": {}}, "encoder options: objective is missing; found body"),
        (MLM | {"budget": BUDGET | {"epochs": 2}}, "steps 7, epochs 2; expected either steps or epochs"),
        (MLM | {"budget": {"batch": 4, "learning_rate": 0.1}}, "steps None, epochs None; expected either"),
        (MLM | {"budget": BUDGET | {"step": 1}}, "encoder options: budget: unknown key 'step'.*did you mean 'steps'"),
        (NONE | {"budget": BUDGET}, "objective 'none' with a budget"),
        (NONE | {"objective": {"name": "mlm"}}, "objective 'mlm' with no budget"),
        (NONE | {"body": {"hidden": 15}}, "hidden=15 is not a multiple of heads=12"),
    ],
)
def test_a_mistake_is_one_line(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EncoderOptions.from_dict(options)
