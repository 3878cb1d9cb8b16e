"""BERT's head for masked words (Devlin et al. 2019), and the loss of a linear layer over the vocabulary.

The loss is a cross-entropy that never holds the (m, V) logits. For states h_i, output matrix W, bias b and targets t_i:
``L = Σ_i (log Σ_v exp(W_v·h_i + b_v) − W_{t_i}·h_i − b_{t_i})``. The gradient of the logits is ``softmax − onehot``, known as
soon as the logits are; so rows are taken a few at a time, their part of the gradients is added up in the forward pass, and their
logits are forgotten. Memory is that of a few rows instead of all.

Of these rows' logits a few words at a time are worked on, so that what is added, exponentiated and summed stays in a CPU's
cache: exp against the greatest logit of each block, which the sum over all blocks puts right (as in Milakov & Gimelshein 2018,
*Online normalizer calculation for softmax*). By ``benchmarks/c2_steps.py`` that is faster than logits for all rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import seeded

#: Logits that are held at once, by device.
LOGITS_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 27}
#: But never fewer rows than this: each time, W is read anew, and its gradient added to.
ROWS_AT_LEAST = 512
#: Words of a block: with its rows, what a CPU's cache holds, or all on a GPU.
WORDS_AT_ONCE = {"cpu": 1024, "cuda": 1 << 30}
LOG2_E = math.log2(math.e)
#: Of a block whose greatest logit is 69 below the greatest of all: softmax is 0 there in any case.
LEAST_SCALE = 1e-30


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, words, bias, targets, rows, wanted):
        state_grad = torch.empty_like(states) if wanted else None
        word_grad = torch.zeros_like(words) if wanted else None
        bias_grad = torch.zeros_like(bias) if wanted and bias is not None else None
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else words.dtype
        size = WORDS_AT_ONCE[device]
        blocks = words.to(dtype).split(size)
        biases = [None] * len(blocks) if bias is None else bias.split(size)
        if wanted:
            of_words = word_grad.split(size)
            of_biases = [None] * len(blocks) if bias_grad is None else bias_grad.split(size)
        total = torch.zeros((), dtype=torch.float64 if device == "cpu" else torch.float32, device=states.device)
        with torch.autocast(device, enabled=False):
            for first in range(0, len(states), rows):
                x = states[first : first + rows].to(dtype)
                softmax = _Softmax(x, blocks, biases, targets[first : first + rows])
                total += softmax.losses.sum()
                if wanted:
                    state_grad[first : first + rows] = softmax.gradients(of_words, of_biases)
        ctx.save_for_backward(state_grad, word_grad, bias_grad)
        return total.to(torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        # In place, for words is the largest gradient there is. torch refuses a second backward pass after that.
        states, words, bias = (None if grad is None else grad.mul_(upstream) for grad in ctx.saved_tensors)
        return states, words, bias, None, None, None


class _Softmax:
    """Of a few rows x (n, d) with targets (n,) over all words, block by block."""

    def __init__(
        self,
        x: torch.Tensor,
        blocks: Sequence[torch.Tensor],
        biases: Sequence[torch.Tensor | None],
        targets: torch.Tensor,
    ) -> None:
        self.x, self.blocks = x, blocks
        # For each block, the targets' columns (n, 1) in it and whether they are in it at all: no block is looked up by target,
        # which on a GPU would wait for the targets.
        self.places = []
        for block, begin in zip(blocks, itertools.accumulate(map(len, blocks), initial=0), strict=False):
            column = targets[:, None] - begin
            self.places.append((column.clamp(0, len(block) - 1), (column >= 0) & (column < len(block))))
        self.exps, tops, sums, right = [], [], [], x.new_zeros(len(x), 1, dtype=torch.float32)
        for block, bias, (column, inside) in zip(blocks, biases, self.places, strict=True):
            logits = functional.linear(x, block).float()
            if bias is not None:
                logits += bias
            right = torch.where(inside, logits.gather(1, column), right)
            tops.append(logits.amax(1, keepdim=True))
            # exp by exp2: on a CPU torch's exp takes several times as long.
            exps = torch.add(tops[-1] * -LOG2_E, logits, alpha=LOG2_E, out=logits).exp2_()
            sums.append(exps.sum(1, keepdim=True))
            self.exps.append(exps.to(block.dtype))
        top = torch.stack(tops).amax(0)
        scales = [(own - top).exp_() for own in tops]
        # At least 1, the greatest logit's own part, which the rounding of exp2's argument may have made a little less.
        total = sum(own * scale for own, scale in zip(sums, scales, strict=True)).clamp_(min=1)
        #: (n, 1) of each block: what its exps are to be multiplied by. Not 0, as the targets' part is divided by it.
        self.scales = [(scale / total).clamp_(min=LEAST_SCALE) for scale in scales]
        #: (n,) ``log Σ exp − logit``: no term of it is negative, so neither is it.
        self.losses = (top - right + total.log())[:, 0]

    def gradients(self, of_words: Sequence[torch.Tensor], of_biases: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """Adds to the gradients of words and bias, blocks of them, in place; returns that of the states, (n, d). Once.

        With the exps E (n, v) of a block and its scales s (n, 1), softmax is s·E. It is never made: ``(s·E)·W = s·(E·W)`` and
        ``(s·E)ᵀ·x = Eᵀ·(s·x)``, where s is multiplied with d numbers a row and not with v."""
        of_states = torch.zeros(self.x.shape, dtype=torch.float32, device=self.x.device)
        for block, exps, scale, (column, inside), of_block, of_bias in zip(
            self.blocks, self.exps, self.scales, self.places, of_words, of_biases, strict=True
        ):
            # Softmax of the target less 1, over the scale: only the difference is rounded.
            difference = exps.gather(1, column) - inside / scale
            exps.scatter_(1, column, difference.to(exps.dtype))
            of_states += scale * (exps @ block)
            of_block += exps.T @ (scale * self.x).to(exps.dtype)
            if of_bias is not None:
                of_bias += exps.T @ scale[:, 0].to(exps.dtype)
        return of_states


def word_loss(
    states: torch.Tensor,
    words: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    at_once: int | None = None,
) -> torch.Tensor:
    """Summed cross-entropy of predicting ``targets`` (m,) from ``states`` (m, d) with output matrix ``words`` (V, d) and
    ``bias`` (V,) or none; a scalar in float32. ``at_once``: logits that are held at a time (default by device).

    >>> h, w = torch.eye(2), torch.eye(2)
    >>> round(float(word_loss(h, w, None, torch.tensor([0, 1]))), 4)  # 2·log(1 + e⁻¹)
    0.6265
    """
    # The function itself always runs without a graph, so whether gradients are wanted is known here alone.
    given = [tensor for tensor in (states, words, bias) if tensor is not None]
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    held = at_once or max(LOGITS_AT_ONCE[states.device.type], ROWS_AT_LEAST * len(words))
    return _WordLoss.apply(states, words, bias, targets, max(1, held // len(words)), wanted)


class MaskedWordHead(nn.Module):
    """Dense, GELU, LayerNorm, then the word embeddings as output matrix, and a bias; (m, d) → (m, V)."""

    def __init__(self, config: BodyConfig, seed: int) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary_size))
        nn.init.normal_(self.transform.weight, std=config.std, generator=seeded(seed, 2))
        nn.init.zeros_(self.transform.bias)

    def states(self, states: torch.Tensor) -> torch.Tensor:
        """What is multiplied with the word embeddings, (m, d)."""
        return self.norm(functional.gelu(self.transform(states)))

    def forward(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Logits (m, V); ``words`` is the (V, d) embedding matrix."""
        return functional.linear(self.states(states), words, self.bias)

    def loss(self, states: torch.Tensor, words: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Summed cross-entropy of ``targets`` (m,); the logits are never held all at once."""
        return word_loss(self.states(states), words, self.bias, targets)
