"""The encoder of T5 v1.1 without padding (Raffel et al. 2020, §2.1; Shazeer 2020; paper ``dual_encoders`` §4 starts from it).

The same function as ``transformers.T5EncoderModel`` on packed batches (:mod:`pretrieve.text.packing`). Against BERT's encoder:

* norm first: ``x ← x + f(norm(x))`` in both halves of a layer, and one norm after the last layer;
* RMSNorm, ``norm(x) = w · x / √(mean(x²) + ε)``: no mean is taken off and no bias added (Zhang & Sennrich 2019);
* gated feed-forward, ``down(gelu(gate(x)) · up(x))``, with the tanh approximation of GELU; no linear layer has a bias;
* no position embeddings: a head adds b[head, bucket(j − i)] to the score of key j for query i. The b are shared by all
  layers. Scores are not divided by √d: the initial weights of the queries see to that;
* no segments, and no [CLS]: a text is ``x1 .. xn </s>``, and its vector is the mean over all n + 1 states
  (``dual_encoders`` §4).

Buckets: half of them for keys after the query, half for keys at or before it; in each half, the first half of the
buckets stand for one distance each, the others for logarithmically growing ranges up to ``max_distance``, and the last
one for everything beyond (§2.1).
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig


def distance_buckets(length: int, buckets: int, max_distance: int) -> torch.Tensor:
    """(length, length) int64: the bucket of key j's distance from query i, in row i and column j.

    >>> distance_buckets(4, 32, 128)[0].tolist(), distance_buckets(4, 32, 128)[3].tolist()
    ([0, 17, 18, 19], [3, 2, 1, 0])
    """
    place = torch.arange(length)
    distance = place[None, :] - place[:, None]
    half = buckets // 2
    exact = half // 2
    far = distance.abs().clamp(min=exact).float()
    grown = exact + (torch.log(far / exact) / math.log(max_distance / exact) * (half - exact)).long()
    bucket = torch.where(distance.abs() < exact, distance.abs(), grown.clamp(max=half - 1))
    return bucket + half * (distance > 0)


class T5Attention(nn.Module):
    """Multi-head self-attention over each sequence of a packed batch, with a bias for the distance; (T, d) → (T, d)."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        inner = config.heads * (config.head_size or config.hidden // config.heads)
        self.qkv = nn.Linear(config.hidden, 3 * inner, bias=False)
        self.output = nn.Linear(inner, config.hidden, bias=False)

    def forward(self, x: torch.Tensor, batch: Batch, bias: torch.Tensor) -> torch.Tensor:
        """bias (heads, longest, longest)."""
        joint = self.qkv(x)
        inner = joint.shape[-1] // 3
        drop = self.dropout if self.training else 0.0
        results = []
        for group, part in zip(batch.groups, batch.parts(joint), strict=True):
            first, last, _, _, longest, full = group
            n, place = last - first, None
            scores = bias[None, :, :longest, :longest].to(part.dtype)
            if not full:
                part, place = batch.padded(part, group)
                padding = torch.arange(longest, device=x.device)[None, :] >= batch.lengths[first:last, None]
                scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
            streams = part.view(n, longest, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            context = functional.scaled_dot_product_attention(
                *streams, attn_mask=scores.expand(n, -1, -1, -1), dropout_p=drop, scale=1.0
            )
            context = context.transpose(1, 2).reshape(-1, inner)
            results.append(context if full else context.index_select(0, place))
        return self.output(results[0] if len(results) == 1 else torch.cat(results))


class T5Layer(nn.Module):
    """Attention and gated feed-forward, each after a norm and added to what came in."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden, config.layer_norm_eps)
        self.attention = T5Attention(config)
        self.output_norm = nn.RMSNorm(config.hidden, config.layer_norm_eps)
        self.gate = nn.Linear(config.hidden, config.feed_forward, bias=False)
        self.up = nn.Linear(config.hidden, config.feed_forward, bias=False)
        self.down = nn.Linear(config.feed_forward, config.hidden, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor, batch: Batch, bias: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), batch, bias))
        inside = self.output_norm(x)
        inside = functional.gelu(self.gate(inside), approximate="tanh") * self.up(inside)
        return x + self.dropout(self.down(self.dropout(inside)))


class T5Encoder(nn.Module):
    """T5 v1.1's word embeddings and encoder layers on packed batches."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary_size, config.hidden)
        self.distances = nn.Embedding(config.buckets, config.heads)
        self.layers = nn.ModuleList(T5Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def initialise(self, generator: torch.Generator) -> None:
        """T5's initial weights (Mesh TensorFlow's, as transformers has them): words N(0, 1), matrices N(0, 1/fan-in), queries
        divided once more by √head_size, which stands for the missing scale; norms 1. ``std`` and ``word_std`` are not used."""
        config = self.config
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                nn.init.ones_(parameter)
                continue
            fan_in = {"words.weight": 1, "distances.weight": config.hidden}.get(name, parameter.shape[-1])
            nn.init.normal_(parameter, std=fan_in**-0.5, generator=generator)
            if name.endswith("qkv.weight"):
                inner = len(parameter) // 3
                with torch.no_grad():
                    parameter[:inner] *= (inner // config.heads) ** -0.5

    def bias(self, batch: Batch) -> torch.Tensor:
        """(heads, longest, longest) what is added to the scores."""
        config = self.config
        buckets = distance_buckets(batch.longest, config.buckets, config.max_distance)
        return self.distances(buckets.to(batch.tokens.device)).permute(2, 0, 1)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Hidden states after the last norm, (T, d) in packed order."""
        x, bias = self.dropout(self.words(batch.tokens)), self.bias(batch)
        for layer in self.layers:
            x = layer(x, batch, bias)
        return self.dropout(self.norm(x))
