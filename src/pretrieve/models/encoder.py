"""An encoder: a body, how its states become one vector, and a linear projection."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import ConfigError, check_choice
from pretrieve.base.given import given_number
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.projection import make_projection
from pretrieve.models.t5 import T5Encoder
from pretrieve.models.transformer import Transformer, seeded


class BowMlp(nn.Module):
    """BoW-MLP, the shallow baseline of paper ``pretraining_tasks`` §4.2: mean of word embeddings → tanh layer of width
    ``feed_forward`` → tanh layer of width ``hidden``; (n, hidden).

    The paper gives "a shallow two-layer MLP network with tanh activation"; the projection to the embedding's dimension
    after it is the same linear layer as for the Transformer. Special tokens are words like any other.
    """

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary_size, config.hidden)
        self.inner = nn.Linear(config.hidden, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.hidden)

    def initialise(self, generator: torch.Generator) -> None:
        """Words as in the Transformer; the MLP's matrices with variance 1/fan-in, which keeps tanh out of saturation."""
        nn.init.normal_(self.words.weight, std=self.config.word_std, generator=generator)
        for linear in (self.inner, self.outer):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5, generator=generator)
            nn.init.zeros_(linear.bias)

    def forward(self, batch: Batch) -> torch.Tensor:
        """(n, hidden) in packed order."""
        total = self.words.weight.new_zeros(len(batch), self.config.hidden)
        total = total.index_add(0, batch.sequence, self.words(batch.tokens))
        mean = total / batch.lengths[:, None].to(total.dtype)
        return torch.tanh(self.outer(torch.tanh(self.inner(mean))))


BODIES = {"transformer": Transformer, "bow-mlp": BowMlp, "t5": T5Encoder}
POOLINGS = ("cls", "mean")
SIMILARITIES = ("cosine", "dot")


def make_body(config: BodyConfig, seed: int) -> Transformer | BowMlp | T5Encoder:
    """A body with fresh weights; the same seed gives the same weights whatever else the process drew."""
    body = BODIES[config.kind](config)
    body.initialise(seeded(seed, 0))
    return body


def pool_states(body: Transformer | BowMlp | T5Encoder, batch: Batch, pooling: str) -> torch.Tensor:
    """One state for each text, (n, hidden) in packed order: the first token's (``cls``) or the mean of all (``mean``)."""
    if isinstance(body, BowMlp):
        return body(batch)
    if pooling == "cls":
        return body(batch, first_only=True)
    states = body(batch)
    total = states.new_zeros(len(batch), states.shape[1]).index_add(0, batch.sequence, states)
    return total / batch.lengths[:, None].to(states.dtype)


class Encoder(nn.Module):
    """Text → vector: body, pooling, projection to ``dim`` (paper ``pretraining_tasks`` §4.1: "a linear layer on the
    hidden state of the [CLS] token").

    pooling: ``cls`` is the state of the first token; ``mean`` that of all tokens, special ones included, which is how
    T5's sequences ``x1 .. xn </s>`` are pooled (``dual_encoders`` §4). similarity: ``cosine`` gives vectors of norm 1,
    ``dot`` leaves them; head: :mod:`pretrieve.models.projection`, whose weights ``tower`` tells from another tower's.

    Raises ConfigError for an unknown word, a ``dim`` below 1, or ``cls`` with T5.
    """

    def __init__(
        self,
        config: BodyConfig,
        dim: int,
        pooling: str,
        seed: int,
        similarity: str = "cosine",
        head: str = "linear",
        tower: int = 0,
    ) -> None:
        super().__init__()
        check_choice("pooling", pooling, POOLINGS)
        check_choice("similarity", similarity, SIMILARITIES)
        if config.kind == "t5" and pooling == "cls":
            raise ConfigError(
                "pooling 'cls' does not go with T5: its texts have no [CLS] in front; set pooling: mean for the scale."
            )
        dim = given_number(dim, "dim")
        self.config, self.dim, self.pooling, self.similarity, self.head = config, dim, pooling, similarity, head
        self.width = dim  # numbers of a vector, by the name that every tower has for it
        self.body = make_body(config, seed)
        self.projection = make_projection(head, config, dim, seed, tower)

    def pool(self, batch: Batch) -> torch.Tensor:
        """(n, hidden) in packed order."""
        return pool_states(self.body, batch, self.pooling)

    def forward(self, batch: Batch) -> torch.Tensor:
        """(n, dim) float32 vectors in the caller's order of examples; of L2 norm 1 for ``cosine``."""
        vectors = self.projection(self.pool(batch)).float()
        if self.similarity == "cosine":
            vectors = functional.normalize(vectors, dim=-1)
        return vectors[batch.inverse]
