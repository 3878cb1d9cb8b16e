"""From a pooled state to the vector of a text.

==================  =================================  ================================================================
head                what                               whose
==================  =================================  ================================================================
``none``            the state itself                   ``condenser`` A.1, ``dupmae`` §4.1 (RetroMAE), DPR
``linear``          W·h + b                            ``pretraining_tasks`` §4.1
``linear-no-bias``  W·h, always in float32             ``dual_encoders`` §4 (T5X's DenseGeneral)
``linear-norm``     LayerNorm(W·h + b)                 SEED-Encoder on MS MARCO (model/models.py:266-306)
``orqa``            BERT's pooler, dense, LayerNorm    ORQA's ICT model
==================  =================================  ================================================================

Each head begins as its source begins it. A retriever with two towers draws two heads; ``tower`` tells their weights apart.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import ConfigError, check_choice
from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import seeded

HEADS = ("none", "linear", "linear-no-bias", "linear-norm", "orqa")
#: Streams of initial weights, for the document's (or the only) tower and the query's: linear heads, and orqa's.
_LINEAR, _ORQA = (1, 9), (4, 10)
#: ε of ``tf.keras.layers.LayerNormalization``.
KERAS_EPS = 1e-3
#: Deviation of a normal distribution that is cut off at two deviations (what JAX divides by).
_CUT_DEVIATION = 0.87962566103423978


class OrqaProjection(nn.Module):
    """BERT's tanh pooler, a dense layer to ``dim``, LayerNorm, dropout 0.1: the ICT model of ORQA (Lee et al. 2019;
    google-research/language, ict_model.py:44-48); (n, hidden) → (n, dim).

    The pooler begins as BERT's layers, the dense layer with ``tf.layers.dense``'s Glorot uniform weights (within
    ±√(6 / (hidden + dim))), and ε is that of Keras's LayerNormalization, 1e-3.
    """

    def __init__(self, config: BodyConfig, dim: int, seed: int, tower: int = 0) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.hidden, config.hidden)
        self.dense = nn.Linear(config.hidden, dim)
        self.norm = nn.LayerNorm(dim, eps=KERAS_EPS)
        self.dropout = nn.Dropout(0.1)
        nn.init.normal_(self.pooler.weight, std=config.std, generator=seeded(seed, _ORQA[tower], 0, dim))
        nn.init.xavier_uniform_(self.dense.weight, generator=seeded(seed, _ORQA[tower], 1, dim))
        nn.init.zeros_(self.pooler.bias)
        nn.init.zeros_(self.dense.bias)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(self.dense(torch.tanh(self.pooler(pooled)))))


class NormedProjection(nn.Module):
    """Linear layer, then LayerNorm (ε 1e-5); (n, hidden) → (n, dim).

    Weights N(0, 0.02), as the code has it; its biases are left as PyTorch draws them, uniform within ±1/√hidden
    (SEED-Encoder, model/models.py:266-306 and ``_init_weights``).
    """

    def __init__(self, config: BodyConfig, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = nn.Linear(config.hidden, dim)
        self.norm = nn.LayerNorm(dim)
        nn.init.normal_(self.linear.weight, std=0.02, generator=generator)
        bound = config.hidden**-0.5
        nn.init.uniform_(self.linear.bias, -bound, bound, generator=generator)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(pooled))


class NoBiasProjection(nn.Linear):
    """W·h in float32 whatever the precision around it; (n, hidden) → (n, dim).

    ``variance_scaling(1, fan_in, truncated normal)``: deviation 1/√hidden, nothing beyond two deviations of the uncut
    distribution (t5x_retrieval, ade_t5_1_1_flaxformer.gin: left and right ``projection_layer``).
    """

    def __init__(self, config: BodyConfig, dim: int, generator: torch.Generator) -> None:
        super().__init__(config.hidden, dim, bias=False)
        std = config.hidden**-0.5 / _CUT_DEVIATION
        nn.init.trunc_normal_(self.weight, std=std, a=-2 * std, b=2 * std, generator=generator)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        with torch.autocast(pooled.device.type, enabled=False):
            return functional.linear(pooled.to(self.weight.dtype), self.weight)


def make_projection(head: str, config: BodyConfig, dim: int, seed: int, tower: int = 0) -> nn.Module:
    """The head of the module's table with fresh weights; (n, hidden) → (n, dim).

    tower: 0, or 1 for the query's where it has its own: other weights from the same seed.

    Raises ConfigError for another word, or ``none`` with another ``dim`` than the body's.
    """
    check_choice("head", head, HEADS)
    if head == "none":
        if dim != config.hidden:
            raise ConfigError(
                f"head 'none' with dim={dim}: the vector is the body's state of {config.hidden} numbers; set dim: "
                f"{config.hidden}, or a head."
            )
        return nn.Identity()
    if head == "orqa":
        return OrqaProjection(config, dim, seed, tower)
    generator = seeded(seed, _LINEAR[tower], dim)
    if head == "linear-norm":
        return NormedProjection(config, dim, generator)
    if head == "linear-no-bias":
        return NoBiasProjection(config, dim, generator)
    projection = nn.Linear(config.hidden, dim)
    nn.init.normal_(projection.weight, std=config.hidden**-0.5, generator=generator)
    nn.init.zeros_(projection.bias)
    return projection
