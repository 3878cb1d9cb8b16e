"""Is system A better than B, or by chance? Fisher's paired randomisation test on queries with Holm's correction (the marks of
tables), and the error of a comparison over seeds and queries with the false-discovery rate (the verdicts on claims).

Under the null hypothesis the two scores of a query could be swapped, so each difference a - b carries a random sign.
The p-value is the share of sign patterns whose absolute mean difference is at least the observed one.

References: Smucker, Allan & Carterette, *A comparison of statistical significance tests for information retrieval
evaluation*, CIKM 2007; Phipson & Smyth 2010 for (count + 1) / (rounds + 1); Hartigan, *Using subsample values as typical
values*, JASA 1969, for the interval; Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from pretrieve.base.errors import DataError

#: Up to this many non-zero differences, all 2**n sign patterns are enumerated and the p-value is exact.
EXACT_LIMIT = 12

#: The smallest p-value that an :class:`Estimate` tells: one that is smaller is this.
SMALLEST = 2.0**-41

#: Signs drawn at a time: bounds memory at 4 bytes each.
_BLOCK = 1 << 22


class Paired(NamedTuple):
    """``p``, two-sided, and the 95 % interval of the mean difference, which excludes 0 exactly where p < 0.05; infinite of fewer
    than six pairs, which show nothing at this level."""

    p: float
    low: float
    high: float


def paired_randomisation_test(a: Sequence[float], b: Sequence[float], rounds: int = 10_000, seed: int = 0) -> Paired:
    """The test of the mean of a - b, (n,) paired scores in the same query order.

    Exact when at most :data:`EXACT_LIMIT` differences are not zero (zero ones change nothing under any sign);
    otherwise estimated as (count + 1) / (rounds + 1) from ``rounds`` random sign patterns, equal for equal seeds.

    The interval has every d for which the same test of a - b - d finds p >= 0.05: its bounds are quantiles of the mean
    differences of random subsets of pairs, those with a minus and those with a plus.

    Raises DataError when lengths differ, there is no pair, or a score is not finite.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise DataError(f"paired test: scores of shapes {a.shape} and {b.shape}, expected (n,) twice with n >= 1.")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise DataError("paired test: a score is not finite, expected numbers; evaluate both runs again.")
    differences = a - b
    differences = differences[differences != 0]
    n, rng = len(differences), np.random.default_rng(seed)
    exact = n <= EXACT_LIMIT
    sums, sizes = _all_subsets(differences, rounds) if exact else _random_subsets(differences, rounds, rng)
    drawn, more = len(sums), 0 if exact else 1
    # Patterns that are equal on paper may differ in the last bits; as many as the observed one must count.
    slack = 1e-12 * np.abs(differences).sum()
    total = differences.sum()
    count = int((np.abs(2 * sums - total) >= abs(total) - slack).sum())
    # Zero differences have a sign, too, and count in the size of a subset.
    sizes = sizes + rng.binomial(len(a) - n, 0.5, drawn)
    sums, sizes = np.concatenate([sums, total - sums]), np.concatenate([sizes, len(a) - sizes])
    sums[np.abs(sums) <= slack] = 0.0
    beyond = math.ceil(0.05 * (drawn + more)) - 1 - more  # the largest count with p < 0.05
    low, high = -math.inf, math.inf
    if beyond >= 0:
        means = np.divide(sums, sizes, out=np.full(2 * drawn, math.inf), where=sizes > 0)
        high = np.partition(means, -1 - beyond)[-1 - beyond]
        low = np.partition(np.where(sizes > 0, means, -math.inf), beyond)[beyond]
    return Paired((count + more) / (drawn + more), float(low), float(high))


