"""A mean of data sets in a table: two of them, with ten and two queries, worked out by hand.

Seen to fail when: a paired test weighs queries instead of tasks; costs are those of one part, or what the parts share counts
twice; a cell of counts is looked for on a mean; the overlap of a mean's data sets is not said.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from worked_table import metrics_json

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.program import make_parser
from pretrieve.commands import mean as mean_command
from pretrieve.references.tables import Table
from pretrieve.reporting.tables.filling import Line, fill_table
from pretrieve.reporting.tables.legend import overlap_lines
from pretrieve.reporting.tables.manifest import make_manifest
from pretrieve.reporting.tables.render import to_markdown
from pretrieve.reporting.tables.results import Setting

PROGRAM = "workflow_scripts/mean.py"
#: System → queries with a hit, of ten questions and of two others.
FOUND = {"bm25.reqa-1pct": (4, 0), "ours.reqa-1pct": (0, 2)}
PARTS = ("questions", "others")


METRICS = ("recall@1", "recall@5")


def two(hits: int) -> dict:
    """Metrics of the smaller set: other queries, and another level of guessing."""
    values = {f"o{i}": float(i < hits) for i in range(2)}
    return metrics_json({}) | {
        "n_queries": 2,
        "n_candidates": 200,
        "metrics": dict.fromkeys(METRICS, hits / 2),
        "chance": dict.fromkeys(METRICS, 0.3),
        "per_query": dict.fromkeys(METRICS, values),
    }


def words_of(system: str, seed: int) -> list[str]:
    """The command line for a system's metrics files."""
    root = Path("results/demo/metrics").absolute() / system
    files = [f"{root}/{name}/seed{seed}.json" for name in PARTS]
    return ["--parts", *PARTS, "--metrics", *files, "--out", f"{root}/both/seed{seed}.json"]


def mean(system: str, seed: int) -> None:
    mean_command.main(make_parser(mean_command).parse_args(words_of(system, seed)))


@pytest.fixture
def of_mean(setting: Setting) -> Setting:
    """The finished run of conftest.py, where a mean plays the role."""
    root = Path(setting.root)
    for system, (ten, other) in FOUND.items():
        for seed in (0,) if system.startswith("bm25") else (1, 2):
            one = metrics_json(dict.fromkeys(METRICS, ten)) | {"chance": dict.fromkeys(METRICS, 0.1)}
            write_json(root / f"metrics/{system}/questions/seed{seed}.json", one)
            write_json(root / f"metrics/{system}/others/seed{seed}.json", two(other))
            mean(system, seed)
    cost = {"wall_s": 7.0, "cpu_s": 1.0, "peak_gb": 4.0, "gpu_h": 0.5, "threads": 2}
    for place in (
        "runs/bm25.reqa-1pct/others/seed0.cost.json",
        *(f"embeddings/ours.reqa-1pct/others/seed{n}/cost.json" for n in (1, 2)),
        *(f"runs/ours.reqa-1pct/others/seed{n}.cost.json" for n in (1, 2)),
    ):
        write_json(root / place, cost)
    fields = {"parts": {"both": list(PARTS)}, "trained_on": {"both": "training"}}
    return replace(setting, roles={"qa": "both"}, **fields)


def at(lines: list[Line], row: str, column: str = "R@5") -> Line:
    return next(line for line in lines if (line.row, line.column) == (row, column))


def test_the_record_by_hand(of_mean: Setting) -> None:
    record = json.loads(Path(f"{of_mean.root}/metrics/bm25.reqa-1pct/both/seed0.json").read_text())
    assert record["metrics"] == dict.fromkeys(METRICS, 0.2), "(4/10 + 0/2) / 2, and not 4/12"
    assert record["n_queries"] == 12 and record["n_candidates"] == 1700, "(10 · 2000 + 2 · 200) / 12"
    assert record["chance"] == dict.fromkeys(METRICS, 0.2)
    assert record["parts"]["others"]["metrics"]["recall@5"] == 0.0 and "run" not in record
    values = record["per_query"]["recall@5"]
    assert values["questions/q3"] == 0.6 and values["others/o1"] == 0.0, "1 · 12 / (2 · 10)"


def test_a_cell_on_a_mean(table: Table, of_mean: Setting) -> None:
    lines = fill_table(table, of_mean)
    bm25, ours = at(lines, "1% | BM-25"), at(lines, "1% | Ours")
    assert (bm25.measured, ours.measured, bm25.dataset) == ("20.00", "50.00", "both")
    assert (ours.queries, ours.candidates) == ("12", "1700")
    # Two queries of three (12/(2 · 2)) for ours, four of 0.6 for BM25: of 64 sign patterns those 32 in which the threes agree sum
    # up to 3.6 or more. With equal weights it were 44 of 64.
    assert ours.p_value == "0.5000"
    assert (bm25.chance, bm25.beyond_chance) == ("20.00", "no")
    # encoder 100, retriever 10 or 20, and both embeddings, 5 and 7; the encoder once
    assert (ours.wall_s, ours.gpu_h, ours.peak_gb) == ("136.0", "1.7500", "4.00") and bm25.wall_s == "8.0"


def test_what_a_mean_has_not(table: Table, of_mean: Setting) -> None:
    lines = fill_table(table, of_mean)
    count = at(lines, "5% | Data", "R@1")
    assert (count.status, count.measured) == ("not-run", "")
    assert count.note == "both is a mean of data sets: it has scores, and no counts, vectors or runs of its own"


def test_below_the_table_and_in_the_manifest(table: Table, of_mean: Setting) -> None:
    numbers = {"of": "texts", "corpus": "wiki", "test_paragraphs": 5, "paragraphs": 0}
    places = {name: f"results/demo/overlap/wiki/{name}/stats.json" for name in PARTS}
    for place in places.values():
        write_json(Path(place), numbers)
    setting = replace(of_mean, overlaps=places)
    lines = fill_table(table, setting)
    assert [term for term, _ in overlap_lines(lines, setting)] == ["Overlap questions", "Overlap others"]
    assert "both, the mean of 2 data sets, test queries 12" in to_markdown(table, lines, setting)
    manifest = make_manifest(table, lines, setting, "hash")
    assert manifest["roles"] == {"qa": "both"} and manifest["means"] == {"both": list(PARTS)}
    # BM25 on both; the encoder, its retriever, both embeddings and both searches with two seeds
    assert manifest["cost"]["stages"] == 2 + 2 * 6 and list(manifest["overlap"]) == list(PARTS)


def test_a_part_that_cannot_be_joined(of_mean: Setting, program) -> None:
    file = Path(f"{of_mean.root}/metrics/bm25.reqa-1pct/others/seed0.json")
    record = json.loads(file.read_text())
    write_json(file, record | {"metrics": {"mrr": 0.0}})
    with pytest.raises(DataError, match=r"'others' has metrics \['mrr'\], 'questions' has \['recall@1', 'recall@5'\]"):
        mean("bm25.reqa-1pct", 0)
    file.write_text("{")
    ended = program(PROGRAM, *words_of("bm25.reqa-1pct", 0))
    assert (
        ended.returncode == 1 and "seed0.json: not readable as JSON" in ended.stderr and "Traceback" not in ended.stderr
    )
    write_json(file, record)
    ended = program(PROGRAM, *words_of("bm25.reqa-1pct", 0))
    assert ended.returncode == 0, ended.stderr
    file.unlink()
    with pytest.raises(DataError, match="others/seed0.json: no such file. Make it with: snakemake"):
        mean("bm25.reqa-1pct", 0)
