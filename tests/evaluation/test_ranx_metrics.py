"""ranx's metrics without the rest of ranx: the same functions, and little else is loaded.

Seen to fail when: the metrics are taken from ``import ranx``; the stand-in for the package stays in ``sys.modules``.
"""

from __future__ import annotations

ALONE = """
import sys
from pretrieve.evaluation.ranx_metrics import metric_of_ranx
switch = metric_of_ranx()
assert "ranx" not in sys.modules
assert not {"scipy.stats", "matplotlib", "pandas", "ir_datasets"} & set(sys.modules)
import ranx, numpy as np
heavy = {"scipy.stats", "matplotlib", "pandas"} <= set(sys.modules)
assert heavy, "import ranx is light by now: remove pretrieve/evaluation/ranx_metrics.py, and import ranx where it is used"
judged = np.array([[[0.0, 2], [1, 1], [2, 0]]] * 2)
ranked = np.array([[[1.0, 4], [9, 3], [0, 2], [2, 1]], [[8.0, 4], [2, 3], [7, 2], [0, 1]]])
names = {"recall@2": ("recall", 2, 1), "ndcg@10": ("ndcg", 10, 1), "mrr": ("mrr", 0, 1), "map-l2": ("map", 0, 2)}
whole = ranx.evaluate(judged, ranked, list(names), return_mean=False, threads=1)
for name, (base, cut, level) in names.items():
    assert np.array_equal(whole[name], switch(base)(judged, ranked, cut, level)) and whole[name].any(), name
print("fine")
"""


def test_the_same_metrics_and_little_else(program) -> None:
    done = program("-c", ALONE)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
