"""A table small enough to work out by hand: BM25 (one run) and one encoder (two seeds), two metrics, ten queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretrieve.reporting.references import Table, load_table
from pretrieve.reporting.results import Setting

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


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def metrics_json(hits: dict[str, int]) -> dict:
    return {
        "run": "some.trec.gz",
        "run_sha256": "0" * 64,
        "n_queries": 10,
        "n_candidates": 2000,
        "metrics": {metric: n / 10 for metric, n in hits.items()},
        "per_query": {metric: {f"q{i}": float(i < n) for i in range(10)} for metric, n in hits.items()},
    }


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[Path, Path]:
    """paper.yaml and table9.csv."""
    folder = tmp_path / "references" / "tiny"
    folder.mkdir(parents=True)
    (folder / "paper.yaml").write_text(PAPER)
    (folder / "table9.csv").write_text(CELLS)
    return folder / "paper.yaml", folder / "table9.csv"


@pytest.fixture
def table(tiny: tuple[Path, Path]) -> Table:
    return load_table(*tiny)


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """A finished run in a folder that becomes the working one. ``half`` and ``other`` are not configured."""
    monkeypatch.chdir(tmp_path)
    root = Path("results/demo")
    for system, metrics in HITS.items():
        for i, seed in enumerate((0,) if system.startswith("bm25") else (1, 2)):
            write(
                root / f"metrics/{system}/questions/seed{seed}.json",
                metrics_json({metric: hits[i] for metric, hits in metrics.items()}),
            )
    write(root / "tasks/questions/stats.json", {"lengths": {"mean": 12.254}})
    stages = {"runs/bm25.reqa-1pct/questions/seed0.cost.json": (1.0, 0.0, 0.5)}
    for seed in (1, 2):
        stages |= {
            f"encoders/ours/seed{seed}/cost.json": (100.0, 0.25, 2.0),
            f"retrievers/ours.reqa-1pct/training/seed{seed}/cost.json": (10.0 * seed, 0.5, 3.0),
            f"embeddings/ours.reqa-1pct/questions/seed{seed}/cost.json": (5.0, 0.0, 1.0),
        }
    for name, (wall_s, gpu_h, peak_gb) in stages.items():
        write(root / name, {"wall_s": wall_s, "cpu_s": 1.0, "peak_gb": peak_gb, "gpu_h": gpu_h, "threads": 2})
    return Setting(
        root=str(root),
        scale="demo",
        seeds=(1, 2),
        roles={"qa": "questions"},
        encoders=frozenset({"ours"}),
        recipes=frozenset({"reqa"}),
        trained_on={"questions": "training"},
    )
