"""BERT's encoder without padding.

The same function as ``transformers.BertModel`` (post-LN, GELU, learned positions, segment embeddings; Devlin et al. 2019)
on packed batches (:mod:`pretrieve.text.packing`): embeddings, linear layers and norms see only real tokens, and attention
is computed on groups of sequences of nearly equal length. On web passages most of a padded batch is padding, so this is
where the speed comes from. Query, key and value are one matrix; :mod:`pretrieve.models.hf_format` translates names.

RoBERTa, ELECTRA and ERNIE 2.0 are the same function with other embeddings: RoBERTa's first position is row 2 of its
table, and it has one segment or none (:class:`~pretrieve.models.config.BodyConfig`).
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Asking, Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.dropout import Dropout, attend
from pretrieve.models.linear import Linear, product
from pretrieve.models.tiles import attend_in_tiles, in_tiles


def seeded(*numbers: int) -> torch.Generator:
    """A CPU generator of initial weights, for a tuple of small numbers; different tuples give unrelated streams."""
    value = 0
    for number in numbers:
        value = (value * 1_000_003 + number + 1) % (2**63 - 1)
    return torch.Generator().manual_seed(value)


def sinusoids(positions: int, hidden: int) -> torch.Tensor:
    """(positions, hidden) sinusoidal position table of Vaswani et al. (2017), §3.5; values in [-1, 1]."""
    position = torch.arange(positions, dtype=torch.float32)[:, None]
    frequency = torch.exp(torch.arange(0, hidden, 2, dtype=torch.float32) * (-math.log(10_000.0) / hidden))
    table = torch.zeros(positions, hidden)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency[: hidden // 2])
    return table


def takes_varlen(x: torch.Tensor, size: int, p: float) -> bool:
    """Whether attention that comes as ``x``, with heads of ``size`` and a dropout of ``p``, is computed by :func:`attend_varlen`:
    where FlashAttention can, on GPUs from Ampere on. It is one call for a whole packed batch, where groups take ten each, and
    small models spend their time on calls. It has no dropout of the softmax and no mask; where these are wanted, groups do."""
    able = x.is_cuda and x.dtype == torch.bfloat16 and not p and size % 8 == 0 and size <= 256
    return able and torch.cuda.get_device_capability(x.device) >= (8, 0)


def attend_varlen(
    query: torch.Tensor, joint: torch.Tensor, batch: Batch, heads: int, asking: Asking | None = None
) -> torch.Tensor:
    """softmax(Q·Kᵀ/√size)·V of each sequence and head, by torch.nn.attention.varlen: (T, d), or (m, d) of the rows ``asking``.

    query: (T, d) or (m, d); joint: keys and values side by side, (T, 2·d).
    """
    if not len(query):  # nobody asks; a part of ``joint``, so that its weights get a gradient of 0 and not none
        return joint[:0, : query.shape[1]]
    from torch.nn.attention.varlen import varlen_attn  # it loads torch's compiler, which takes a second

    size = query.shape[1] // heads
    key, value = joint.unflatten(1, (2, heads, size)).unbind(1)
    starts, longest = batch.cu_seqlens, batch.longest
    if asking is not None:  # how many of the rows that ask come before each sequence
        starts, longest = torch.searchsorted(asking.rows, starts.long(), out_int32=True), asking.widest
    query = query.unflatten(1, (heads, size))
    found = varlen_attn(query, key, value, starts, batch.cu_seqlens, longest, batch.longest)
    return found.flatten(1)


class Attention(nn.Module):
    """Multi-head self-attention over each sequence of a packed batch; (T, d) → (T, d) or (n, d)."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = Linear(config.hidden, 3 * config.hidden)
        self.output = Linear(config.hidden, config.hidden)
        self.dropout = config.dropout

    def forward(self, x: torch.Tensor, batch: Batch, asking: Asking | None = None) -> torch.Tensor:
        """``asking``: only these rows ask (all of their sequence answer): the result is theirs, (m, d)."""
        hidden, drop = x.shape[-1], self.dropout if self.training else 0.0
        if asking is None:
            joint = self.qkv(x)
            if in_tiles(joint):
                return self.output(attend_in_tiles(joint, batch.tiles, self.heads, drop))
            parts = queries = [None] * len(batch.groups)
        else:
            weight, bias = self.qkv.weight, self.qkv.bias
            query = functional.linear(x.index_select(0, asking.rows), weight[:hidden], bias[:hidden])
            joint, parts = product(x, weight[hidden:], bias[hidden:]), asking.parts
            queries = query.split([after - begin for begin, after, *_ in parts])
        if takes_varlen(joint, hidden // self.heads, drop):
            if asking is None:
                query, joint = joint.split([hidden, 2 * hidden], -1)
            return self.output(attend_varlen(query, joint, batch, self.heads, asking))
        results = []
        for group, chosen, query, part in zip(batch.groups, parts, queries, batch.parts(joint), strict=True):
            first, last, _, _, longest, full = group
            n, mask, back = last - first, None, None
            if not full:
                part, back = batch.padded(part, group)
                mask = torch.arange(longest, device=x.device)[None, :] < batch.lengths[first:last, None]
                mask = mask[:, None, None, :]
            streams = part.view(n, longest, -1, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            if chosen is not None:
                at, after, widest, even = chosen
                if not widest:
                    continue
                back = None if even else asking.place[at:after]
                if not even:
                    query = query.new_zeros(n * widest, hidden).index_copy(0, back, query)
                streams = (query.view(n, widest, self.heads, -1).transpose(1, 2), *streams)
            if mask is not None:
                mask = mask.expand(n, 1, streams[0].shape[2], longest)
            context = attend(*streams, mask, drop).transpose(1, 2).reshape(-1, hidden)
            results.append(context if back is None else context.index_select(0, back))
        if not results:  # nobody asks; a part of ``joint``, so that its weights get a gradient of 0 and not none
            results.append(joint[:0, :hidden])
        return self.output(results[0] if len(results) == 1 else torch.cat(results))


class Layer(nn.Module):
    """One post-LN layer: attention and feed-forward, each with residual and LayerNorm."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.up = Linear(config.hidden, config.feed_forward)
        self.down = Linear(config.feed_forward, config.hidden)
        self.output_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: torch.Tensor, batch: Batch, asking: Asking | None = None) -> torch.Tensor:
        """(T, d), or (m, d) of the rows ``asking``."""
        residual = x if asking is None else x.index_select(0, asking.rows)
        return self.after_attention(residual, self.attention(x, batch, asking))

    def after_attention(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Residual, norms and feed-forward, each row by itself; (T, d) → (T, d)."""
        x = self.attention_norm(residual + self.dropout(attended))
        return self.output_norm(x + self.dropout(self.down(self.up(x, gelu=True))))


def compute_at(layer: Layer, x: torch.Tensor, batch: Batch, asking: Asking | None) -> torch.Tensor:
    """(T, d) output of a layer, of which only the rows ``asking`` are computed (None: all). The others are NaN, so that
    no one can take them for states."""
    if asking is None:
        return layer(x, batch)
    found = layer(x, batch, asking)
    return found.new_full(x.shape, torch.nan).index_copy(0, asking.rows, found)


def initialise_layers(module: nn.Module, config: BodyConfig, generator: torch.Generator) -> None:
    """BERT's initial weights for layers: matrices N(0, ``std``), biases 0, LayerNorm 1 and 0."""
    for name, parameter in module.named_parameters():
        if "norm" in name:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, std=config.std, generator=generator)


class Transformer(nn.Module):
    """BERT's embeddings and layers on packed batches."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary_size, config.hidden)
        self.positions = nn.Embedding(config.max_positions + config.position_offset, config.hidden)
        self.segments = nn.Embedding(config.segments, config.hidden) if config.segments else None
        self.embedding_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all weights from ``generator`` (see :class:`~pretrieve.models.config.BodyConfig` for the two deviations)."""
        config = self.config
        nn.init.normal_(self.words.weight, std=config.word_std, generator=generator)
        nn.init.normal_(self.positions.weight, std=config.std, generator=generator)
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=config.std, generator=generator)
        initialise_layers(self.layers, config, generator)
        if config.positions == "sinusoid":
            table = config.position_std * sinusoids(config.max_positions, config.hidden)
            with torch.no_grad():
                self.positions.weight[config.position_offset :].copy_(table)

    def places(self, positions: torch.Tensor) -> torch.Tensor:
        """Embeddings (..., d) of positions counted from 0, wherever the family's table begins."""
        return self.positions(positions + self.config.position_offset if self.config.position_offset else positions)

    def embed(self, batch: Batch) -> torch.Tensor:
        """(T, d) sum of word, position and segment embeddings, normalised.

        Raises ConfigError when a sequence is longer than the body has positions.
        """
        if batch.longest > self.config.max_positions:
            raise ConfigError(
                f"a text of {batch.longest} tokens, but the body has {self.config.max_positions} positions; "
                "set query_length and passage_length of the scale to at most that."
            )
        x = self.words(batch.tokens) + self.places(batch.positions)
        if self.segments is not None:
            # Where there is one segment, the second text is in it as well.
            x = x + (self.segments(batch.segments) if self.config.segments > 1 else self.segments.weight[0])
        return self.dropout(self.embedding_norm(x))

    def forward(self, batch: Batch, first_only: bool = False, asking: Asking | None = None) -> torch.Tensor:
        """Hidden states of the last layer, (T, d) in packed order.

        ``first_only``: only those of each sequence's first token, (n, d) in packed order, and the last layer is computed for
        these alone. ``asking``: as in :meth:`all_states`.
        """
        x = self.embed(batch)
        for layer in self.layers[:-1]:
            x = layer(x, batch)
        if first_only:
            return self.layers[-1](x, batch, Asking.first(batch))
        return compute_at(self.layers[-1], x, batch, asking)

    def all_states(self, batch: Batch, asking: Asking | None = None) -> list[torch.Tensor]:
        """layers + 1 hidden states (T, d) in packed order: the embeddings, then each layer's output.

        ``asking``: the last layer is computed at these rows alone, and is NaN elsewhere.
        """
        states = [self.embed(batch)]
        for layer in self.layers[:-1]:
            states.append(layer(states[-1], batch))
        return [*states, compute_at(self.layers[-1], states[-1], batch, asking)]
