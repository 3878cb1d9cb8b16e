"""C18: documents encoded with products of int8 beside fp32: time, and what it costs in nDCG@10.

The published all-MiniLM-L6-v2 (:mod:`published_encoder`) encodes the documents of data sets in BEIR's layout, with at most 256
tokens, as ``pretrieve index --precision int8`` does; queries are in fp32. Blocks of 512 documents are encoded in turn by fp32,
int8 and, where the CPU multiplies it, bf16: one thread, CPU time, ratios of each block. The loss is the mean difference over the
test queries, with an interval that covers other queries (bootstrap, 95 %).

    PYTHONPATH=src python benchmarks/c18_int8.py --data MIRROR/scifact MIRROR/msmarco_mini_dl19
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from published_encoder import METRIC, installed_model, read_beir

import pretrieve
from pretrieve.training.device import choose_device, cpu_multiplies_bf16

BLOCK, DRAWS = 512, 10_000


def retrievers(model: Path) -> dict[str, pretrieve.Retriever]:
    """One for each precision."""
    plain = pretrieve.load(model)
    found = {"fp32": plain, "int8": pretrieve.load(model, int8=True)}
    return found | ({"bf16": replace(plain, device=choose_device("bf16"))} if cpu_multiplies_bf16() else {})


def measure(data: Path, model: Path) -> dict:
    """Losses and ratios of one data set."""
    documents, queries, qrels = read_beir(data)
    by = retrievers(model)
    texts = list(documents.values())
    blocks = [texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK)]
    vectors: dict[str, list[np.ndarray]] = {name: [] for name in by}

    def encoding(name: str) -> Callable[[int], None]:
        return lambda number: vectors[name].append(by[name].encode_passages(blocks[number]))

    times = common.interleave({name: encoding(name) for name in by}, len(blocks), warm_up=False)
    asked = by["fp32"].encode_queries(list(queries.values()))
    scores = {}
    for name, parts in vectors.items():
        run = pretrieve.search(asked, np.concatenate(parts), list(documents), query_ids=list(queries))
        scores[name] = np.array(list(pretrieve.evaluate(run, qrels, [METRIC]).per_query[METRIC].values()))
    return {
        "documents": len(documents),
        "queries": len(queries),
        METRIC: {name: round(float(np.mean(values)), 4) for name, values in scores.items()},
        "loss": {name: loss(scores["fp32"], values) for name, values in scores.items() if name != "fp32"},
        "int8_faster_by": common.ratios(times, "int8"),
    }


def loss(exact: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Mean difference of the queries' scores and its interval."""
    difference = exact - other
    drawn = np.random.default_rng(0).integers(0, len(difference), (DRAWS, len(difference)))
    low, high = np.percentile(difference[drawn].mean(1), [2.5, 97.5])
    return {name: round(float(value), 4) for name, value in (("mean", difference.mean()), ("low", low), ("high", high))}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="folders in BEIR's layout")
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    choose_device("fp32", 1)
    results = {data.name: measure(data, options.model or installed_model()) for data in options.data}
    for name, found in results.items():
        rows = [
            [precision, value, *(found["loss"].get(precision, {}).values() or [""] * 3)]
            for precision, value in found[METRIC].items()
        ]
        common.table(f"C18: {name}, {METRIC}", ["precision", "score", "loss", "low", "high"], rows)
        print(f"  int8 is faster by: {found['int8_faster_by']}")
    common.write("c18_int8", options, ("torch", "numpy"), results=results)


if __name__ == "__main__":
    main()
