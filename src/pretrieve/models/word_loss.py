"""Cross-entropy of a linear layer over the vocabulary, without ever holding its (m, V) logits.

For states h_i, output matrix W, bias b and targets t_i: ``L = Σ_i (log Σ_v exp(W_v·h_i + b_v) − W_{t_i}·h_i − b_{t_i})``.
The gradient of the logits is ``softmax − onehot``, known as soon as the logits are; so rows are taken a few at a time, their
part of the gradients is added up in the forward pass, and their logits are forgotten. Memory is that of a few rows instead of
all; on a CPU the rows stay in its cache, which makes it 0.9 to 1.1 (V = 8,192) and 1.2 to 1.4 times (V = 30,522) as fast as
logits for all, by CPU (``benchmarks/c2_steps.py``).
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

#: Logits that are held at once: what a CPU's cache holds, or what fills a GPU.
LOGITS_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 27}
#: But never fewer rows than this: each time, W is read anew. With 34 rows of 30,522 words it takes a third longer.
ROWS_AT_LEAST = 128
#: Words whose gradient is added at once where products are bf16: what a CPU's cache holds, or all on a GPU.
WORDS_AT_ONCE = {"cpu": 2048, "cuda": 1 << 30}


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, words, bias, targets, at_once, wanted):
        parts = max(1, -(-len(states) * len(words) // at_once))
        rows = max(1, -(-len(states) // parts))  # parts of nearly the same size
        state_grad = torch.empty_like(states) if wanted else None
        word_grad = torch.zeros_like(words) if wanted else None
        bias_grad = torch.zeros_like(bias) if wanted and bias is not None else None
        words_at_once = WORDS_AT_ONCE[states.device.type]
        low = torch.get_autocast_dtype(states.device.type) if torch.is_autocast_enabled(states.device.type) else None
        matrix = words if low is None else words.to(low)
        total = torch.zeros(
            (), dtype=torch.float64 if states.device.type == "cpu" else torch.float32, device=states.device
        )
        with torch.autocast(states.device.type, enabled=False):
            for first in range(0, len(states), rows):
                x, target = states[first : first + rows].to(matrix.dtype), targets[first : first + rows, None]
                logits = functional.linear(x, matrix).float()
                if bias is not None:
                    logits += bias
                top, right = logits.amax(1), logits.gather(1, target)[:, 0]
                share = torch.softmax(logits, dim=-1)
                # log Σ exp = max − log softmax(max), and the largest share is never near 0.
                total += (top - share.amax(1).log() - right).sum()
                if not wanted:
                    continue
                share.scatter_add_(1, target, share.new_full((), -1.0).expand(target.shape))
                if bias_grad is not None:
                    bias_grad += share.sum(0)
                share = share.to(matrix.dtype)
                state_grad[first : first + rows] = share @ matrix
                if low is None:
                    word_grad.addmm_(share.T, x)
                else:
                    # Some words at a time: the sum of two types makes a copy, which for all words is fresh memory each time.
                    for part, grad in zip(share.T.split(words_at_once), word_grad.split(words_at_once), strict=True):
                        grad += part @ x
        ctx.save_for_backward(state_grad, word_grad, bias_grad)
        return total.to(torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        # In place, for words is the largest gradient there is. torch refuses a second backward pass after that.
        states, words, bias = (None if grad is None else grad.mul_(upstream) for grad in ctx.saved_tensors)
        return states, words, bias, None, None, None


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
    at_once = at_once or max(LOGITS_AT_ONCE[states.device.type], ROWS_AT_LEAST * len(words))
    return _WordLoss.apply(states, words, bias, targets, at_once, wanted)
