"""The paired randomisation test and Holm's correction.

Seen to fail when: the test is one-sided; the tolerance for sums that tie on paper is left out; the +1 is dropped;
Holm's maximum is not accumulated, or its factors are reversed.
"""

import itertools

import numpy as np
import pytest

from pretrieve.errors import ConfigError, DataError
from pretrieve.evaluation import significance
from pretrieve.evaluation.significance import holm, paired_randomisation_test


def enumerated(a, b):
    differences = [x - y for x, y in zip(a, b, strict=True)]
    observed = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(a))
    ]
    return sum(s >= observed - 1e-9 for s in sums) / len(sums)


@pytest.mark.parametrize("seed", range(8))
def test_small_samples_are_exact(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 11))
    a, b = rng.integers(0, 4, n) / 3, rng.integers(0, 4, n) / 3  # thirds: sums tie on paper, not in floats
    assert paired_randomisation_test(a, b) == pytest.approx(enumerated(a.tolist(), b.tolist()), abs=1e-12)


def test_by_hand():
    # Four differences of one sign: only ++++ and ---- reach the observed mean.
    assert paired_randomisation_test([1, 1, 1, 1], [0, 0, 0, 0]) == 2 / 16
    assert paired_randomisation_test([1, 1, 1, 1, 5], [0, 0, 0, 0, 5]) == 2 / 16
    assert paired_randomisation_test([1, 2], [1, 2]) == 1.0


def test_sampling_agrees_with_enumeration(monkeypatch):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.3, 1, 12), rng.normal(0, 1, 12)
    exact = paired_randomisation_test(a, b)
    monkeypatch.setattr(significance, "EXACT_LIMIT", 0)
    monkeypatch.setattr(significance, "_BLOCK", 1000)  # several blocks, the last one short
    sampled = paired_randomisation_test(a, b, rounds=20_000, seed=5)
    assert 0.02 < exact < 0.98
    assert abs(sampled - exact) < 5 * np.sqrt(exact * (1 - exact) / 20_000)
    assert paired_randomisation_test(a, b, rounds=20_000, seed=5) == sampled
    assert paired_randomisation_test(a, b, rounds=20_000, seed=6) != sampled
    assert paired_randomisation_test(b, a, rounds=20_000, seed=5) == sampled  # two-sided


def test_the_smallest_possible_value_is_one_over_rounds_plus_one():
    assert paired_randomisation_test(np.ones(200), np.zeros(200), rounds=99) == 1 / 100


def test_values_are_uniform_under_the_null_hypothesis():
    rng = np.random.default_rng(2)
    values = [paired_randomisation_test(*rng.normal(size=(2, 30)), rounds=200, seed=i) for i in range(300)]
    assert 0.02 < np.mean(np.array(values) <= 0.05) < 0.09
    assert 0.44 < np.mean(values) < 0.56


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04 times 4 3 2 1 is .04 .06 .06 .04; the last one may not fall below those before it.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2] and holm([]) == []


def test_wrong_inputs_are_named():
    with pytest.raises(DataError, match="shapes"):
        paired_randomisation_test([1, 2], [1])
    with pytest.raises(DataError, match="n >= 1"):
        paired_randomisation_test([], [])
    with pytest.raises(DataError, match="not finite"):
        paired_randomisation_test([np.nan], [1])
    with pytest.raises(ConfigError, match="rounds=0"):
        paired_randomisation_test([1], [0], rounds=0)
    with pytest.raises(DataError, match="0..1"):
        holm([1.5])
