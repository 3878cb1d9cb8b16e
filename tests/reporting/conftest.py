"""The table of worked_table.py as files, and a finished run behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from worked_table import CELLS, HITS, PAPER, metrics_json

from pretrieve.base.files import write_json
from pretrieve.references.tables import Table, load_table
from pretrieve.reporting.tables.results import Setting


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
            write_json(
                root / f"metrics/{system}/questions/seed{seed}.json",
                metrics_json({metric: hits[i] for metric, hits in metrics.items()}),
            )
    write_json(root / "tasks/questions/stats.json", {"lengths": {"mean": 12.254}})
    stages = {"runs/bm25.reqa-1pct/questions/seed0.cost.json": (1.0, 0.0, 0.5)}
    for seed in (1, 2):
        stages |= {
            f"encoders/ours/seed{seed}/cost.json": (100.0, 0.25, 2.0),
            f"retrievers/ours.reqa-1pct/training/seed{seed}/cost.json": (10.0 * seed, 0.5, 3.0),
            f"embeddings/ours.reqa-1pct/questions/seed{seed}/cost.json": (5.0, 0.0, 1.0),
            f"runs/ours.reqa-1pct/questions/seed{seed}.cost.json": (2.0, 0.0, 0.5),
        }
    for name, (wall_s, gpu_h, peak_gb) in stages.items():
        write_json(root / name, {"wall_s": wall_s, "cpu_s": 1.0, "peak_gb": peak_gb, "gpu_h": gpu_h, "threads": 2})
    return Setting(
        root=str(root),
        scale="demo",
        seeds=(1, 2),
        roles={"qa": "questions"},
        encoders=frozenset({"ours"}),
        recipes=frozenset({"reqa"}),
        trained_on={"questions": "training"},
    )
