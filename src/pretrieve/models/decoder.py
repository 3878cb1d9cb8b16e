"""SEED-Encoder's decoder (paper ``seed_encoder`` §3.4): it rebuilds the text from [CLS] and, at most, the last few words.

From h (n, d), one vector for each sequence, and the words before, ``L = −Σ_t log P(x_t | x_{t−k} … x_{t−1}, h)``
(equation 9; with ``span='all'`` equation 2). It reads ``[CLS] x_1 … x_n`` as they were, *not* masked, and predicts
``x_1 … x_n [SEP]``. What the released code fixes and the paper does not say (microsoft/SEED-Encoder,
``transformer_sentence_encoder.py`` and ``modules.py``):

- Row i attends to row 0, the [CLS] word, and to rows i−k+1 … i (lines 585-616). So ``span=2`` sees the two words before the
  one it predicts. Layers widen this: m layers reach 1 + m·(k−1) words back.
- h is the *only key* of a cross-attention in each layer. A softmax over one key is 1, so every row gets the same
  ``W_o(W_v h + b_v) + b_o`` whatever its query is. It is computed that way, once a sequence. Query, key and the norm in front
  of the query change nothing and get no gradient (in the released code, one of exactly 0); they are here so that a published
  decoder fits in whole.
- Word embeddings are the encoder's, in and out, and not scaled by √d; positions are its own (from 0: a published table
  begins with two rows that are never read); LayerNorm after the embeddings, in front of each block, and at the end; the
  output has no bias and no transform.

A fresh decoder favours the word that it has just read, since that word's embedding runs through all residuals to an output
that multiplies it with itself. So its loss does not begin at ln V where word embeddings are wide: with ``word_std`` 0.1 and
128 dimensions a sixth above it. It is unlearned within some ten steps.

A band of the attention matrix would do for a small span; the whole matrix is computed, as at these lengths it is a small part
of a layer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.dropout import Dropout, attend, dropout
from pretrieve.models.tiles import attend_in_tiles, barred, in_tiles, tile_rows
from pretrieve.models.transformer import initialise_layers, seeded, sinusoids
from pretrieve.models.word_head import word_loss
from pretrieve.text.packing import Packed


def span_mask(length: int, span: int | str, device: torch.device | str = "cpu") -> torch.Tensor:
    """(length, length) bool: True where row i may attend to column j.

    >>> span_mask(5, 2).int().tolist()
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 0, 1, 1]]
    """
    row, column = torch.arange(length, device=device)[:, None], torch.arange(length, device=device)[None, :]
    mask = column <= row
    return mask if span == "all" else mask & ((column > row - span) | (column == 0))


def next_words(packed: Packed, tokens: np.ndarray) -> tuple[Packed, np.ndarray]:
    """What the decoder reads, every sequence but its last token, and what it predicts there (T − n,), the token after.

    packed: n sequences of at least two tokens; tokens (T,): their words before masking.

    Raises ValueError when a sequence has a single token, which leaves nothing to predict.
    """
    if len(packed.lengths) and packed.lengths[-1] < 2:
        raise ValueError(f"a sequence of {packed.lengths[-1]} token has no next word; expected [CLS] … [SEP]")
    last = np.zeros(len(tokens), dtype=bool)
    last[packed.starts + packed.lengths - 1] = True
    read = np.flatnonzero(~last)
    return Packed(tokens[read], packed.segments[read], packed.lengths - 1, packed.order), tokens[read + 1]


class CausalAttention(nn.Module):
    """Multi-head self-attention to rows before and at each row, or some of them; (T, d) → (T, d)."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.output = nn.Linear(config.hidden, config.hidden)
        self.dropout = config.dropout

    def forward(self, x: torch.Tensor, batch: Batch, mask: torch.Tensor | None) -> torch.Tensor:
        """mask: of :func:`span_mask`, at least as long as the tile of the longest sequence; None: all rows before."""
        hidden = x.shape[-1]
        joint, drop = self.qkv(x), self.dropout if self.training else 0.0
        if in_tiles(joint):
            longest = batch.tiles.longest
            allowed = span_mask(longest, "all") if mask is None else mask[:longest, :longest]
            return self.output(attend_in_tiles(joint, batch.tiles, self.heads, drop, barred(allowed)))
        results = []
        for group, part in zip(batch.groups, batch.parts(joint), strict=True):
            first, last, _, _, longest, full = group
            n, place = last - first, None
            if not full:
                # Padding follows its sequence, where no row of the sequence looks: it needs no mask of its own.
                part, place = batch.padded(part, group)
            streams = part.view(n, longest, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            context = attend(*streams, None if mask is None else mask[:longest, :longest], drop, causal=mask is None)
            context = context.transpose(1, 2).reshape(-1, hidden)
            results.append(context if full else context.index_select(0, place))
        return self.output(results[0] if len(results) == 1 else torch.cat(results))


class SingleKeyAttention(nn.Module):
    """Multi-head attention of all rows of a sequence to one vector; (n, d) → (T, d). ``query`` and ``key`` are idle."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.query, self.key, self.value, self.output = (nn.Linear(config.hidden, config.hidden) for _ in range(4))

    def forward(self, vectors: torch.Tensor, batch: Batch) -> torch.Tensor:
        value = self.value(vectors)
        if not (self.training and self.dropout):
            return self.output(value).index_select(0, batch.sequence)
        # Attention dropout: each row loses whole heads, for there is one weight a head, and it is 1.
        value = value.index_select(0, batch.sequence).unflatten(1, (self.heads, -1))
        kept = dropout(torch.ones_like(value[:, :, :1]), self.dropout)
        return self.output((value * kept).flatten(1))


class DecoderLayer(nn.Module):
    """One pre-LN layer: causal self-attention, the sequence's vector, feed-forward, each added to its input."""

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.attention = CausalAttention(config)
        self.cross = SingleKeyAttention(config)
        self.up = nn.Linear(config.hidden, config.feed_forward)
        self.down = nn.Linear(config.feed_forward, config.hidden)
        self.attention_norm, self.cross_norm, self.output_norm = (
            nn.LayerNorm(config.hidden, eps=config.layer_norm_eps) for _ in range(3)
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, x: torch.Tensor, vectors: torch.Tensor, batch: Batch, mask: torch.Tensor | None) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), batch, mask))
        x = x + self.dropout(self.cross(vectors, batch))
        return x + self.dropout(self.down(functional.gelu(self.up(self.output_norm(x)))))


