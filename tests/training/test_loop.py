"""The training loop on a problem small enough to follow, its schedule, its checkpoints and its error.

Seen to fail when: warm-up starts at 0; micro-batch means are averaged; NaN is let through; weight decay touches biases; two
checkpoints are not kept; a checkpoint of a later step of another run is kept instead of ours; the watcher is not restored.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pretrieve.errors import ConfigError, PretrieveError
from pretrieve.training.checkpoint import Checkpoints, State
from pretrieve.training.device import choose_device
from pretrieve.training.loop import MicroBatch, TrainingError, Watcher, content_key, train, write_curve
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, make_optimiser


class Line:
    """Fit y = 3x - 1 from 12 points a step, cut into unequal micro-batches."""

    terms = {"square": 1.0, "small": 0.5}

    def __init__(self, cuts: tuple[int, ...] = (), poison: int | None = None) -> None:
        self.module = nn.Linear(1, 1)
        nn.init.zeros_(self.module.weight)
        nn.init.zeros_(self.module.bias)
        self.cuts, self.poison, self.steps = cuts, poison, []

    def micro_batches(self, step: int) -> list[MicroBatch]:
        self.steps.append(step)
        x = torch.tensor(np.random.default_rng(step).normal(size=(12, 1)), dtype=torch.float32)
        if step == self.poison:
            x = x * torch.nan
        return [
            MicroBatch(part, {"square": len(part), "small": 1}, 10 * len(part)) for part in x.tensor_split(self.cuts)
        ]

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        error = self.module(batch.data) - (3 * batch.data - 1)
        return {"square": (error**2).sum(), "small": (self.module.weight**2).sum() * 1e-3}


def test_schedule() -> None:
    config = OptimiserConfig(100, 2.0, warmup=0.1)
    rates = [learning_rate_at(config, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == pytest.approx(2.0) and rates[10] == pytest.approx(2.0)
    assert rates[99] == pytest.approx(2.0 / 90) and max(rates) == 2.0
    assert np.allclose(np.diff(rates[:10]), 0.2) and np.allclose(np.diff(rates[10:]), -2 / 90)
    assert [learning_rate_at(OptimiserConfig(4, 1.0, warmup=0), step) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert [learning_rate_at(OptimiserConfig(2, 1.0, warmup=1), step) for step in range(2)] == [0.5, 1.0]
    assert learning_rate_at(OptimiserConfig(1, 1.0), 0) == 1.0
    for wrong in ({"steps": -1}, {"learning_rate": 0}, {"warmup": 1.5}):
        with pytest.raises(ConfigError):
            OptimiserConfig(**{"steps": 1, "learning_rate": 1.0} | wrong)


def test_weight_decay_spares_biases_and_norms() -> None:
    module = nn.ModuleDict({"linear": nn.Linear(3, 2), "norm": nn.LayerNorm(2), "fixed": nn.Linear(1, 1)})
    module["fixed"].requires_grad_(False)
    optimiser = make_optimiser(module, OptimiserConfig(1, 1e-3, weight_decay=0.3))
    of = {id(p): group["weight_decay"] for group in optimiser.param_groups for p in group["params"]}
    found = {name: of.get(id(p)) for name, p in module.named_parameters()}
    assert found == {"linear.weight": 0.3, "linear.bias": 0.0, "norm.weight": 0.0, "norm.bias": 0.0} | {
        "fixed.weight": None,
        "fixed.bias": None,
    }


def test_first_step_by_hand(cpu) -> None:
    """AdamW's first step is the learning rate times the sign of the gradient."""
    objective = Line()
    x = objective.micro_batches(0)[0].data
    train(objective, OptimiserConfig(1, 0.01), cpu, seed=0)
    expected = {"weight": float((2 * x * (1 - 3 * x)).mean()), "bias": float((2 * (1 - 3 * x)).mean())}
    for name, gradient in expected.items():
        assert getattr(objective.module, name).item() == pytest.approx(-0.01 * np.sign(gradient), abs=1e-6)


def test_learns(cpu) -> None:
    objective = Line()
    outcome = train(objective, OptimiserConfig(300, 0.1, weight_decay=0.0), cpu, seed=0)
    assert objective.module.weight.item() == pytest.approx(3, abs=0.05)
    assert objective.module.bias.item() == pytest.approx(-1, abs=0.05)
    assert objective.steps == list(range(300)) and outcome.tokens == 300 * 120
    assert not objective.module.training
    assert [row["step"] for row in outcome.curve] == [*range(0, 300, 3), 299]
    row = outcome.curve[0]
    assert row["loss"] == pytest.approx(row["square"] + 0.5 * row["small"]) and row["tokens"] == 120


@pytest.mark.parametrize("cuts", [(1,), (5, 6), tuple(range(1, 12))])
def test_cuts_do_not_matter(cpu, cuts: tuple[int, ...]) -> None:
    whole, cut = Line(), Line(cuts)
    a, b = (train(o, OptimiserConfig(30, 0.05), cpu, seed=0) for o in (whole, cut))
    assert torch.allclose(whole.module.weight, cut.module.weight, atol=1e-6)
    assert torch.allclose(whole.module.bias, cut.module.bias, atol=1e-6)
    assert abs(whole.module.weight.item()) > 0.3
    assert [row["loss"] for row in a.curve] == pytest.approx([row["loss"] for row in b.curve], rel=1e-5)


