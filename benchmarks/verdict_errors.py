"""How often are equal systems decided, and how often is a known gap found? The error rates in docs/verdicts.md.

Scores are simulated as retrieval scores are: a query is easy or hard for all systems, a seed moves all queries of a system,
and a seed moves each query on its own. Hits are 0 or 1. Run: python benchmarks/verdict_errors.py [--rounds 2000]
"""

from __future__ import annotations

import argparse

import numpy as np

from pretrieve.evaluation.significance import crossed_estimate

#: Name → (seeds of a, seeds of b; queries; standard deviation of a seed's level; is the base shared?)
CASES = {
    "1 seed, 200 queries, seeds alike": (1, 1, 200, 0.0, False),
    "2 seeds, 200 queries": (2, 2, 200, 0.3, False),
    "3 seeds, 200 queries": (3, 3, 200, 0.3, False),
    "3 seeds, 200 queries, large noise of seeds": (3, 3, 200, 1.0, False),
    "3 seeds, 200 queries, one base": (3, 3, 200, 0.3, True),
    "3 seeds, 1000 queries, one base": (3, 3, 1000, 0.3, True),
    "5 seeds, 200 queries": (5, 5, 200, 0.3, False),
    "3 seeds against BM25": (3, 1, 200, 0.3, False),
    "3 seeds, 200 queries, 5 % hits": (3, 3, -200, 0.3, False),
}


def simulate(rng: np.random.Generator, case: tuple[int, int, int, float, bool], gap: float) -> list[np.ndarray]:
    """Scores (S, n) of two systems whose expected hits differ by ``gap`` on the logistic scale."""
    first, second, n, noise, shared = case
    level, n = (-3.0, -n) if n < 0 else (0.0, n)
    easy = rng.normal(level, 1.5, n)
    base = rng.normal(0, noise, (max(first, second), 1))
    scores = []
    for seeds, shift in ((first, gap), (second, 0.0)):
        trained = max(first, second) == seeds  # BM25 has no seeds
        moved = (0.7 * base[:seeds] if shared else 0) + rng.normal(
            0, noise * (0.7 if shared else 1), (seeds, 1)
        ) * trained
        own = rng.normal(0, 0.7, n) + rng.normal(0, 0.5, (seeds, n))
        scores.append((rng.random((seeds, n)) < 1 / (1 + np.exp(-easy - own - moved - shift))).astype(float))
    return scores


def decided(case: tuple[int, int, int, float, bool], gap: float, rounds: int, seed: int = 0) -> tuple[float, float]:
    """Shares of rounds in which the first is found (ahead, behind) at the two-sided level 0.05."""
    rng, bases = np.random.default_rng(seed), ("base", "base" if case[4] else "other")
    found = [crossed_estimate(simulate(rng, case, gap), (1, -1), bases) for _ in range(rounds)]
    ps = np.array([(estimate.p_above(0), estimate.p_below(0)) for estimate in found])
    return tuple((ps < 0.025).mean(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    rounds = parser.parse_args().rounds
    print("| Systems | equal, decided | gap of about 10 points, found | of 20 points |\n|:--|--:|--:|--:|")
    for name, case in CASES.items():
        equal = sum(decided(case, 0.0, rounds))
        power = [decided(case, gap, rounds)[0] for gap in (0.65, 1.3)]
        print(f"| {name} | {equal:.1%} | " + " | ".join(f"{share:.0%}" for share in power) + " |")


if __name__ == "__main__":
    main()
