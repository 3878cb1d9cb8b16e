"""Attention with its gradients: torch's ``scaled_dot_product_attention`` in fp32 and bf16, against
:func:`pretrieve.models.dropout.attend` in bf16, which on a CPU computes it in fp32 (small ones) or writes it out (large ones).

4 heads of 64, no mask; query, key and value are views of one matrix, as a layer has them, and the gradient is that of this
matrix. Sizes are of one shape, measured again and again; ``packed`` is what a packed batch of 32 passages with the lengths of
web passages has: a call for each length, and in every round other lengths. ``written out`` is ours without the other way.
``training`` is forward and backward without dropout (fine-tuning of encoders without it, the gradient cache), ``dropout`` the
same with 0.1, ``forward`` is what an encoder computes without a graph. First, equality: the result and the gradient of each are
those of float64 on the same bf16 numbers, to 2 % of the largest entry.

    PYTHONPATH=src python benchmarks/attention.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

from collections.abc import Callable

import numpy as np
import steps
import torch
from torch.nn import functional

from pretrieve.models import dropout as module
from pretrieve.models.dropout import attend
from pretrieve.models.transformer import seeded
from pretrieve.training.device import choose_device, cpu_multiplies_bf16

#: (sequences, tokens of each): short queries, web passages, full passages, long ones.
SIZES = ((64, 16), (32, 72), (32, 128), (8, 512))
HEADS, WIDTH, DROPOUT = 4, 64, 0.1
#: What a variant computes in a round, at least.
TOKENS = 16_384
#: Sequences and tokens of each: (n, L) one after the other.
Shapes = list[tuple[int, int]]


def theirs(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, p: float) -> torch.Tensor:
    """torch's own."""
    return functional.scaled_dot_product_attention(query, key, value, dropout_p=p)


def ours(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, p: float) -> torch.Tensor:
    """The project's."""
    return attend(query, key, value, None, p)


def written_out(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, p: float) -> torch.Tensor:
    """The project's, as for large ones."""
    before, module.SCORES_IN_BF16 = module.SCORES_IN_BF16, 0
    try:
        return attend(query, key, value, None, p)
    finally:
        module.SCORES_IN_BF16 = before


#: name → function, type.
VARIANTS: dict[str, tuple[Callable[..., torch.Tensor], torch.dtype]] = {
    "ours bf16": (ours, torch.bfloat16),
    "written out bf16": (written_out, torch.bfloat16),
    "torch bf16": (theirs, torch.bfloat16),
    "torch fp32": (theirs, torch.float32),
}
#: name → dropout, whether there is a backward pass.
CASES = {"training": (0.0, True), "dropout": (DROPOUT, True), "forward": (0.0, False)}


def layer(
    function: Callable[..., torch.Tensor], joint: torch.Tensor, upstream: torch.Tensor | None, shapes: Shapes, p: float
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """(tokens, 3·heads·width) → (tokens, heads·width), as in :class:`pretrieve.models.transformer.Attention`; with ``upstream``,
    its gradient too."""
    mixed = []
    for (n, length), part in zip(shapes, joint.split([n * length for n, length in shapes]), strict=True):
        streams = part.view(n, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4).unbind(0)
        mixed.append(function(*streams, p).transpose(1, 2).reshape(len(part), -1))
    result = torch.cat(mixed)
    return result, [] if upstream is None else [*torch.autograd.grad(result, joint, upstream)]


def check(joint: torch.Tensor, upstream: torch.Tensor, shapes: Shapes) -> dict[str, float]:
    """Largest difference of result or gradient from float64, over the largest entry."""

    def values(function: Callable[..., torch.Tensor], kind: torch.dtype) -> list[torch.Tensor]:
        result, gradient = layer(function, joint.to(kind).requires_grad_(), upstream.to(kind), shapes, 0.0)
        return [tensor.detach().double() for tensor in (result, *gradient)]

    exact, found = values(theirs, torch.float64), {}
    for name, (function, kind) in VARIANTS.items():
        pairs = zip(values(function, kind), exact, strict=True)
        found[name] = max(float((low - right).abs().max() / right.abs().max()) for low, right in pairs)
        if not found[name] <= 0.02:
            raise SystemExit(f"{name} differs from float64 by {found[name]:.1e} of the largest entry; at most 0.02.")
    return found


def run(title: str, rounds: list[Shapes]) -> dict:
    """Check, measure and print one size."""
    generator, rows = seeded(1), max(sum(n * length for n, length in shapes) for shapes in rounds)
    joint = torch.randn(rows, 3 * HEADS * WIDTH, generator=generator).to(torch.bfloat16)
    upstream = torch.randn(rows, HEADS * WIDTH, generator=generator).to(torch.bfloat16)
    # What has other shapes each time is measured once a round, as its shapes would be known the second time.
    calls, results = -(-TOKENS // rows) if rounds[0] == rounds[-1] else 1, {}
    size = sum(n * length for n, length in rounds[0])
    differences = check(joint[:size], upstream[:size], rounds[0])

    def variant(function: Callable[..., torch.Tensor], kind: torch.dtype, p: float, backward: bool) -> Callable:
        given, wanted = joint.to(kind), upstream.to(kind)

        def call(index: int) -> None:
            size = sum(n * length for n, length in rounds[index])
            part = given[:size].detach().requires_grad_(backward)
            with torch.set_grad_enabled(backward):
                for _ in range(calls):
                    layer(function, part, wanted[:size] if backward else None, rounds[index], p)

        return call

    for case, (p, backward) in CASES.items():
        variants = {name: variant(*two, p, backward) for name, two in VARIANTS.items()}
        times = common.interleave(variants, len(rounds), warm_up=calls > 1)
        results[case] = {
            "ms": {name: round(1000 * value / calls, 4) for name, value in common.medians(times).items()},
            "ratio": common.ratios(times, "ours bf16"),
        }
    common.table(
        f"{title}, {HEADS} heads of {WIDTH}",
        ["variant", *(f"{case}, ms" for case in CASES), *(f"{case}: ours is faster by" for case in CASES)],
        [
            [name, *(r["ms"][name] for r in results.values())]
            + [common.middle(r["ratio"], name) for r in results.values()]
            for name in VARIANTS
        ],
    )
    return {"difference": differences, **results}


def packed(rng: np.random.Generator) -> Shapes:
    """The shapes of a packed batch."""
    lengths, counts = np.unique(steps.web_lengths(steps.BATCH, rng), return_counts=True)
    return [(int(n), int(length)) for n, length in zip(counts, lengths, strict=True)]


def main() -> None:
    args = common.arguments(__doc__, rounds=9)
    choose_device("fp32", 1)
    results = {
        f"{n} x {length}": run(f"{n} sequences of {length} tokens", [[(n, length)]] * args.rounds)
        for n, length in SIZES
    }
    rng = np.random.default_rng(steps.SEED)
    results["packed"] = run("a packed batch of 32 passages", [packed(rng) for _ in range(args.rounds)])
    common.write("attention", args, ("torch",), multiplies_bf16=cpu_multiplies_bf16(), results=results)


if __name__ == "__main__":
    main()
