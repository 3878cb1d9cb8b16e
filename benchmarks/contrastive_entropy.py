"""Does contrastive entropy tell systems and seeds apart where MRR@10 cannot? From a finished run.

For each data set with both metrics: all pairs of systems of one recipe and training-set size (objectives), and all pairs of seeds
of one system. A pair is told apart when the paired difference over queries is more than 1.96 standard errors from 0.

    PYTHONPATH=src python benchmarks/contrastive_entropy.py --root results/demo
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np

from pretrieve.base.paths import parse_system
from pretrieve.evaluation.entropy_file import METRIC

OTHER = "mrr@10"


def scores(root: Path) -> dict[tuple[str, str, str], dict[str, dict[str, float]]]:
    """(data set, system, seed) → metric → query → value, of runs that have both metrics."""
    found = {}
    for path in sorted((root / "metrics").glob("*/*/seed*.json")):
        values = json.loads(path.read_text(encoding="utf-8")).get("per_query", {})
        if METRIC in values and OTHER in values:
            found[path.parent.name, path.parent.parent.name, path.stem] = {
                name: values[name] for name in (METRIC, OTHER)
            }
    return found


def apart(a: dict[str, float], b: dict[str, float]) -> bool:
    queries = sorted(a.keys() & b.keys())
    difference = np.array([a[query] - b[query] for query in queries])
    error = difference.std(ddof=1) / len(queries) ** 0.5
    return bool(abs(difference.mean()) > 1.96 * error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("results/demo"))
    found = scores(parser.parse_args().root)
    pairs: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for one, other in combinations(found, 2):
        (data, a, seed_a), (other_data, b, seed_b) = one, other
        first, second = parse_system(a), parse_system(b)
        same = (first.recipe, first.size) == (second.recipe, second.size)
        kind = "objectives" if a != b and seed_a == seed_b and same else "seeds" if a == b else ""
        if data == other_data and kind:
            pairs[kind, data].append(tuple(apart(found[one][name], found[other][name]) for name in (OTHER, METRIC)))
    print(
        f"| Pairs of | data set | pairs | apart by {OTHER} | by {METRIC} | by the second alone | by the first alone |"
    )
    print("|:--|:--|--:|--:|--:|--:|--:|")
    for (kind, data), told in sorted(pairs.items()):
        first, second = (sum(one[i] for one in told) for i in (0, 1))
        gained, lost = sum(b and not a for a, b in told), sum(a and not b for a, b in told)
        print(f"| {kind} | {data} | {len(told)} | {first} | {second} | {gained} | {lost} |")


if __name__ == "__main__":
    main()
