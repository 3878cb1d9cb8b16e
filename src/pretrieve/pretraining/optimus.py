"""The strong-decoder autoencoder that SEED-Encoder is compared with (paper ``seed_encoder`` §3.2; Li et al. 2020, *Optimus*).

Encoder and decoder are SEED-Encoder's (:mod:`pretrieve.pretraining.seed_encoder`), but the decoder is deep and sees all words
before (equation 2). With ``kl_weight`` it is a variational autoencoder: from h, the state of [CLS],

    μ, log σ² = W h,    z = μ + σ·ε,  ε ~ N(0, 1),    KL_i = ½ (μ_i² + σ_i² − log σ_i² − 1),
    L = w_d · L_dec(z) + w_kl · Σ_i max(λ, KL_i) [+ w_m · L_MLM]

with λ (``free_bits``, nats) below which a dimension's KL is not pressed further. Without ``kl_weight`` z is h, as the paper
``seed_encoder`` writes it. ε is a function of the seed and the sequence's number in the run, so that neither cuts nor
resumes change it.

What the released code does (ChunyuanLI/Optimus@f3190fe), and where this differs:

- It trains no masked words, and its encoder reads the text unmasked: preset ``official_code``. The paper ``seed_encoder``
  describes it with an MLM loss (§3.4): preset ``paper``.
- Its loss adds up a sequence's words and KL, then takes the mean over sequences. ``kl_per: token`` has the same gradient but
  for a factor: both sums are divided by the batch's words. ``sequence`` is its ``length_weighted_loss``, nearly:
  there each *sequence's* words have a mean of their own (``vae.py`` lines 148-151).
- Below λ it counts a dimension as 0 instead of λ; the gradient is the same (``vae.py`` lines 127-128).
- It has one z of 32 or 768 dimensions; 768 is BERT-base's width, here ``latent_size: hidden``.
- Not here: it starts from BERT and GPT-2, each with its own vocabulary, and takes h after BERT's tanh pooler; z is an extra key
  and value in GPT-2's self-attention and is added to its embeddings, while here it is the only key of a cross-attention; the
  weight of the KL is 0 for half of each of ten cycles, rises for a quarter, and stays for a quarter.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import seeded
from pretrieve.pretraining.examples import Masked, Setting
from pretrieve.pretraining.seed_encoder import SeedEncoder


def normal_draws(seed: int, draws: np.ndarray, size: int) -> torch.Tensor:
    """(n, size) standard normal numbers; row i depends on ``seed`` and ``draws[i]`` alone."""
    rows = [np.random.default_rng([seed, 106, int(draw)]).standard_normal(size, dtype=np.float32) for draw in draws]
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, size)


def divergence(mean: torch.Tensor, log_variance: torch.Tensor, free: float = 0.0) -> torch.Tensor:
    """Summed KL(N(mean, variance) ‖ N(0, 1)) in nats, at least ``free`` for each of the (n, k) numbers.

    >>> divergence(torch.tensor([[0.0, 2.0]]), torch.zeros(1, 2), free=0.5).item()  # 0.5 + 2²/2
    2.5
    """
    return (0.5 * (mean.square() + log_variance.exp() - log_variance - 1)).clamp(min=free).sum()


class Latent(nn.Module):
    """h (n, d) → μ and log σ² (n, k), and z (n, k) → what the decoder gets (n, d); no biases, as released."""

    def __init__(self, config: BodyConfig, size: int | str, seed: int) -> None:
        super().__init__()
        self.size = config.hidden if size == "hidden" else int(size)
        self.statistics = nn.Linear(config.hidden, 2 * self.size, bias=False)
        self.expand = nn.Identity() if size == "hidden" else nn.Linear(self.size, config.hidden, bias=False)
        generator = seeded(seed, 6)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=config.std, generator=generator)

    def forward(self, states: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(what the decoder gets, μ, log σ²), for ``noise`` (n, k)."""
        mean, log_variance = self.statistics(states).float().chunk(2, dim=-1)
        drawn = mean + noise * (0.5 * log_variance).exp()
        return self.expand(drawn.to(self.statistics.weight.dtype)), mean, log_variance


class Optimus(SeedEncoder):
    """Without a latent variable the decoder gets the state of [CLS] itself."""

    weighed = ("mlm", "decoder", "kl")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._options, self._seed = setting.options, setting.seed  # the seed also of the noise
        self.latent = None
        if self._options["kl_weight"]:
            size = self._options["latent_size"]
            self.latent = self.module["latent"] = Latent(setting.encoder.config, size, setting.seed)

    def counts(self, masked: Masked) -> dict[str, int]:
        """As SEED-Encoder's; the KL is a mean over the decoder's words, or over sequences."""
        counts = super().counts(masked)
        return counts | {"kl": counts["decoder"] if self._options["kl_per"] == "token" else len(masked.draws)}

    def bottleneck(self, cls: torch.Tensor, masked: Masked) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """z (n, d) and its summed KL."""
        if self.latent is None:
            return cls, {}
        noise = normal_draws(self._seed, masked.draws, self.latent.size).to(cls.device)
        vectors, mean, log_variance = self.latent(cls, noise)
        return vectors, {"kl": divergence(mean, log_variance, self._options["free_bits"])}


build = Optimus
