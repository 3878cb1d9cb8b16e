"""Condenser against a plain padded implementation, and what it is about: the late layers speak through [CLS] alone.

Seen to fail when: the head reads [CLS] of the early layer, or all late states; the skip is one layer off; a LayerNorm
comes before the head; the head has a layer less; the late term is left out, or added where it is off; the word
embeddings get no gradient from the logits; the losses are means of a micro-batch; the late [CLS] is detached; the
head's weights are not of the seed; the preset skips five layers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from condenser_reference import (
    CondenserReference,
    assert_a_cut_changes_nothing,
    assert_same_gradients,
    body_config,
    gradients,
    roughen,
)

from pretrieve.base.errors import ConfigError
from pretrieve.base.options import PRESETS
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.condenser import Condenser, CondenserHead
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import trained_heads
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device

LENGTH, BATCH = 22, 20


def condenser(corpus: TokenStore, preset: str, budget: int | None = None, layers: int = 8, **changes) -> Condenser:
    options = resolve("condenser", preset, changes, "test") | {"name": "condenser", "length": LENGTH}
    encoder = Encoder(body_config(corpus.vocabulary_size, layers, LENGTH), 8, "cls", 0)
    objective = build_objective(Setting(options, BATCH, encoder, corpus, 5, torch.device("cpu"), budget))
    roughen(objective.module)
    return objective


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("budget", [None, 40])
def test_same_losses_and_gradients_as_a_padded_implementation(
    corpus: TokenStore, cpu: Device, preset: str, budget: int | None
) -> None:
    """Mixed lengths from 3 to the longest, and micro-batches of different numbers of masked words: the mean is over the
    masked words of the whole step."""
    objective = condenser(corpus, preset, budget)
    reference = CondenserReference(objective, objective.body.config)
    assert (objective.condenser.skip_layer, len(objective.terms)) == ((6, 2) if preset == "paper" else (2, 1))
    batches = objective.micro_batches(0)
    counts = [batch.counts["head"] for batch in batches]
    assert (len(set(counts)) > 1) == (budget is not None)
    means = gradients(objective, cpu)
    masked, _ = objective.examples.draw(0)
    assert set(masked.corrupted.lengths) == set(range(3, LENGTH + 1)) and sum(counts) == len(masked.positions) > 30
    head, late, *_ = reference(masked)
    expected = {"head": head, "mlm": late} if preset == "paper" else {"head": head}
    sum(expected.values()).backward()
    assert means.keys() == expected.keys()
    for term, value in expected.items():
        assert means[term] == pytest.approx(value.item(), abs=1e-5), term
    assert abs(head.item() - late.item()) > 0.01
    if preset == "official_code":
        # The late layers' token states lead nowhere; only through [CLS] do they have a gradient at all.
        assert float(reference.lm.bert.encoder.layer[7].output.dense.weight.grad.abs().max()) > 0
    assert_same_gradients(objective.module, reference)
    if budget is not None:
        each = [objective.losses(batch)["head"].item() / batch.counts["head"] for batch in batches]
        assert abs(np.mean(each) - means["head"]) > 1e-3  # a mean of the parts' means is another number


@pytest.mark.parametrize("skip_layer", [0, 2, 6, 7])
def test_what_the_head_reads(corpus: TokenStore, skip_layer: int) -> None:
    """cat(last layer's [CLS], layer ``skip_layer``'s other rows), bit for bit, and as transformers computes them."""
    objective = condenser(corpus, "paper", skip_layer=skip_layer)
    (batch,) = objective.micro_batches(0)
    packed = batch.data.batch("cpu")
    read = []
    objective.condenser.layers[0].register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    states = objective.body.all_states(packed)
    objective.word_losses(states, packed, batch.data)
    first = torch.zeros(len(read[0]), dtype=torch.bool)
    first[packed.starts] = True
    assert torch.equal(read[0][first], states[-1][first]) and torch.equal(read[0][~first], states[skip_layer][~first])
    assert not torch.isclose(states[-1], states[skip_layer]).all(dim=1).any()
    padded = CondenserReference(objective, objective.body.config)(batch.data)[3].detach()
    inside = torch.arange(padded.shape[1])[None, :] < packed.lengths[:, None]
    assert float((read[0].detach() - padded[inside]).abs().max()) <= 1e-5


def late_gradient(objective: Condenser) -> float:
    """The largest gradient of any parameter behind the skip layer."""
    late = objective.body.layers[objective.condenser.skip_layer :]
    return max(0.0 if p.grad is None else float(p.grad.abs().max()) for p in late.parameters())


@pytest.mark.parametrize("late_mlm", [False, True])
def test_late_layers_learn_through_cls_alone(
    corpus: TokenStore, cpu: Device, monkeypatch: pytest.MonkeyPatch, late_mlm: bool
) -> None:
    """Cut the path through [CLS], and without late MLM no layer behind the skip has a gradient."""
    objective = condenser(corpus, "official_code", late_mlm=late_mlm, skip_layer=4)
    gradients(objective, cpu)
    assert late_gradient(objective) > 1e-3
    join = CondenserHead.join
    monkeypatch.setattr(
        CondenserHead, "join", staticmethod(lambda early, late, batch: join(early, late.detach(), batch))
    )
    gradients(objective, cpu)
    assert (late_gradient(objective) > 1e-3) == late_mlm
    assert float(objective.body.layers[3].up.weight.grad.abs().max()) > 1e-3  # the early layers still learn
    if not late_mlm:
        assert late_gradient(objective) == 0


def test_only_the_first_row_of_the_late_states_counts(corpus: TokenStore) -> None:
    """The head's loss has a gradient with respect to the late [CLS], and to no other late state."""
    objective = condenser(corpus, "paper")
    (batch,) = objective.micro_batches(1)
    packed = batch.data.batch("cpu")
    states = [state.detach() for state in objective.body.all_states(packed)]
    states[-1].requires_grad_()
    losses = objective.word_losses(states, packed, batch.data)
    (gradient,) = torch.autograd.grad(losses["head"], states[-1], retain_graph=True)
    first = torch.zeros(len(gradient), dtype=torch.bool)
    first[packed.starts] = True
    assert bool((gradient[~first] == 0).all()) and bool((gradient[first].abs().amax(1) > 0).all())
    (gradient,) = torch.autograd.grad(losses["mlm"], states[-1])
    predicted = torch.zeros(len(gradient), dtype=torch.bool)
    predicted[torch.from_numpy(batch.data.positions)] = True
    assert torch.equal(gradient.abs().amax(1) > 0, predicted)


