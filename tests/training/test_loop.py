"""The training loop on a problem small enough to follow: its schedule, its checkpoints, its learning curve and its errors.

Seen to fail when: warm-up starts at 0; micro-batch means are averaged; a NaN loss or gradient is let through, or the gradient
is looked at after the step; the first loss is not looked at, or only when it is too high; weight decay touches biases; two
checkpoints are not kept; a checkpoint of a later step of another run is kept instead of ours; the watcher is not restored;
the optimiser's moments are not restored; a curve's counts are cut to six digits; its rows are those of every step.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pretrieve.base.errors import ConfigError, PretrieveError
from pretrieve.training.checkpoint import Checkpoints, State
from pretrieve.training.device import choose_device
from pretrieve.training.loop import RunSettings, TrainingError, Watcher, content_key, train, write_curve
from pretrieve.training.objective import MicroBatch
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, make_optimiser


class Line:
    """Fit y = 3x - 1 from 12 points a step, cut into unequal micro-batches.

    poison: a step whose last micro-batch has a loss, or (``poisoned='gradient'``) only a gradient, that is not a number.
    """

    terms = {"square": 1.0, "small": 0.5}

    def __init__(self, cuts: tuple[int, ...] = (), poison: int | None = None, poisoned: str = "loss") -> None:
        self.module = nn.Linear(1, 1)
        nn.init.zeros_(self.module.weight)
        nn.init.zeros_(self.module.bias)
        self.cuts, self.poison, self.poisoned, self.steps = cuts, poison, poisoned, []

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        self.steps.append(step)
        x = torch.tensor(np.random.default_rng(step).normal(size=(12, 1)), dtype=torch.float32)
        numbers = np.arange(12) + 12 * step
        if step == self.poison and self.poisoned == "loss":
            x[-1] = torch.nan
        pieces = zip(x.tensor_split(self.cuts), np.split(numbers, self.cuts), strict=True)
        return [
            MicroBatch((part, step), {"square": len(part), "small": 1}, 10 * len(part), ids) for part, ids in pieces
        ]

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        x, step = batch.data
        error = self.module(x) - (3 * x - 1)
        small = (self.module.weight**2).sum() * 1e-3
        if step == self.poison and self.poisoned == "gradient":
            small = small + (self.module.weight * 0).abs().sqrt().sum()  # 0, and its gradient 0/0
        return {"square": (error**2).sum(), "small": small}


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
    x, _ = objective.micro_batches(0)[0].data
    train(objective, OptimiserConfig(1, 0.01), RunSettings(cpu, 0))
    expected = {"weight": float((2 * x * (1 - 3 * x)).mean()), "bias": float((2 * (1 - 3 * x)).mean())}
    for name, gradient in expected.items():
        assert getattr(objective.module, name).item() == pytest.approx(-0.01 * np.sign(gradient), abs=1e-6)


def test_learns(cpu) -> None:
    objective = Line()
    outcome = train(objective, OptimiserConfig(300, 0.1, weight_decay=0.0), RunSettings(cpu, 0))
    assert objective.module.weight.item() == pytest.approx(3, abs=0.05)
    assert objective.module.bias.item() == pytest.approx(-1, abs=0.05)
    assert objective.steps == list(range(300)) and outcome.tokens == 300 * 120
    assert not objective.module.training
    assert [row["step"] for row in outcome.curve] == [*range(0, 300, 3), 299]
    row = outcome.curve[0]
    assert list(row) == ["step", "tokens", "tokens_per_s", "loss", "square", "small", "learning_rate", "gradient_norm"]
    assert row["loss"] == pytest.approx(row["square"] + 0.5 * row["small"]) and row["tokens"] == 120
    assert all(row["tokens_per_s"] > 0 and row["gradient_norm"] > 0 for row in outcome.curve)
    assert [row["tokens"] for row in outcome.curve] == [120 * (row["step"] + 1) for row in outcome.curve]
    assert outcome.curve[15]["learning_rate"] == learning_rate_at(OptimiserConfig(300, 0.1), 45)


def test_the_norm_is_that_before_clipping(cpu) -> None:
    """And a clipped gradient has the norm of the clip: with plain steps it would move the weights by no more."""
    free, clipped = Line(), Line()
    norms = [
        train(o, OptimiserConfig(1, 0.1, clip=clip), RunSettings(cpu, 0)).curve[0]["gradient_norm"]
        for o, clip in ((free, 0.0), (clipped, 0.5))
    ]
    assert norms[0] == norms[1] > 0.5
    kept = torch.tensor([p.grad.norm() for p in clipped.module.parameters()]).norm()
    assert kept.item() == pytest.approx(0.5, rel=1e-4)
    assert torch.tensor([p.grad.norm() for p in free.module.parameters()]).norm().item() == pytest.approx(norms[0])


@pytest.mark.parametrize("cuts", [(1,), (5, 6), tuple(range(1, 12))])
def test_cuts_do_not_matter(cpu, cuts: tuple[int, ...]) -> None:
    whole, cut = Line(), Line(cuts)
    a, b = (train(o, OptimiserConfig(30, 0.05), RunSettings(cpu, 0)) for o in (whole, cut))
    assert torch.allclose(whole.module.weight, cut.module.weight, atol=1e-6)
    assert torch.allclose(whole.module.bias, cut.module.bias, atol=1e-6)
    assert abs(whole.module.weight.item()) > 0.3
    assert [row["loss"] for row in a.curve] == pytest.approx([row["loss"] for row in b.curve], rel=1e-5)


@pytest.mark.parametrize("poisoned", ["loss", "gradient"])
@pytest.mark.parametrize("poison", [0, 5, 9])
def test_what_is_not_a_number_ends_the_run(tmp_path: Path, cpu, poison: int, poisoned: str) -> None:
    """Also at the last step, and when the loss is fine and only its gradient is not. The weights are those of before."""
    reference = Line((4, 9))
    config = OptimiserConfig(10, 0.1)
    wanted: dict[str, torch.Tensor] = {}
    watcher = Watcher(lambda step: wanted.update(weights(reference)) if step == poison - 1 else None)
    wanted.update(weights(reference))
    train(reference, config, RunSettings(cpu, 4), watcher=watcher)
    objective, checkpoints = Line((4, 9), poison, poisoned), Checkpoints(tmp_path, "k")
    what = "loss" if poisoned == "loss" else "gradient norm"
    with pytest.raises(TrainingError, match=rf"the {what} is nan at step {poison} \(seed 4, learning rate") as error:
        train(objective, config, RunSettings(cpu, 4, 0.0), checkpoints, label="here")
    message = str(error.value)
    assert isinstance(error.value, PretrieveError) and message.startswith("here: ")
    assert f"learning rate {learning_rate_at(config, poison):.3g}" in message
    first = 12 * poison + (9 if poisoned == "loss" else 0)  # the micro-batch whose loss it is; a gradient is of all
    assert f"examples [{first}, {first + 1}, " in message and ("and 4 more" in message) == (poisoned == "gradient")
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in weights(objective).items())
    assert (checkpoints.latest().step if poison else checkpoints.latest()) == (poison or None)


def weights(objective: Line) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in objective.module.state_dict().items()}


def test_the_first_loss_is_looked_at(cpu) -> None:
    square = train(Line(), OptimiserConfig(1, 0.1), RunSettings(cpu, 0)).curve[0]["square"]
    for factor, fine in ((1.0, True), (1.1, True), (0.9, True), (0.8, False), (1.3, False)):
        objective = Line()
        expected = {"square": square * factor}
        if fine:
            train(objective, OptimiserConfig(2, 0.1), RunSettings(cpu, 0), expected_first=expected)
            continue
        with pytest.raises(TrainingError, match=rf"square begins at {square:.3f}; .* about {square * factor:.3f}"):
            train(objective, OptimiserConfig(2, 0.1), RunSettings(cpu, 0), expected_first=expected)
        assert not any(bool(tensor.any()) for tensor in weights(objective).values())  # no step was made


def test_no_steps(cpu) -> None:
    assert train(Line(), OptimiserConfig(0, 0.1), RunSettings(cpu, 0)).curve == []


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
        train(objective, OptimiserConfig(9, 0.1), RunSettings(cpu, 0, 0.0), Checkpoints(directory, "k"), watcher)
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


def test_interrupted_at_any_step(tmp_path: Path, cpu) -> None:
    """Also several times, and with several micro-batches; the curve is the same but for the speed."""
    config = OptimiserConfig(12, 0.1)

    def go(directory: Path, stops: list[int]):
        objective, seen = Line((4, 9)), []

        def look(step: int) -> None:
            seen.append(step)
            if stops and step == stops[0]:
                stops.pop(0)
                raise KeyboardInterrupt

        return objective, train(objective, config, RunSettings(cpu, 1, 0.0), Checkpoints(directory, "k"), Watcher(look))

    straight, wanted = go(tmp_path / "straight", [])
    for stops in [*([step] for step in range(12)), [2, 2, 7], [0, 11]]:
        left, begun = list(stops), time.monotonic()
        for _ in stops:
            with pytest.raises(KeyboardInterrupt):
                go(tmp_path / str(stops), left)
        objective, found = go(tmp_path / str(stops), left)
        assert all(torch.equal(tensor, weights(straight)[name]) for name, tensor in weights(objective).items()), stops
        assert without_speed(found.curve) == without_speed(wanted.curve) and found.tokens == wanted.tokens
        assert found.earlier.wall_s < found.spent.wall_s < time.monotonic() - begun
        assert (found.earlier.wall_s > 0) == any(stops), "what was cut off in the first step left no checkpoint"


def without_speed(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "tokens_per_s"} for row in curve]


def test_curve_file(tmp_path: Path) -> None:
    rows = [{"step": 0, "tokens": 12_345_678, "loss": 1 / 3}, {"step": 1_000_001, "tokens": 10**10, "loss": 1e-7}]
    write_curve(tmp_path / "curve.csv", rows)
    with open(tmp_path / "curve.csv", newline="") as stream:
        assert list(csv.DictReader(stream)) == [
            {"step": "0", "tokens": "12345678", "loss": "0.333333"},
            {"step": "1000001", "tokens": "10000000000", "loss": "1e-07"},
        ]
    write_curve(tmp_path / "curve.csv", [])
    assert (tmp_path / "curve.csv").read_text() == "step,tokens,tokens_per_s,loss,learning_rate,gradient_norm\n"


def test_device() -> None:
    with pytest.raises(ConfigError, match=r"\['auto', 'fp32', 'bf16'\]"):
        choose_device("fp16")
    assert choose_device("fp32").bf16 is False
    with choose_device("bf16").autocast():
        device = choose_device("bf16").device
        product = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    assert product.dtype == torch.bfloat16


@pytest.mark.parametrize("having", [{}, {"avx512_bf16": False}, {"amx_bf16": True}, {"avx512_bf16": True}])
def test_a_cpu_takes_bf16_where_it_multiplies_it(monkeypatch, having: dict[str, bool]) -> None:
    names = {"amx_bf16", "avx512_bf16", "avx512_f"}
    assert torch.cpu.get_capabilities().keys() >= names or torch.cpu.get_capabilities()["architecture"] != "x86_64"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True, **having})
    assert choose_device("auto").bf16 is any(having.values())
    assert choose_device("fp32").bf16 is False and choose_device("bf16").bf16 is True
