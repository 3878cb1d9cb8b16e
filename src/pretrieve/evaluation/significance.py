"""Is system A better than B on these queries, or by chance? Fisher's paired randomisation test, and Holm's correction.

Under the null hypothesis the two scores of a query could be swapped, so each difference a - b carries a random sign.
The p-value is the share of sign patterns whose absolute mean difference is at least the observed one.

References: Smucker, Allan & Carterette, *A comparison of statistical significance tests for information retrieval
evaluation*, CIKM 2007; Phipson & Smyth 2010 for (count + 1) / (rounds + 1); Holm 1979.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pretrieve.errors import ConfigError, DataError

#: Up to so many non-zero differences, all 2**n sign patterns are enumerated and the p-value is exact.
EXACT_LIMIT = 12

#: Signs drawn at a time: bounds memory at 4 bytes each.
_BLOCK = 1 << 22


def paired_randomisation_test(a: Sequence[float], b: Sequence[float], rounds: int = 10_000, seed: int = 0) -> float:
    """Two-sided p-value for the mean of a - b, (n,) paired scores in the same query order.

    Exact when at most :data:`EXACT_LIMIT` differences are not zero (zero ones change nothing under any sign);
    otherwise estimated as (count + 1) / (rounds + 1) from ``rounds`` random sign patterns, equal for equal seeds.

    Raises
    ------
    DataError
        when lengths differ, there is no pair, or a score is not finite.
    ConfigError
        when ``rounds`` < 1.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise DataError(f"paired test: scores of shapes {a.shape} and {b.shape}, expected (n,) twice with n >= 1.")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise DataError("paired test: a score is not finite, expected numbers; evaluate both runs again.")
    if rounds < 1:
        raise ConfigError(f"paired test: rounds={rounds}, expected 1 or more.")
    differences = a - b
    differences = differences[differences != 0]
    n = len(differences)
    if n == 0:
        return 1.0
    # Patterns that are equal on paper may differ in the last bits; as many as the observed one must count.
    observed = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()
    if n <= EXACT_LIMIT:
        bits = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
        return _count(bits, differences, observed) / (1 << n)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    count = 0
    for start in range(0, rounds, block):
        size = min(block, rounds - start)
        row_bytes = (n + 7) // 8
        packed = np.frombuffer(rng.bytes(size * row_bytes), np.uint8).reshape(size, row_bytes)
        count += _count(np.unpackbits(packed, axis=1, count=n), differences, observed)
    return (count + 1) / (rounds + 1)


def _count(bits: np.ndarray, differences: np.ndarray, observed: float) -> int:
    """How many of the sign patterns (r, n), 1 for plus and 0 for minus, reach the observed absolute sum."""
    sums = 2 * (bits.astype(np.float64) @ differences) - differences.sum()
    return int((np.abs(sums) >= observed).sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the order given: each may be compared with the level of the whole family.

    The i-th smallest of m is multiplied by m - i (i from 0), made non-decreasing, and capped at 1.

    Raises
    ------
    DataError
        when a value is outside 0..1.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError(f"Holm correction: p-values {list(p_values)}, expected numbers in 0..1.")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted.tolist()