def test_a_cut_changes_nothing(corpus: TokenStore, cpu: Device) -> None:
    assert_a_cut_changes_nothing(condenser(corpus, "paper"), condenser(corpus, "paper", 40), cpu)


def test_fresh_head(corpus: TokenStore) -> None:
    """BERT's initial weights, of the seed alone, and not those of the body; saved under a name of its own."""
    options = resolve("condenser", "paper", {"skip_layer": 1}, "test") | {"name": "condenser", "length": LENGTH}
    config = body_config(corpus.vocabulary_size, 2, LENGTH)

    states = iter(range(10))

    def make(seed: int) -> Condenser:
        torch.manual_seed(next(states))  # the state that must not matter
        return build_objective(
            Setting(options, BATCH, Encoder(config, 8, "cls", seed), corpus, seed, torch.device("cpu"))
        )

    first, again, other = (make(seed).condenser.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["layers.0.up.weight"], other["layers.0.up.weight"])
    objective = make(1)
    assert set(trained_heads(objective)) == {"mlm", "condenser"} and len(objective.condenser.layers) == 2
    assert not torch.equal(first["layers.0.up.weight"], objective.body.layers[0].up.weight)
    assert not torch.equal(first["layers.0.up.weight"], first["layers.1.up.weight"])
    assert float(first["layers.1.down.weight"].std()) == pytest.approx(config.std, rel=0.15)
    assert float(first["layers.1.down.bias"].abs().max()) == 0 and bool(
        (first["layers.0.output_norm.weight"] == 1).all()
    )
    parameters = list(objective.module.parameters())
    assert len({id(p) for p in parameters}) == len(parameters)


def test_begins_near_the_logarithm_of_the_vocabulary(corpus: TokenStore, cpu: Device) -> None:
    options = resolve("condenser", "paper", {"skip_layer": 1}, "test") | {"name": "condenser", "length": LENGTH}
    config = body_config(corpus.vocabulary_size, 2, LENGTH)
    small = type(config)(**{**config.to_dict(), "std": 0.02, "word_std": 0.02})
    objective = build_objective(Setting(options, BATCH, Encoder(small, 8, "cls", 0), corpus, 0, torch.device("cpu")))
    assert objective.word_terms == ("head", "mlm")
    for value in gradients(objective, cpu).values():
        assert value == pytest.approx(math.log(corpus.vocabulary_size), rel=0.02)


@pytest.mark.parametrize("skip_layer", [-1, 2, 6])
def test_a_skip_that_leaves_no_late_layer(skip_layer: int) -> None:
    with pytest.raises(ConfigError, match=f"skip_layer={skip_layer} with 2 layers; expected 0 .* to 1"):
        CondenserHead(body_config(50, 2, 8), 2, skip_layer, 0)
