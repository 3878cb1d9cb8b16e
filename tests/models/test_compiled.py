"""Compiled layers are the same function: states, gradients, dropout, names. With dynamo's own backend, for speed of the test.

Seen to fail when: one layer stays as it was; another size compiles anew; a failing backend ends the run, or leaves some layers
compiled; they are compiled without being asked for.
"""

from __future__ import annotations

import pytest
import torch
from small_body import small_options

from pretrieve.models.batch import Batch
from pretrieve.models.compiled import compile_layers
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import make_body
from pretrieve.models.transformer import Layer
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.training.loop import RunSettings

CONFIG = BodyConfig(vocabulary_size=50, hidden=16, layers=3, heads=2, feed_forward=24, max_positions=33, dropout=0.2)


@pytest.fixture(autouse=True)
def no_compiled_code_stays():
    yield
    torch._dynamo.reset()


def test_the_same_function(random_packed) -> None:
    """Batches of several sizes, training and not; and nothing is compiled anew for another size."""
    plain, fast = make_body(CONFIG, 1), make_body(CONFIG, 1)
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    assert compile_layers(fast, backend)
    assert all("after_attention" in vars(layer) for layer in fast.layers) and len(fast.layers) == 3
    assert fast.state_dict().keys() == plain.state_dict().keys()
    for train in (True, False):
        for seed, lengths in enumerate([[5, 3], [20, 20, 7], [33, 12, 1, 9]]):
            batch, found = Batch.of(random_packed(lengths, 50, seed)), []
            for body in (plain, fast):
                body.train(train).zero_grad()
                torch.manual_seed(seed)
                states = body(batch)
                (states**3).sum().backward()
                found.append((states.detach(), {name: p.grad.clone() for name, p in body.named_parameters()}))
            (states, gradients), (others, wanted) = found
            assert float((states - others).abs().max()) <= 1e-5 and float(states.abs().mean()) > 0.1
            assert all(torch.allclose(gradients[name], wanted[name], atol=1e-4) for name in wanted)
            with torch.no_grad():  # as the gradient cache encodes at first
                torch.manual_seed(seed)
                assert torch.allclose(fast(batch), others, atol=1e-5)
                assert torch.allclose(fast(batch, first_only=True), fast(batch)[batch.starts], atol=1e-5) or train
    assert 1 <= len(graphs) <= 6  # 3 layers × 6 batches × 3 calls


def test_what_cannot_be_compiled_runs_as_it_is(random_packed, capsys) -> None:
    def backend(graph, _):
        raise OSError("no compiler here")

    plain, left = make_body(CONFIG, 1).eval(), make_body(CONFIG, 1).eval()
    assert not compile_layers(left, backend)
    said = capsys.readouterr().err
    assert said.startswith("--compile: not possible here (") and "no compiler here" in said and said.count("\n") == 1
    assert not any("after_attention" in vars(layer) for layer in left.modules() if isinstance(layer, Layer))
    batch = Batch.of(random_packed([9, 4], 50))
    assert torch.equal(left(batch), plain(batch))


def test_nothing_to_compile() -> None:
    assert compile_layers(torch.nn.Linear(2, 2), "eager")


@pytest.mark.parametrize("option", [True, False])
def test_pre_training_with_it(store, tmp_path, monkeypatch, option: bool) -> None:
    """The same encoder, and the layers are compiled when it is asked for."""
    from pretrieve.pretraining import pretrain as run
    from pretrieve.training.device import choose_device

    chosen = []

    def eager(module):
        chosen.append(sum(isinstance(part, Layer) for part in module.modules()))
        return compile_layers(module, "eager")

    monkeypatch.setattr(run, "compile_layers", eager)
    objective = {"name": "mlm", "length": 24} | resolve("mlm", None, {"examples": "passages"}, "test")
    options = small_options(objective, 4, 3)
    losses = []
    for name, asked in (("plain", False), ("asked", option)):
        out = tmp_path / name / "seed1"
        done = run.pretrain(
            EncoderOptions.from_dict(options),
            store.directory,
            out,
            RunSettings(choose_device("fp32"), 1, compiled=asked),
            tmp_path / "ckpt" / name,
        )
        losses.append([row["loss"] for row in done.curve])
    assert chosen == ([2] if option else []) and losses[1] == pytest.approx(losses[0], rel=1e-5)
