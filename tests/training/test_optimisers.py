"""Which optimiser and schedule a configuration gives, and that a run with any of them goes on with the same bits.

Adafactor is compared with T5X's formula written out in numpy; 1e-4 of the step is allowed for sums in another order.

Seen to fail when: the schedule of T5X begins at 1/warm; its decay ends elsewhere than at the last step + 1, or falls below 0;
``constant`` decays; Adafactor's step is not relative to the weights, its update is not cut at 1, or its average decays at another
pace; LAMB gets AdamW's bias correction; frozen weights are handed over; moments are not restored after a kill; the first
moment is restored as the second.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_body import interrupt_after
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.objective import MicroBatch
from pretrieve.training.optimiser import OPTIMISERS, Lamb, OptimiserConfig, learning_rate_at, make_optimiser


def rates(steps: int, **options) -> list[float]:
    config = OptimiserConfig(steps, 2.0, **options)
    return [learning_rate_at(config, step) for step in range(steps)]


def test_constant() -> None:
    assert rates(10, warmup=0.4, schedule="constant") == [0.5, 1.0, 1.5] + [2.0] * 7


def test_linear_decay_of_t5x() -> None:
    """min(step/warm, 1 + f·(warm − step)); it would be 0 at step 20, the first that is not made."""
    found = rates(20, warmup=0.25, schedule="t5x")
    assert found[:6] == pytest.approx([1e-8, 0.4, 0.8, 1.2, 1.6, 2.0])
    assert found[6:] == pytest.approx([2 * (20 - step) / 15 for step in range(6, 20)])
    # The published runs: 20,000 steps, 1,000 of them warm-up.
    config = OptimiserConfig(20_000, 2e-3, 0.05, schedule="t5x")
    assert learning_rate_at(config, 1000) == 2e-3 and learning_rate_at(config, 500) == pytest.approx(1e-3)
    assert learning_rate_at(config, 19_999) == pytest.approx(2e-3 / 19_000)
    assert rates(4, warmup=0.0, schedule="t5x") == pytest.approx(rates(4, warmup=0.0))


@pytest.mark.parametrize("wrong", [{"name": "sgd"}, {"schedule": "cosine"}])
def test_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match="|".join(str(value) for value in wrong.values())):
        OptimiserConfig(1, 1.0, **wrong)


def model() -> nn.ModuleDict:
    torch.manual_seed(4)
    module = nn.ModuleDict({"linear": nn.Linear(3, 2), "norm": nn.LayerNorm(2), "fixed": nn.Linear(2, 2)})
    module["fixed"].requires_grad_(False)
    return module


@pytest.mark.parametrize("name", OPTIMISERS)
def test_what_is_handed_over(name: str) -> None:
    module = model()
    config = OptimiserConfig(1, 1e-3, weight_decay=0.3, name=name, beta1=0.8, beta2=0.95, eps=1e-5)
    optimiser = make_optimiser(module, config)
    kinds = {"adamw": torch.optim.AdamW, "adafactor": torch.optim.Adafactor, "lamb": Lamb}
    assert type(optimiser) is kinds[name]
    of = {id(p): group["weight_decay"] for group in optimiser.param_groups for p in group["params"]}
    found = {n: of.get(id(p)) for n, p in module.named_parameters()}
    assert found == {
        **{"linear.weight": 0.3, "linear.bias": 0.0, "norm.weight": 0.0, "norm.bias": 0.0},
        **{"fixed.weight": None, "fixed.bias": None},
    }
    for group in optimiser.param_groups:
        if name != "adafactor":
            assert group["betas"] == (0.8, 0.95) and group["eps"] == 1e-5


class T5xAdafactor:
    """t5x/adafactor.py, apply_param_gradient, with its defaults: factored, multiply_by_parameter_scale, no momentum."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.t = weights.astype(np.float64), 0
        self.row, self.column, self.full = 0.0, 0.0, 0.0

    def step(self, gradient: np.ndarray, rate: float) -> np.ndarray:
        self.t += 1
        kept = 1 - self.t**-0.8
        scale = max(np.sqrt((self.weights**2).mean()), 1e-3)
        square = gradient.astype(np.float64) ** 2 + 1e-30
        if gradient.ndim == 2:
            self.row = kept * self.row + (1 - kept) * square.mean(axis=1)
            self.column = kept * self.column + (1 - kept) * square.mean(axis=0)
            update = gradient * ((self.row / self.row.mean())[:, None] * self.column[None]) ** -0.5
        else:
            self.full = kept * self.full + (1 - kept) * square
            update = gradient * self.full**-0.5
        update = update / max(1.0, np.sqrt((update**2).mean()))
        before = self.weights
        self.weights = before - rate * scale * update
        return self.weights - before


