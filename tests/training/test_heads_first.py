"""Heads first: which weights move when, a rate for each phase, and a kill in either phase.

Seen to fail when: the body moves in the first phase; it never moves after it; the heads' moments are kept for the second phase
after a kill but not without one; the word embeddings that the head is tied to move; the second phase's schedule counts the
first's steps; a gradient cache wants a graph of the frozen body.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small import BUDGETS, CPU, make
from small_body import interrupt_after

from pretrieve.base.errors import ConfigError
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.loop import RunSettings, Watcher, train
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, rate_of

CONFIG = OptimiserConfig(7, 1e-2, heads_steps=3, heads_rate=3e-2)


def weights(objective) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in objective.module.state_dict().items()}


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize("budget", BUDGETS[:2])
@pytest.mark.parametrize("name", ["mlm", "condenser", "cocondenser", "pairs", "separate"])
def test_the_body_waits_for_its_heads(store, name: str, budget: int) -> None:
    objective = make(name, store, budget)
    seen = [weights(objective)]
    train(objective, CONFIG, RunSettings(CPU, 1), watcher=Watcher(lambda step: seen.append(weights(objective))))
    body = {key for key in seen[0] if "body" in key.split(".")}
    heads = seen[0].keys() - body
    assert body and heads and any(key.endswith("words.weight") for key in body)
    for step in range(CONFIG.heads_steps):
        changed = moved(seen[step], seen[step + 1])
        assert changed and not changed & body
    first = moved(seen[CONFIG.heads_steps], seen[CONFIG.heads_steps + 1])
    assert first & heads and any(key.endswith("words.weight") for key in first & body)
    assert all(parameter.requires_grad for parameter in objective.module.parameters())


def test_a_rate_for_each_phase() -> None:
    both = OptimiserConfig(40, 1.0, warmup=0.25)
    config = OptimiserConfig(60, 1.0, warmup=0.25, heads_steps=20, heads_rate=0.5)
    rates = [rate_of(config, step) for step in range(60)]
    assert rates[:3] == [0.25, 0.5, 0.5] and set(rates[2:20]) == {0.5}
    assert rates[20:] == [learning_rate_at(both, step) for step in range(40)]
    assert [rate_of(both, step) for step in range(40)] == rates[20:]
    assert rate_of(OptimiserConfig(60, 2.0, heads_steps=20), 10) == 2.0


def test_interrupted_at_any_step(store, tmp_path: Path) -> None:
    def go(directory: Path, stop: int | None):
        objective = make("condenser", store, BUDGETS[1], dropout=0.1, batch=4)
        assert len(objective.micro_batches(0)) > 1

        outcome = train(objective, CONFIG, RunSettings(CPU, 1, 0.0), Checkpoints(directory, "k"), interrupt_after(stop))
        return weights(objective), [row["learning_rate"] for row in outcome.curve], outcome.tokens

    wanted, rates, tokens = go(tmp_path / "straight", None)
    assert rates == [rate_of(CONFIG, step) for step in range(CONFIG.steps)]
    for stop in range(CONFIG.steps):
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path / str(stop), stop)
        found, again, counted = go(tmp_path / str(stop), None)
        assert not moved(wanted, found) and again == rates and counted == tokens, stop


def test_what_is_refused(store) -> None:
    for wrong in ({"heads_steps": 7}, {"heads_steps": -1}, {"heads_rate": -1.0}, {"schedule_steps": 9}):
        with pytest.raises(ConfigError, match="expected fewer heads_steps than steps"):
            OptimiserConfig(**{"steps": 7, "learning_rate": 1.0, "heads_steps": 3} | wrong)
    objective = make("mlm", store, BUDGETS[0])
    del objective.module["mlm"]
    with pytest.raises(ConfigError, match="trains nothing besides the body; expected 0"):
        train(objective, CONFIG, RunSettings(CPU, 1))