class Decoder(nn.Module):
    """``layers`` decoder layers of the body's width; ``span``: k, or ``'all'``; initial weights as the body's."""

    def __init__(self, config: BodyConfig, layers: int, span: int | str, seed: int) -> None:
        super().__init__()
        self.span = span
        self.positions = nn.Embedding(config.max_positions, config.hidden)
        self.embedding_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(layers))
        self.final_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        generator = seeded(seed, 5)
        nn.init.normal_(self.positions.weight, std=config.std, generator=generator)
        initialise_layers(self.layers, config, generator)
        if config.positions == "sinusoid":
            with torch.no_grad():
                self.positions.weight.copy_(config.position_std * sinusoids(config.max_positions, config.hidden))

    def forward(self, batch: Batch, vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """(T, d) states; their product with a word's embedding is its logit. vectors (n, d): in packed order; words (V, d)."""
        whole = self.span == "all" or self.span >= batch.longest
        mask = None if whole else span_mask(tile_rows(batch.longest), self.span, vectors.device)
        x = functional.embedding(batch.tokens, words) + self.positions(batch.positions)
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, vectors, batch, mask)
        return self.final_norm(x)

    def loss(self, vectors: torch.Tensor, packed: Packed, tokens: np.ndarray, words: torch.Tensor) -> torch.Tensor:
        """Summed cross-entropy of the T − n tokens after [CLS]; ``packed`` and ``tokens`` as in :func:`next_words`."""
        inputs, targets = next_words(packed, tokens)
        states = self(Batch.of(inputs, vectors.device), vectors, words)
        return word_loss(states, words, None, torch.from_numpy(targets.astype(np.int64)).to(vectors.device))
