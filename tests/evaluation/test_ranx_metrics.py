"""ranx's metrics without the rest of ranx: the same functions, and little else is loaded.

Seen to fail when: the metrics are taken from ``import ranx``; the stand-in for the package stays in ``sys.modules``; two threads
compute at the same time.
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

THREADS = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import pretrieve
queries, documents = [f"q{i}" for i in range(400)], [f"d{i}" for i in range(100)]
run = pretrieve.Run(queries, [documents] * 400, [np.arange(100, 0, -1.0)] * 400)
qrels = {query: {documents[i % 100]: 1} for i, query in enumerate(queries)}
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda _: pretrieve.evaluate(run, qrels, ["ndcg@10", "recall@50"]).mean, range(40)))
assert all(one == found[0] for one in found) and found[0]["recall@50"] == 0.5
print("fine")
"""


def test_the_same_metrics_and_little_else(program) -> None:
    done = program("-c", ALONE)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


def test_threads_may_evaluate_at_the_same_time(program) -> None:
    done = program("-c", THREADS)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