def test_adafactor_is_that_of_t5x() -> None:
    """A wide matrix, a tall one, a vector, and weights that are smaller than the least scale; sizes of gradients jump."""
    rng = np.random.default_rng(0)
    for shape, size in (((3, 5), 1.0), ((6, 2), 0.1), ((4,), 1.0), ((4,), 1e-5)):
        start = rng.normal(size=shape) * size
        module = nn.ParameterDict({"weight": nn.Parameter(torch.tensor(start, dtype=torch.float32))})
        config = OptimiserConfig(9, 1e-2, weight_decay=0.0, name="adafactor")
        optimiser, reference = make_optimiser(module, config), T5xAdafactor(start)
        for step in range(9):
            gradient = rng.normal(size=shape) * 10.0 ** rng.integers(-4, 2)
            if step == 5:
                gradient[0] = 0.0
            before = module["weight"].detach().double().numpy()
            wanted = reference.step(gradient, 1e-2 / (step + 1))
            for group in optimiser.param_groups:
                group["lr"] = 1e-2 / (step + 1)
            module["weight"].grad = torch.tensor(gradient, dtype=torch.float32)
            optimiser.step()
            found = module["weight"].detach().double().numpy() - before
            assert np.abs(wanted).max() > 0
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max() + 1e-7 * size)


class Cubes:
    """Fit random targets with a linear layer, a LayerNorm and a frozen layer behind them."""

    terms = {"square": 1.0}

    def __init__(self) -> None:
        self.module = model()

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        x = torch.tensor(np.random.default_rng(step).normal(size=(6, 3)), dtype=torch.float32)
        return [MicroBatch(part, {"square": len(part)}, len(part)) for part in x.split(4)]

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        x = batch.data
        y = self.module["fixed"](self.module["norm"](self.module["linear"](x)))
        return {"square": ((y - x[:, :2] ** 3) ** 2).sum()}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("schedule", ["linear", "t5x"])
def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path, cpu, name: str, schedule: str) -> None:
    config = OptimiserConfig(8, 0.05, name=name, schedule=schedule)

    def go(directory: Path, stop: int | None) -> tuple[dict[str, torch.Tensor], list]:
        objective = Cubes()

        outcome = train(objective, config, RunSettings(cpu, 1, 0.0), Checkpoints(directory, "k"), interrupt_after(stop))
        return objective.module.state_dict(), outcome.curve

    straight, curve = go(tmp_path / "straight", None)
    assert curve[-1]["loss"] != curve[0]["loss"]
    assert all(torch.equal(straight[f"fixed.{n}"], t) for n, t in model()["fixed"].state_dict().items())
    for stop in (0, 4, 6):
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path / str(stop), stop)
        resumed, again = go(tmp_path / str(stop), None)
        assert all(torch.equal(resumed[n], straight[n]) for n in straight), stop
        assert [row["loss"] for row in again] == [row["loss"] for row in curve]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_learns(cpu, name: str) -> None:
    objective = Cubes()
    rate = {"adamw": 0.05, "adafactor": 0.2, "lamb": 0.05}[name]
    curve = train(objective, OptimiserConfig(150, rate, name=name, weight_decay=0.0), RunSettings(cpu, 1)).curve
    first, last = (float(np.mean([row["loss"] for row in rows])) for rows in (curve[:10], curve[-10:]))
    assert last < 0.9 * first
