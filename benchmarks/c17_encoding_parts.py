"""C17: where the time of encoding goes: products, attention, word lookups, norms, and what is only moved.

The passages and bodies of C14, encoded as the project does, on one thread. ``torch.profiler`` gives the time of each operation
without those that it calls; a kind is a list of operations (:data:`KINDS`), ``rest`` is what belongs to none: Python, laying out
batches, operations that are not listed. The median of the rounds, in fp32 and, where the CPU multiplies it, bf16.

Beside it, by counting: ``padding``, tokens of padded batches of 16 by real ones, with texts sorted by length and as they come;
``last layer``, the share of all products of linear layers that ours omits there, where it computes [CLS] alone.

``torch's products by ours``: CPU time of the same encoding with torch's linear layers by that with oneDNN's, as
``models/linear.py`` has them. The two alternate; the median of the rounds. On a CPU with AMX the result is
``c17_encoding_parts_amx.json``, and ``written out by fused attention`` is the time with attention as in training by that with
torch's, as ``models/tiles.py`` has it there.

    PYTHONPATH=src python benchmarks/c17_encoding_parts.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import statistics
import sys
import time
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from c14_engines import BODIES, encode_all, make, padded, passages
from torch.profiler import ProfilerActivity, profile

from pretrieve.models import linear, tiles
from pretrieve.training.device import choose_device, cpu_multiplies_bf16

BATCH = 16
#: Kind → operations of torch, by their names behind ``aten::``.
KINDS = {
    "products": ("addmm", "mm", "mkldnn::_linear_pointwise"),
    "attention": ("bmm", "baddbmm", "_softmax", "_scaled_dot_product_flash_attention_for_cpu"),
    "word lookups": ("embedding", "index_select"),
    "norms and activations": ("native_layer_norm", "gelu"),
    "sums and copies": ("add", "add_", "mul", "copy_", "cat", "index_copy", "index_copy_"),
}


def gain(encoder: torch.nn.Module, texts: list[np.ndarray], low: bool, rounds: int, without: Any) -> float:
    """CPU time under the patch ``without`` by that as it is."""
    ratios = []
    for _ in range(rounds):
        seconds = []
        for context in (without, nullcontext()):
            begun = time.process_time()
            with context:
                encode_all(encoder, texts, low)
            seconds.append(time.process_time() - begun)
        ratios.append(seconds[0] / seconds[1])
    return round(statistics.median(ratios), 2)


def parts_of(encoder: torch.nn.Module, texts: list[np.ndarray], low: bool) -> dict[str, float]:
    """Kind → share of one encoding's time."""
    begun = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        encode_all(encoder, texts, low)
    whole = time.perf_counter() - begun
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    found = dict.fromkeys(KINDS, 0.0)
    for event in profiler.key_averages():
        kind = kind_of.get(event.key.removeprefix("aten::"))
        if kind:
            found[kind] += event.self_cpu_time_total / 1e6 / whole
    return found | {"rest": 1 - sum(found.values())}


def counted(texts: list[np.ndarray], layers: int) -> dict[str, float]:
    """What needs no clock."""
    tokens = sum(map(len, texts))
    as_they_come = sum(
        len(batch) * max(map(len, batch)) for batch in (texts[i : i + BATCH] for i in range(0, len(texts), BATCH))
    )
    sorted_tokens = sum(ids.size for _, ids, _ in padded(texts, BATCH))
    # A layer multiplies 24 d² numbers a token; the last one 4 d², and 20 d² for [CLS].
    omitted = 20 * (tokens - len(texts)) / (24 * layers * tokens)
    return {
        "padding, sorted": round(sorted_tokens / tokens, 3),
        "padding, as they come": round(as_they_come / tokens, 3),
        "last layer": round(omitted, 3),
    }


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    choose_device("fp32", 1)
    amx = "amx_bf16" in common.machine()["features"]
    results: dict[str, dict[str, dict[str, float]]] = {}
    for body, (layers, hidden, heads, number) in BODIES.items():
        texts, vocabulary = passages(number)
        encoder, *_ = make(layers, hidden, heads, vocabulary)
        results[body] = {"counted": counted(texts, layers)}
        for low in sorted({False, cpu_multiplies_bf16()}):
            parts_of(encoder, texts[:BATCH], low)
            rounds = [parts_of(encoder, texts[i :: args.rounds], low) for i in range(args.rounds)]
            medians = {kind: round(statistics.median(one[kind] for one in rounds), 3) for kind in rounds[0]}
            common.table(f"C17: {body}{common.BF16 * low}", ["part", "of the time"], [list(p) for p in medians.items()])
            others = {"torch's products by ours": patch.object(linear, "ROWS", sys.maxsize)}
            if amx and low:
                others["written out by fused attention"] = patch.object(tiles, "encoding", lambda: False)
            ratio = {name: gain(encoder, texts, low, args.rounds, without) for name, without in others.items()}
            common.table(f"C17: {body}{common.BF16 * low}", ["what", "ratio"], [list(p) for p in ratio.items()])
            results[body]["bf16" if low else "fp32"] = medians | ratio
        common.table(f"C17: {body}, counted", ["what", "ratio"], [list(p) for p in results[body]["counted"].items()])
    common.write(f"c17_encoding_parts{'_amx' * amx}", args, ("torch", "numpy"), results=results)


if __name__ == "__main__":
    main()
