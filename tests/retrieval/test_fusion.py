"""Fusion of two runs, against ranx's and by hand.

Seen to fail when: the second run's scores are not normalised; a rank counts from 0; the weight is that of the second run.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval.fusion import fuse
from pretrieve.retrieval.trec_run import Run


def made(seed: int, high: float) -> Run:
    rng = np.random.default_rng(seed)
    ids = [[f"d{n}" for n in rng.choice(40, 15, replace=False)] for _ in range(6)]
    return Run([f"q{n}" for n in range(6)], ids, [rng.random(15).astype(np.float32) * high for _ in range(6)])


WEIGHTS = (0.0, 0.3, 1.0, None)
#: Prints what ranx makes of two runs: for each weight, query → document → score.
RANX = """
import json, sys
import ranx
def fused(weight):
    if weight is None:
        return ranx.fuse(runs=runs, norm=None, method="rrf")
    return ranx.fuse(runs=runs, norm="min-max", method="wsum", params={"weights": (weight, 1 - weight)})
runs, weights = [ranx.Run(one) for one in json.loads(sys.argv[1])], json.loads(sys.argv[2])
print(json.dumps([fused(weight).to_dict() for weight in weights], default=float))
"""


@pytest.fixture(scope="module")
def of_ranx(program) -> dict[float | None, dict]:
    """Its functions as plain Python, in a process of their own: here they would be compiled for a few numbers."""
    pytest.importorskip("ranx")
    dicts = [
        {q: dict(zip(d, map(float, s), strict=True)) for q, d, s in zip(*vars(r).values(), strict=True)}
        for r in (made(1, 20.0), made(2, 1.0))
    ]
    ended = program("-c", RANX, json.dumps(dicts), json.dumps(WEIGHTS), NUMBA_DISABLE_JIT="1")
    assert ended.returncode == 0, ended.stderr
    return dict(zip(WEIGHTS, json.loads(ended.stdout), strict=True))


@pytest.mark.parametrize("weight", WEIGHTS)
def test_it_is_what_ranx_computes(weight: float | None, of_ranx) -> None:
    found, expected = fuse(made(1, 20.0), made(2, 1.0), weight), of_ranx[weight]
    for query, doc_ids, scores in zip(found.query_ids, found.doc_ids, found.scores, strict=True):
        assert set(doc_ids) == set(expected[query])
        np.testing.assert_allclose(scores, [expected[query][d] for d in doc_ids], atol=1e-6)


def test_by_hand() -> None:
    first = Run(["q", "alone"], [["a", "b", "c"], ["x"]], [np.array([4.0, 3.0, 2.0]), np.array([7.0])])
    second = Run(["q"], [["c", "a"]], [np.array([0.9, 0.1])])
    fused = fuse(first, second, 0.25)
    assert fused.doc_ids == [["c", "a", "b"], ["x"]]
    np.testing.assert_allclose(fused.scores[0], [0.75, 0.25, 0.125])
    ranks = fuse(first, second, depth=2)
    assert ranks.doc_ids == [["a", "c"], ["x"]]  # 1/61 + 1/62 against 1/63 + 1/61
    np.testing.assert_allclose(ranks.scores[0], [1 / 61 + 1 / 62, 1 / 63 + 1 / 61], rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    first, second = made(1, 1.0), Run(["other"], [["a"]], [np.array([1.0])])
    with pytest.raises(DataError, match="'other' is in the second run only"):
        fuse(first, second)
    with pytest.raises(ConfigError, match="weight 1.5"):
        fuse(first, first, 1.5)
