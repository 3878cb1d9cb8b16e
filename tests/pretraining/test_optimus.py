"""The strong-decoder autoencoder: its latent, and the same plain implementation as for SEED-Encoder with it.

Seen to fail when: log σ² is taken for log σ; the mean is left out of z; the floor is put under the sum instead of each
dimension; the KL is divided by sequences where it should be by words; noise comes from a generator's state, or from the place in
the batch; seeds share their noise; the encoder of ``official_code`` reads masked text; the decoder gets h instead of z.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_seed_encoder import (
    CONFIG,
    LENGTHS,
    Reference,
    cuts,
    disturb,
    learns,
    masked_of,
    objective_of,
    resumes,
    same_gradients,
    total,
)
from torch import nn
from torch.distributions import Normal, kl_divergence

from pretrieve.base.errors import ConfigError
from pretrieve.models.config import BodyConfig
from pretrieve.pretraining.examples import cut
from pretrieve.pretraining.optimus import Optimus, divergence, normal_draws
from pretrieve.training.objective import MicroBatch


class ReferenceAutoencoder(Reference):
    """Mean and variance by their definitions; :attr:`kl` is (n, k), before the floor."""

    def __init__(self, objective: Optimus, layers: int, noise: torch.Tensor | None) -> None:
        super().__init__(objective, layers, "all")
        self.noise = noise
        if noise is not None:
            own = objective.module["latent"]
            self.parts["statistics"] = nn.Linear(CONFIG.hidden, 2 * own.size, bias=False)
            self.parts["expand"] = nn.Linear(own.size, CONFIG.hidden, bias=False) if own.size != 24 else nn.Identity()
            self.parts["statistics"].load_state_dict(own.statistics.state_dict())
            self.parts["expand"].load_state_dict(own.expand.state_dict())

    def translate(self, ours: dict[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        latent = {name.removeprefix("latent."): value for name, value in ours.items() if name.startswith("latent.")}
        others = {name: value for name, value in ours.items() if not name.startswith("latent.")}
        return super().translate(others) | (latent if "statistics" in getattr(self, "parts", {}) else {})

    def bottleneck(self, cls: torch.Tensor) -> torch.Tensor:
        if self.noise is None:
            return cls
        size = self.noise.shape[1]
        statistics = self.parts["statistics"](cls)
        mean, deviation = statistics[:, :size], torch.sqrt(torch.exp(statistics[:, size:]))
        self.kl = kl_divergence(Normal(mean, deviation), Normal(0.0, 1.0))
        return self.parts["expand"](mean + deviation * self.noise)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("paper", {}),
        ("official_code", {}),
        (
            "official_code",
            {"latent_size": 5, "kl_per": "sequence", "free_bits": 0.2, "kl_weight": 0.5, "mlm_weight": 0.3},
        ),
    ],
    ids=["paper", "code", "small"],
)
def test_same_as_a_plain_implementation(store, preset: str, changes: dict, lengths: str) -> None:
    objective = objective_of("optimus", store, CONFIG, preset, decoder_layers=2, **changes)
    disturb(objective.module)
    masked = masked_of(LENGTHS[lengths], seed=7)
    n, words = len(masked.draws), len(masked.original) - len(masked.draws)
    size = changes.get("latent_size", 24)
    noise = normal_draws(0, masked.draws, size) if preset == "official_code" else None
    reference = ReferenceAutoencoder(objective, 2, noise)
    loss, means = total(objective, masked)
    mlm, decoder = reference.means(masked)
    terms = {"decoder": (1.0, decoder)}
    if preset == "paper" or changes:
        terms["mlm"] = (changes.get("mlm_weight", 1.0), mlm)
    if noise is not None:
        free = changes.get("free_bits", 1.0)
        floored = torch.maximum(reference.kl, torch.tensor(free))
        assert lengths == "shortest" or 0.05 < float((reference.kl < free).float().mean()) < 0.95
        terms["kl"] = (changes.get("kl_weight", 1.0), floored.sum() / (n if changes else words))
    assert set(objective.terms) == set(terms) == set(means)
    for term, (_, value) in terms.items():
        assert means[term].item() == pytest.approx(value.item(), abs=1e-5, rel=1e-6), term
        assert value.item() > 0.1
    expected = sum(weight * value for weight, value in terms.values())
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5, rel=1e-6)
    loss.backward()
    expected.backward()
    same_gradients(objective, reference)
    if noise is not None:
        assert float(objective.module["latent"].statistics.weight.grad.abs().max()) > 1e-3


def test_the_floor_by_hand() -> None:
    """½(1 + 1 − 0 − 1) = ½ and ½(e − 1 − 1) = 0.359; the released code counts what is below λ as 0, with the same gradient."""
    mean, log_variance = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    assert divergence(mean, log_variance).item() == pytest.approx(0.5 + (np.e - 2) / 2)
    assert divergence(mean, log_variance, 0.4).item() == pytest.approx(0.5 + 0.4)
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(50, 8, generator=generator).requires_grad_() for _ in range(2)]
    ours = torch.autograd.grad(divergence(*leaves, 0.5), leaves)
    kl = 0.5 * (leaves[0] ** 2 + leaves[1].exp() - leaves[1] - 1)
    released = torch.autograd.grad(((kl > 0.5).float() * kl).sum(), leaves)
    for a, b in zip(ours, released, strict=True):
        assert torch.allclose(a, b, atol=1e-6) and bool((a == 0).any()) and bool((a != 0).any())


def test_noise_is_of_the_seed_and_the_sequence() -> None:
    draws = np.array([7, 3, 900_001])
    noise = normal_draws(1, draws, 6)
    torch.manual_seed(5)
    np.random.seed(5)
    assert torch.equal(normal_draws(1, draws[::-1].copy(), 6).flip(0), noise)
    assert torch.equal(normal_draws(1, draws[1:], 6), noise[1:])
    assert noise.dtype == torch.float32 and normal_draws(1, draws[:0], 6).shape == (0, 6)
    many = torch.cat([normal_draws(1, np.arange(500), 32), normal_draws(2, np.arange(500), 32)])
    assert len(many.unique(dim=0)) == 1000
    assert abs(float(many.mean())) < 0.02 and abs(float(many.std()) - 1) < 0.02
    assert abs(float(many.pow(4).mean()) - 3) < 0.15
    assert float(torch.corrcoef(many[:60]).fill_diagonal_(0).abs().max()) < 0.75


def test_each_sequence_has_its_noise_wherever_the_batch_is_cut(store) -> None:
    objective = objective_of("optimus", store, CONFIG, "official_code", decoder_layers=1)
    disturb(objective.module)
    masked = masked_of(LENGTHS["mixed"])
    vectors = []
    objective.decoder.register_forward_pre_hook(lambda module, given: vectors.append(given[1].detach()))
    whole = objective.losses(MicroBatch(masked, {}, 0))
    pieces = cut(masked, 40, 1)
    assert len(pieces) > 3
    parts = [objective.losses(MicroBatch(piece, {}, 0)) for _, _, piece in pieces]
    assert float((torch.cat(vectors[1:]) - vectors[0]).abs().max()) <= 1e-5
    for term, value in whole.items():
        assert sum(part[term].item() for part in parts) == pytest.approx(value.item(), rel=1e-5)
    again = objective.losses(MicroBatch(masked, {}, 0))
    assert {t: v.item() for t, v in again.items()} == {t: v.item() for t, v in whole.items()}


@pytest.mark.parametrize("preset", ["paper", "official_code"])
def test_cuts_do_not_matter(store, body, cpu, preset: str) -> None:
    cuts(store, body, cpu, name="optimus", preset=preset, decoder_layers=2)


def test_without_a_latent_it_is_seed_encoder_with_a_strong_decoder(store, body) -> None:
    strong = {"decoder_layers": 4, "span": "all"}
    optimus = objective_of("optimus", store, body, "paper", **strong)
    seed = objective_of("seed-encoder", store, body, "paper", **strong)
    assert optimus.terms == seed.terms == {"mlm": 1.0, "decoder": 1.0} and optimus.decoder.span == "all"
    (batch,), (other,) = optimus.micro_batches(1), seed.micro_batches(1)
    assert {t: batch.counts[t] for t in seed.terms} == other.counts
    for term, value in seed.losses(other).items():
        assert optimus.losses(batch)[term].item() == value.item() > 10


def test_what_the_encoder_reads(store, body) -> None:
    for preset, masks, parts in (
        ("paper", True, ["body", "decoder", "mlm"]),
        ("official_code", False, ["body", "decoder", "latent"]),
    ):
        objective = objective_of("optimus", store, body, preset, decoder_layers=2)
        (batch,) = objective.micro_batches(0)
        assert (batch.data.corrupted.tokens != batch.data.original).any() == masks
        assert list(objective.module) == parts
    assert objective.terms == {"decoder": 1.0, "kl": 1.0} and objective.word_terms == ()


@pytest.mark.parametrize(
    ("preset", "changes"),
    [("paper", {}), ("official_code", {}), ("official_code", {"latent_size": 4, "mlm_weight": 1.0})],
)
def test_learns(store, body, cpu, preset: str, changes: dict) -> None:
    learns(objective_of("optimus", store, body, preset, batch=8, length=40, decoder_layers=2, **changes), cpu)


def test_goes_on_where_it_stopped(store, body, cpu, tmp_path) -> None:
    dropout = BodyConfig(**{**body.to_dict(), "dropout": 0.1})
    resumes(lambda: objective_of("optimus", store, dropout, "official_code", decoder_layers=2), cpu, tmp_path)


def test_mistakes(store, body) -> None:
    with pytest.raises(ConfigError, match="latent_size is 8, but with kl_weight 0"):
        objective_of("optimus", store, body, "paper", latent_size=8)
    with pytest.raises(ConfigError, match="decoder_weight is 0"):
        objective_of("optimus", store, body, "official_code", decoder_weight=0.0)