def _all_subsets(differences: np.ndarray, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """(sum, size) of every subset of the (n,) differences, all as often as makes ``rounds`` or more."""
    bits = (np.arange(1 << len(differences))[:, None] >> np.arange(len(differences))) & 1
    often = -(-rounds >> len(differences))
    return np.tile(bits @ differences, often), np.tile(bits.sum(1), often)


def _random_subsets(differences: np.ndarray, rounds: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(sum, size) of as many random subsets of the (n,) differences, each with half of them on average."""
    n = len(differences)
    block, row_bytes = max(1, _BLOCK // n), (n + 7) // 8
    sums, sizes = np.empty(rounds), np.empty(rounds, dtype=np.int64)
    for start in range(0, rounds, block):
        size = min(block, rounds - start)
        packed = np.frombuffer(rng.bytes(size * row_bytes), np.uint8).reshape(size, row_bytes)
        bits = np.unpackbits(packed, axis=1, count=n)
        sums[start : start + size], sizes[start : start + size] = bits.astype(np.float64) @ differences, bits.sum(1)
    return sums, sizes


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the order given: each may be compared with the level of the whole family.

    The i-th smallest of m is multiplied by m - i (i from 0), made non-decreasing, and capped at 1.

    Raises DataError when a value is outside 0..1.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError(f"Holm correction: p-values {list(p_values)}, expected numbers in 0..1.")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted.tolist()


@dataclass(frozen=True)
class Estimate:
    """An effect and the parts of its error: (variance, degrees of freedom) of each. ``n``: values behind it.

    The critical value is Cochran & Cox's, √(Σ t²·variance / Σ variance) with each part's own Student t: unlike
    Satterthwaite's degrees of freedom it stays valid where two or three seeds happen to lie close together.
    """

    effect: float
    parts: tuple[tuple[float, float], ...]
    n: int = 1

    def p_above(self, bound: float) -> float:
        """One-sided p of 'the effect is at most ``bound``': small when it is above."""
        distance = self.effect - bound
        if not any(variance for variance, _ in self.parts):
            # All values are equal: the probability that this many lie on one side of 0 by chance. How far they would lie from
            # another bound is not known.
            return max(0.5**self.n, SMALLEST) if distance > 1e-12 and not bound else 1.0
        low, high = 0.0, 0.5  # of the tail whose critical value is the distance
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self._half_width(middle) < abs(distance) else (middle, high)
        return high if distance > 0 else 1 - high

    def p_below(self, bound: float) -> float:
        return Estimate(-self.effect, self.parts, self.n).p_above(-bound)

    def interval(self, tail: float = 0.025) -> tuple[float, float]:
        """Bounds that leave ``tail`` on each side; infinite where all values are equal, and too few to show anything."""
        half = self._half_width(tail) or (math.inf if 0.5**self.n > tail else 0.0)
        return self.effect - half, self.effect + half

    def _half_width(self, tail: float) -> float:
        # stdtrit: Student's quantile without the cost of scipy.stats, for it is asked for many times
        return math.sqrt(sum(variance * scipy.special.stdtrit(df, 1 - tail) ** 2 for variance, df in self.parts))


def crossed_estimate(scores: Sequence[np.ndarray], weights: Sequence[float], bases: Sequence[str]) -> Estimate:
    """Σ weight · mean score of some systems, with the error that other seeds and other queries would give it.

    The error is that of the multi-bootstrap (Sellam et al., *The MultiBERTs*, ICLR 2022, §4), which resamples seeds and
    queries together, in closed form: variance between seeds + between queries − their interaction, which both contain (the
    two-way analysis of variance). A bootstrap of two or three seeds is too narrow by (S − 1)/S and has no t tails. Here each
    part has its own degrees of freedom: S − 1 of the seeds, 2n/(kurtosis − 1) of the queries, as few queries with a
    difference say little about its spread.

    scores: (S, n) for each system: score of every seed on the same n queries. With S = 1 there is no part of seeds.
    bases: for each system, what its seeds start from. Systems of one base and one S are paired by seed, others are
    independent.

    Raises DataError when the arrays have different queries, or none.
    """
    if len({block.shape[1] for block in scores}) != 1 or not scores[0].size:
        raise DataError(f"scores of shapes {[block.shape for block in scores]}; expected (seeds, n) with one n >= 1.")
    n = scores[0].shape[1]
    by_query = np.sum([w * block.mean(0) for w, block in zip(weights, scores, strict=True)], axis=0)
    parts = [query_variance(by_query)]
    interaction = 0.0
    for block in _paired(scores, weights, bases):
        seeds = len(block)
        parts.append((block.mean(1).var(ddof=1) / seeds, seeds - 1))
        rest = block - block.mean(1, keepdims=True) - block.mean(0) + block.mean()
        interaction += float((rest**2).sum()) / max(1, (seeds - 1) * (n - 1)) / (seeds * n)
    # What both parts contain counts once; but neither part alone may count for more than the whole.
    total = sum(variance for variance, _ in parts)
    left = max(total - interaction, *(variance for variance, _ in parts)) / total if total else 1.0
    return Estimate(float(by_query.mean()), tuple((variance * left, df) for variance, df in parts), n)


def independent_estimate(
    numbers: Sequence[float], weights: Sequence[float], spreads: Sequence[Sequence[tuple[float, float]]]
) -> Estimate:
    """Σ weight · number of values of which only the parts (variance, degrees of freedom) are known, as if independent."""
    effect = sum(w * number for w, number in zip(weights, numbers, strict=True))
    weighted = zip(weights, spreads, strict=True)
    return Estimate(effect, tuple((w * w * variance, df) for w, parts in weighted for variance, df in parts))


def crossed_draws(scores: Sequence[np.ndarray], bases: Sequence[str], rounds: int = 2000) -> np.ndarray:
    """(rounds, systems) means under resampled queries and seeds, for what is not a weighted sum, such as a rank correlation.

    Queries are drawn with replacement, the same for all systems; a base's seed deviations get one random t weight each,
    so that two or three seeds are no narrower than they should be. Equal from call to call.
    """
    rng, n = np.random.default_rng(0), scores[0].shape[1]
    means = np.stack([block.mean(0) for block in scores])  # (systems, n)
    draws = rng.multinomial(n, np.full(n, 1 / n), size=rounds) @ means.T / n
    for key in dict.fromkeys((base, len(block)) for base, block in zip(bases, scores, strict=True)):
        mine = [i for i, block in enumerate(scores) if (bases[i], len(block)) == key]
        seeds = key[1]
        if seeds > 1:
            off = np.stack([scores[i].mean(1) - scores[i].mean() for i in mine])  # (systems of the base, S)
            normal = rng.standard_normal((rounds, seeds)) / np.sqrt(seeds * (seeds - 1))
            wide = np.sqrt((seeds - 1) / rng.chisquare(seeds - 1, (rounds, 1)))
            draws[:, mine] += (normal * wide) @ off.T
    return draws


def simultaneous_tail(differences: np.ndarray, level: float = 0.05) -> float:
    """The tail on each side with which the intervals of m differences hold all at once, with probability 1 − ``level``.

    differences: (rounds, m) draws of :func:`crossed_draws`, each system's less the one's it is compared with. The largest of m
    studentised differences decides (the single-step max-T of Westfall and Young 1993). Rows that rise and fall together count for
    fewer than m; the tail is never below Bonferroni's.
    """
    off = differences - differences.mean(0)
    spread = off.std(0)
    moving = spread > 1e-12
    if not moving.any():
        return level / 2
    largest = (np.abs(off[:, moving]) / spread[moving]).max(1)
    tail = float(scipy.special.ndtr(-np.quantile(largest, 1 - level)))
    return min(level / 2, max(tail, level / 2 / differences.shape[1]))


def _paired(scores: Sequence[np.ndarray], weights: Sequence[float], bases: Sequence[str]) -> list[np.ndarray]:
    """(S, n) weighted sums, one for each base (and number of seeds); those with one seed are omitted."""
    blocks: dict[tuple[str, int], np.ndarray] = {}
    for block, weight, base in zip(scores, weights, bases, strict=True):
        if len(block) > 1 and weight:
            blocks[base, len(block)] = blocks.get((base, len(block)), 0) + weight * block
    return list(blocks.values())


def query_variance(differences: np.ndarray) -> tuple[float, float]:
    """(variance of their mean, its degrees of freedom)."""
    n = len(differences)
    if n < 2:
        return 0.0, 1.0
    off = differences - differences.mean()
    squares = float((off**2).mean())
    if squares <= 1e-18:
        return 0.0, n - 1.0
    kurtosis = float((off**4).mean()) / squares**2
    return squares / (n - 1), max(1.0, min(n - 1, 2 * n / max(kurtosis - 1, 1e-9)))


def false_discovery(p_values: Sequence[float]) -> list[float]:
    """Benjamini & Hochberg (1995) adjusted p-values, in the order given: those below q have a false-discovery rate of q."""
    return scipy.stats.false_discovery_control(p_values).tolist()
