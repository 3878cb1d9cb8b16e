"""RetroMAE against a plain padded implementation, and what [CLS] has to do with it.

Seen to fail when: the decoder reads or predicts the masked text; [CLS] is counted, or detached; all sequences have
one number; the loss is the mean of a part; the encoder reads the whole text; the decoder is not in the module;
``normalised_query``, ``decoder_rate``, ``decoder_unit`` or ``row_masks`` is ignored; masks come from a generator.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from condenser_reference import (
    assert_a_cut_changes_nothing,
    assert_bf16_only_rounds,
    assert_same_gradients,
    body_config,
    gradients,
    roughen,
)
from retromae_reference import Reference
from small_body import SHAPE, small_options, trained

from pretrieve.base.options import PRESETS
from pretrieve.models.batch import WASTE
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import read_encoder
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import first_losses, trained_heads
from pretrieve.pretraining.retromae import RetroMae
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.loop import RunSettings

LENGTH, BATCH = 22, 20


def options_of(preset: str, **changes) -> dict:
    return resolve("retromae", preset, changes, "test") | {"name": "retromae", "length": LENGTH}


def retromae(corpus: TokenStore, preset: str, budget: int | None = None, dropout: float = 0.0, **changes) -> RetroMae:
    encoder = Encoder(body_config(corpus.vocabulary_size, 2, LENGTH, dropout), 8, "cls", 0)
    setting = Setting(options_of(preset, **changes), BATCH, encoder, corpus, 5, torch.device("cpu"), budget)
    objective = build_objective(setting)
    roughen(objective.module)
    return objective


@pytest.mark.parametrize(("budget", "waste"), [(None, 0.0), (None, 0.3), (40, 0.0)], ids=["whole", "padded", "cut"])
@pytest.mark.parametrize("changes", [{}, {"normalised_query": True}], ids=["plain", "normalised"])
@pytest.mark.parametrize("preset", PRESETS)
def test_same_losses_and_gradients_as_a_padded_implementation(
    corpus: TokenStore,
    cpu: Device,
    monkeypatch: pytest.MonkeyPatch,
    preset: str,
    changes: dict,
    budget: int | None,
    waste: float,
) -> None:
    """Mixed lengths from 3 to the longest; cut into parts, the means are over the words of the whole step. ``waste``:
    attention in groups with padding, as on a GPU."""
    monkeypatch.setitem(WASTE, "cpu", waste)
    objective = retromae(corpus, preset, budget, **changes)
    batches = objective.micro_batches(0)
    masked, _ = objective.examples.draw(0)
    assert set(masked.corrupted.lengths) == set(range(3, LENGTH + 1))
    assert sum(batch.counts["decoder"] for batch in batches) == sum(range(1, 21))  # L − 2 of each text
    assert sum(batch.counts["mlm"] for batch in batches) == len(masked.positions) > 50
    means = gradients(objective, cpu)
    reference = Reference(objective, objective.body.config)
    expected = reference(masked, objective, options_of(preset, **changes))
    assert objective.terms == {"mlm": 1.0, "decoder": 1.0} and expected.keys() == objective.terms.keys()
    sum(expected.values()).backward()
    assert means == pytest.approx({term: value.item() for term, value in expected.items()}, abs=1e-5)
    assert_same_gradients(objective.module, reference)
    if budget is not None:
        each = [objective.losses(batch)["decoder"].item() / batch.counts["decoder"] for batch in batches]
        assert len(batches) > 5 and abs(np.mean(each) - means["decoder"]) > 1e-3  # a mean of means is another number


def test_presets_differ_in_what_is_masked(corpus: TokenStore) -> None:
    paper, code = (retromae(corpus, preset) for preset in PRESETS)
    assert (paper.examples.masking.unit, code.examples.masking.unit) == ("token", "word")
    assert (paper.reconstruction.masks.masks, code.reconstruction.masks.masks) == ("all", 256)
    for objective, unit, all_masked in ((paper, "token", True), (code, "word", False)):
        masks = objective.reconstruction.masks
        assert (masks.masking.unit, masks.masking.rate, masks.masking.of) == (unit, 0.5, "all")
        masked, _ = objective.examples.draw(0)
        inside = masked.corrupted.tokens[masked.positions]
        assert bool((inside == corpus.special.mask).all()) == all_masked
        assert len(inside) <= sum(max(1, round(0.3 * length)) for length in masked.corrupted.lengths)


def test_the_decoder_teaches_the_encoder_through_cls_alone(corpus: TokenStore) -> None:
    objective = retromae(corpus, "official_code")
    (batch,) = objective.micro_batches(0)
    packed = batch.data.batch("cpu")
    states = objective.body(packed).detach().requires_grad_()
    cls = states.index_select(0, packed.starts)
    loss = objective.reconstruction.loss(cls, batch.data, packed, objective.body, objective.head)
    (gradient,) = torch.autograd.grad(loss, states)
    first = torch.zeros(len(states), dtype=torch.bool)
    first[packed.starts] = True
    assert bool((gradient[~first] == 0).all()) and bool((gradient[first].abs().amax(1) > 0).all())


@pytest.mark.parametrize("preset", PRESETS)
def test_neither_the_cut_nor_the_processes_change_anything(corpus: TokenStore, cpu: Device, preset: str) -> None:
    assert_a_cut_changes_nothing(retromae(corpus, preset), retromae(corpus, preset, 40), cpu)


def test_a_step_is_the_same_whatever_was_drawn_before(corpus: TokenStore, cpu: Device) -> None:
    """Row masks come from the step's examples, not from a generator's state; another step has others."""
    objective = retromae(corpus, "official_code", dropout=0.1)
    objective.module.train()
    first = gradients(objective, cpu, 1)
    torch.manual_seed(99)
    torch.rand(7)
    np.random.seed(3)
    assert gradients(objective, cpu, 1) == first != gradients(objective, cpu, 2)


@pytest.mark.parametrize("normalised", [False, True])
def test_begins_as_fresh_weights_should(corpus: TokenStore, cpu: Device, normalised: bool) -> None:
    """ln V + word_std²·d/2, also for wide word embeddings."""
    config = body_config(corpus.vocabulary_size, 2, LENGTH)
    for word_std in (0.02, 0.2):
        values = config.to_dict() | {"std": 0.02, "word_std": word_std, "hidden": 32}
        encoder = Encoder(type(config)(**values), 8, "cls", 0)
        options = options_of("official_code", normalised_query=normalised)
        objective = build_objective(Setting(options, BATCH, encoder, corpus, 0, torch.device("cpu")))
        expected = first_losses(objective, encoder.config)
        assert expected.keys() == {"mlm", "decoder"}
        assert expected["decoder"] == pytest.approx(math.log(corpus.vocabulary_size) + 16 * word_std**2)
        for term, value in gradients(objective, cpu).items():
            assert value == pytest.approx(expected[term], rel=0.02 if word_std == 0.02 else 0.1), (term, word_std)


def test_learns_in_bf16(corpus: TokenStore, cpu: Device) -> None:
    """Autocast changes losses and gradients by rounding only."""
    assert_bf16_only_rounds(retromae(corpus, "official_code", normalised_query=True), cpu, 0.1)


def run_options(corpus: TokenStore, steps: int, **changes) -> dict:
    body = SHAPE | {"max_positions": 24, "dropout": 0.0}
    return small_options(options_of("official_code", **changes), BATCH, steps, body=body, similarity="cosine")


def test_goes_on_from_a_saved_decoder(corpus: TokenStore, tmp_path: Path, cpu: Device) -> None:
    first = trained(run_options(corpus, 30), corpus, tmp_path / "a", tmp_path / "ckpt", RunSettings(cpu, 1))
    losses = [row["decoder"] for row in first.curve]
    assert losses[-1] < losses[0] - 0.2
    saved = read_encoder(tmp_path / "a")
    assert saved.head("decoder").keys() == dict(retromae(corpus, "paper").reconstruction.decoder.state_dict()).keys()
    still = run_options(corpus, 1) | {"budget": {"batch": BATCH, "steps": 1, "learning_rate": 1e-9}}
    second = trained(still, corpus, tmp_path / "b", tmp_path / "ckpt", RunSettings(cpu, 1), start_dir=tmp_path / "a")
    assert second.curve[0]["decoder"] < losses[0] - 0.2
    for name, tensor in read_encoder(tmp_path / "b").head("decoder").items():
        assert torch.allclose(tensor, saved.head("decoder")[name], atol=1e-6), name


def test_fresh_decoder(corpus: TokenStore) -> None:
    """Of the seed alone; saved under a name of its own; no weight twice."""
    config = body_config(corpus.vocabulary_size, 2, LENGTH)
    states = iter(range(10))

    def make(seed: int) -> RetroMae:
        torch.manual_seed(next(states))  # the state that must not matter
        setting = Setting(options_of("paper"), 4, Encoder(config, 8, "cls", seed), corpus, seed, torch.device("cpu"))
        return build_objective(setting)

    first, again, other = (make(seed).reconstruction.decoder.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["layers.0.up.weight"], other["layers.0.up.weight"])
    objective = make(1)
    assert set(trained_heads(objective)) == {"mlm", "decoder"}
    assert not torch.equal(first["layers.0.up.weight"], objective.body.layers[0].up.weight)
    assert float(first["layers.0.down.weight"].std()) == pytest.approx(config.std, rel=0.15)
    parameters = list(objective.module.parameters())
    assert len({id(p) for p in parameters}) == len(parameters)
