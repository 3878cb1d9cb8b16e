"""A table small enough to work out by hand: BM25 (one run) and one encoder (two seeds), two metrics, ten queries."""

from __future__ import annotations

from pretrieve.references.tables import Table
from pretrieve.reporting.tables.results import Setting

PAPER = """\
paper: tiny
title: A paper
authors: [A. Author]
venue: V
year: 2020
tables:
  table9:
    caption: Recall <at> k.
    row_columns: [ratio, encoder]
    statistics: tasks
    baseline: bm25.reqa-{size}
    tolerance: {absolute: 1.0}
"""
CELLS = """\
row,column,system,dataset,metric,published,unit,marker,note
1% | BM-25,R@1,bm25.reqa-1pct,qa,recall@1,20.00,%,,
1% | BM-25,R@5,bm25.reqa-1pct,qa,recall@5,40.00,%,,
1% | Ours,R@1,ours.reqa-1pct,qa,recall@1,99.00,%,,
1% | Ours,R@5,ours.reqa-1pct,qa,recall@5,41.50,%,,a note
1% | Theirs,R@1,,,,"1,234",count,,
1% | Other,R@1,other.reqa-1pct,qa,recall@1,1.00,%,,
5% | Ours,R@1,ours.half-1pct,qa,recall@1,1.00,%,,
5% | Open,R@1,ours.reqa-1pct,open,recall@1,1.00,%,,
5% | Open BM-25,R@1,bm25.reqa-1pct,open,recall@1,1.00,%,,
5% | Data,R@1,statistics,qa,lengths.mean,12.5,tokens,,
"""
#: system → metric → for each seed how many of the ten queries are hits, first queries first.
HITS = {
    "bm25.reqa-1pct": {"recall@1": (0,), "recall@5": (4,)},
    "ours.reqa-1pct": {"recall@1": (10, 10), "recall@5": (4, 5)},
}


def metrics_json(hits: dict[str, int]) -> dict:
    return {
        "run": "some.trec.gz",
        "run_sha256": "0" * 64,
        "n_queries": 10,
        "n_candidates": 2000,
        "metrics": {metric: n / 10 for metric, n in hits.items()},
        "per_query": {metric: {f"q{i}": float(i < n) for i in range(10)} for metric, n in hits.items()},
    }


def files_of_table(table: Table, setting: Setting) -> list[str]:
    """Every metrics and statistics file that ``table`` needs, in reading order."""
    return list(dict.fromkeys(path for cell in table.cells for path in setting.files_of(table, cell)))