@pytest.mark.parametrize("poison", [0, 5])
def test_nan_ends_the_run(cpu, poison: int) -> None:
    with pytest.raises(TrainingError, match=rf"the loss is nan at step {poison} \(seed 4, learning rate") as error:
        train(Line(poison=poison), OptimiserConfig(10, 0.1), cpu, seed=4, label="here")
    assert isinstance(error.value, PretrieveError) and str(error.value).startswith("here: ")


def test_no_steps(cpu) -> None:
    assert train(Line(), OptimiserConfig(0, 0.1), cpu, seed=0).curve == []


def state(step: int, value: float = 0.0) -> State:
    return State(step, {"x": torch.tensor([value, step])}, {"note": [1, 2.5]})


def test_checkpoints(tmp_path: Path, capsys) -> None:
    checkpoints = Checkpoints(tmp_path / "c", "key")
    assert checkpoints.latest() is None
    for step in (2, 9, 10, 11):
        checkpoints.save(state(step))
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "step-00000010.safetensors",
        "step-00000011.safetensors",
    ]
    latest = checkpoints.latest()
    assert latest.step == 11 and latest.info == {"note": [1, 2.5]} and latest.tensors["x"].tolist() == [0, 11]
    newest = tmp_path / "c" / "step-00000011.safetensors"
    for content in (b"", newest.read_bytes()[:-4], b"rubbish" * 20):
        newest.write_bytes(content)
        capsys.readouterr()
        assert checkpoints.latest().step == 10
        assert f"{newest}: damaged checkpoint" in capsys.readouterr().err
    assert Checkpoints(tmp_path / "c", "other").latest() is None
    for name in ("step-00000012.part", ".tmpAbCdEf"):  # a kill in the middle of writing leaves one of these
        (tmp_path / "c" / name).touch()
    checkpoints.save(state(12))
    assert len(list((tmp_path / "c").iterdir())) == 2
    (tmp_path / "c" / ".tmpAbCdEf").touch()
    checkpoints.clear()
    assert not (tmp_path / "c").exists()


def test_checkpoints_of_another_run_do_not_push_ours_out(tmp_path: Path) -> None:
    old, new = Checkpoints(tmp_path, "old"), Checkpoints(tmp_path, "new")
    for step in (100, 200):
        old.save(state(step))
    for step in (1, 2, 3):
        new.save(state(step, 7.0))
        assert new.latest().step == step and new.latest().tensors["x"][0] == 7
    assert len(list(tmp_path.iterdir())) == 2


def test_the_watcher_is_restored(tmp_path: Path, cpu) -> None:
    def go(directory: Path, stop_at: int | None = None) -> tuple[Line, Watcher]:
        objective, watcher = Line(), Watcher()

        def look(step: int) -> None:
            watcher.info["seen"] = [*watcher.info.get("seen", []), step]
            watcher.tensors["sum"] = watcher.tensors.get("sum", torch.zeros(1)) + objective.module.weight.detach()[0]
            if step == stop_at:
                raise KeyboardInterrupt

        watcher.after_step = look
        train(objective, OptimiserConfig(9, 0.1), cpu, 0, Checkpoints(directory, "k"), 0.0, watcher)
        return objective, watcher

    straight, watched = go(tmp_path / "straight")
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "cut", stop_at=5)
    resumed, rewatched = go(tmp_path / "cut")
    assert resumed.steps == [5, 6, 7, 8]  # the step that was cut off is done again
    assert torch.equal(straight.module.weight, resumed.module.weight)
    assert watched.info == rewatched.info == {"seen": list(range(9))}
    assert torch.equal(watched.tensors["sum"], rewatched.tensors["sum"])


def test_content_key() -> None:
    assert content_key({"a": 1, "b": [2]}, 3) == content_key({"b": [2], "a": 1}, 3)
    assert len({content_key(1), content_key(2), content_key("1"), content_key([1])}) == 4


def test_curve_file(tmp_path: Path) -> None:
    write_curve(tmp_path / "curve.csv", [{"step": 0, "loss": 1 / 3}, {"step": 10, "loss": 1e-7}])
    with open(tmp_path / "curve.csv", newline="") as stream:
        assert list(csv.DictReader(stream)) == [{"step": "0", "loss": "0.333333"}, {"step": "10", "loss": "1e-07"}]
    write_curve(tmp_path / "curve.csv", [])
    assert (tmp_path / "curve.csv").read_text() == "step,tokens,loss,learning_rate,gradient_norm\n"


def test_device() -> None:
    with pytest.raises(ConfigError, match=r"\['auto', 'fp32', 'bf16'\]"):
        choose_device("fp16")
    assert choose_device("fp32").bf16 is False
    with choose_device("bf16").autocast():
        device = choose_device("bf16").device
        product = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    assert product.dtype == torch.bfloat16
