"""DupMAE's bag-of-words decoder (paper ``dupmae`` §3.2): which words a text has, from the states of all its tokens.

Each state h_i of a text is projected to the vocabulary, and the projections are pooled by their maximum::

    μ_i = W·h_i        (V,)                                             (equation 6)
    μ   = max_i μ_i    (V,), entry by entry                             (equation 7)
    L   = −Σ_{t in the text} w·log( exp μ[t] / Σ_v exp μ[v] )           (equation 8), t distinct, w = 1 in the paper

**Memory.** The (T, V) matrix of all μ_i is as large as the largest thing in pre-training, but only (n, V) of it is
used. So :func:`max_logits` takes a few texts at a time, keeps their maxima and where these stand, and forgets the
rest.

**Backward.** Entry v of a text's μ depends on one state only, the one where the maximum stands. Its gradient is a
sparse matrix with one entry for each text and word, and the two products with it cost V·d a text instead of L·V·d
each: sums of rows of the states by word, and of rows of W by state (``embedding_bag`` is such a sum). Where several
states share the maximum, one of them gets the whole gradient.

**No padding.** A plain implementation adds −1000 to the logits of padding, which is enough until all others are below
that. Here a text that is shorter than its neighbours repeats its last state, which cannot change a maximum.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import seeded
from pretrieve.models.word_head import LOGITS_AT_ONCE, MaskedWordHead


class _MaxLogits(torch.autograd.Function):
    """(V, n): with the vocabulary in front, maxima and the sums of the backward pass run along the last dimension."""

    @staticmethod
    def forward(ctx, states, words, lengths, at_once, wanted):
        size, device = len(words), states.device
        low = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else states.dtype
        matrix, x = words.to(low), states.to(low)
        ends = torch.tensor(lengths).cumsum(0).to(device)
        last_offset = torch.tensor(lengths, device=device) - 1
        starts = ends - last_offset - 1
        best = torch.empty(size, len(lengths), device=device)
        where = torch.empty(size, len(lengths), dtype=torch.int32, device=device) if wanted else None
        with torch.autocast(device.type, enabled=False):
            for first, last in _runs(lengths, at_once // size):
                width = max(lengths[first:last])
                offset = torch.arange(width, device=device)
                # Shorter texts repeat their last state.
                rows = starts[first:last, None] + torch.minimum(offset, last_offset[first:last, None])
                part = x.index_select(0, rows.flatten()).T
                step = max(1, at_once // part.shape[1])
                for begin in range(0, size, step):
                    entries = slice(begin, begin + step)
                    logits = (matrix[entries] @ part).view(-1, last - first, width)
                    # The largest of a rounded type is the same in float32.
                    if not wanted:
                        best[entries, first:last] = logits.amax(2)
                        continue
                    value, place = logits.max(2)
                    best[entries, first:last] = value
                    where[entries, first:last] = starts[first:last] + torch.minimum(place, last_offset[first:last])
        ctx.lengths, ctx.at_once = lengths, at_once
        if wanted:
            ctx.save_for_backward(states, words, where)
        return best

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        states, words, where = ctx.saved_tensors
        size, upstream = len(words), upstream.contiguous()
        with torch.autocast(states.device.type, enabled=False):
            x, matrix = states.float(), words.float()
            word_grad = functional.embedding_bag(where, x, mode="sum", per_sample_weights=upstream)
            state_grads, begin = [], 0
            for first, last in _runs([size] * len(ctx.lengths), ctx.at_once // 64):
                end = begin + sum(ctx.lengths[first:last])
                # The chosen states in order; beside each, its word and its gradient.
                row, order = where[:, first:last].flatten().sort()
                bags = torch.searchsorted(row, torch.arange(begin, end, dtype=row.dtype, device=row.device))
                weights = upstream[:, first:last].flatten()[order]
                taken = order.div_(last - first, rounding_mode="floor")
                state_grads.append(
                    functional.embedding_bag(taken, matrix, bags, mode="sum", per_sample_weights=weights)
                )
                begin = end
        return torch.cat(state_grads).to(states.dtype), word_grad.to(words.dtype), None, None, None


def _runs(sizes: list[int], room: int) -> list[tuple[int, int]]:
    """``(first, last + 1)`` of consecutive items that fit into ``room``, each as large as the largest; or of one."""
    runs, first, largest = [], 0, 0
    for i, size in enumerate(sizes):
        largest = max(largest, size)
        if i > first and largest * (i + 1 - first) > room:
            runs.append((first, i))
            first, largest = i, size
    return [*runs, (first, len(sizes))] if sizes else []


def max_logits(
    states: torch.Tensor, words: torch.Tensor, lengths: list[int], at_once: int | None = None
) -> torch.Tensor:
    """(n, V) float32: for each text and each word the largest of its states' logits, ``max_i W_v·h_i``.

    states (m, d): those of the first text, then of the second, …; lengths: how many each of the n texts has, at least
    one; words (V, d): W; at_once: logits that are held at a time (default by device).

    Raises ValueError when a text has no state, or the lengths do not add up to m.

    >>> states = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> max_logits(states, torch.eye(2), [2, 1]).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    if min(lengths, default=1) < 1 or sum(lengths) != len(states):
        raise ValueError(
            f"lengths from {min(lengths, default=0)}, {sum(lengths)} in all; "
            f"expected at least 1 each, {len(states)} in all"
        )
    # The function itself always runs without a graph, so whether gradients are wanted is known here alone.
    wanted = torch.is_grad_enabled() and (states.requires_grad or words.requires_grad)
    return _MaxLogits.apply(states, words, lengths, at_once or LOGITS_AT_ONCE[states.device.type], wanted).T


def bag_of_words_loss(
    logits: torch.Tensor, owners: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """``Σ_s w_s · Σ_{t in the bag of s} −log softmax(logits_s)_t``, a scalar in float32.

    logits (n, V); owners, tokens (u,) int64: text and word of each entry of the bags, each pair once; weights (n,).

    >>> logits = torch.zeros(2, 4)
    >>> loss = bag_of_words_loss(logits, torch.tensor([0, 0, 1]), torch.tensor([1, 2, 3]), torch.tensor([0.5, 1.0]))
    >>> round(float(loss), 4)  # (0.5·2 + 1)·ln 4
    2.7726
    """
    logits = logits.float()
    surprise = logits.logsumexp(1).index_select(0, owners) - logits[owners, tokens]
    return (weights.index_select(0, owners) * surprise).sum()


class BagOfWordsProjection(nn.Module):
    """W of equation 6 as a matrix of its own: "a linear projection unit (i.e., a matrix)", so without a bias.

    weight (V, d) begins with the deviation of the word embeddings, which are the output matrix everywhere else.
    """

    def __init__(self, config: BodyConfig, seed: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.vocabulary_size, config.hidden))
        nn.init.normal_(self.weight, std=config.word_std, generator=seeded(seed, 8))


def pooled_words(
    head: MaskedWordHead | BagOfWordsProjection, states: torch.Tensor, words: torch.Tensor, lengths: list[int]
) -> torch.Tensor:
    """μ of equation 7, (n, V) float32, by the word head of the MLM, whose output matrix is ``words`` (V, d), or by W; states
    (m, d) and lengths as in :func:`max_logits`."""
    if isinstance(head, BagOfWordsProjection):
        return max_logits(states, head.weight, lengths)
    # The bias is the same for all states of a word, so it can be added after the maximum.
    return max_logits(head.states(states), words, lengths) + head.bias
