"""The report of a run: one HTML file with every table, figure, claim, learning curve, choice, command and cost.

It loads nothing from anywhere, so it opens from a disk, in an archive and on a phone. Each paper is a page in it; without
JavaScript all pages stand below each other. Everything comes from files of the run: the report computes no number of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pretrieve.base import paths
from pretrieve.base.code_folder import REFERENCES
from pretrieve.base.errors import DataError
from pretrieve.references.figures import OWN
from pretrieve.references.palette import look_of
from pretrieve.references.tables import STATISTICS, Table, load_paper, load_table, titled
from pretrieve.reporting.claims.ledger import Comparison, Finding, count_verdicts, what_it_shows
from pretrieve.reporting.figures.points import read_points
from pretrieve.reporting.figures.words import measured_here
from pretrieve.reporting.report.boards import boards_of
from pretrieve.reporting.report.fidelity import encoder_choices, recipe_choices
from pretrieve.reporting.report.findings import Found, claim_counts, sentences
from pretrieve.reporting.report.league import Pair, Standing
from pretrieve.reporting.report.paper_order import Rank, columns_of
from pretrieve.reporting.report.pictures import Curve, draw_curves, inline_svg, read_curve
from pretrieve.reporting.report.tables import anchor_of, cell_anchors, view_table
from pretrieve.reporting.report.timing import read_stages
from pretrieve.reporting.tables.filling import MEASURED, Line, read_lines
from pretrieve.reporting.tables.render import fill_template
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import read_rows
from pretrieve.workflow.commands import make_it
from pretrieve.workflow.plan import Plan

#: Largest number of seeds whose learning curves share a picture; more would be a tangle.
SEEDS_SHOWN = 3
#: How papers are called for short; others by the name of their folder.
SHORT = {
    "condenser": "Condenser",
    "dual_encoders": "Dual encoders",
    "dupmae": "DupMAE",
    "pretraining_tasks": "Pre-training tasks",
    "seed_encoder": "SEED-Encoder",
    OWN: "Own tables",
}


@dataclass(frozen=True)
class _Run:
    """What a paper's part of the page is made from. ``cells``: ``{paper}/{table}: {row}, {column}`` → address in the page;
    ``figures``: ``{paper}/{figure}`` → address, of those that are drawn."""

    plan: Plan
    root: Path
    references: Path
    findings: Sequence[Finding]
    comparisons: Sequence[Comparison]
    cells: Mapping[str, str]
    figures: Mapping[str, str]


def render(plan: Plan, root: Path, references: Path = REFERENCES) -> str:
    """The page of everything that a finished run left under ``root`` (``results/{scale}``).

    Tables and figures are those of the configuration; a paper's others are named as not built.

    Raises DataError when a configured table, its manifest, the claims or the league are missing or damaged.
    """
    config, findings = plan.config, read_rows(root / "claims.csv", Finding)
    tables: dict[str, list[Table]] = {}
    for name in config["tables"]:
        paper, table = name.split("/")
        loaded = load_table(references / paper / "paper.yaml", references / paper / f"{table}.csv")
        tables.setdefault(paper, []).append(loaded)
    addresses = {
        f"{table.paper}/{table.name}: {row}, {column}": anchor
        for some in tables.values()
        for table in some
        for (row, column), anchor in cell_anchors(table).items()
    }
    figures = {name: anchor_of(*name.split("/")) for name in config.get("figures", ())}
    comparisons = read_rows(root / "claims.groups.csv", Comparison)
    run = _Run(plan, root, references, findings, comparisons, addresses, figures)
    papers, places, in_place = [], dict[str, Line](), dict[str, None]()
    for paper in sorted({name.split("/")[0] for name in plan.all_tables}, key=lambda name: (name == OWN, name)):
        setting = Setting.of(plan.setting(paper))
        part, lines = _paper(run, paper, tables.get(paper, ()), setting)
        papers.append(part)
        places |= {f"{line.paper}/{line.table}: {line.row}, {line.column}": line for line in lines}
        if here := setting.in_place_of(line.role for line in lines if line.status in MEASURED):
            in_place |= dict.fromkeys(here.split("; "))
    standings, pairs = read_rows(root / "league.csv", Standing), read_rows(root / "league.pairs.csv", Pair)
    ranks, words = read_rows(root / "order.csv", Rank), config.get("descriptions", {})
    boards = boards_of(standings, pairs, config["encoders"], words, addresses)
    parts = (standings, pairs, boards, findings, comparisons, ranks, places, addresses, config["encoders"], words)
    newest = max(Path(paths.table_file(str(root), *name.split("/"))).stat().st_mtime for name in config["tables"])
    built_tables = [table for paper in papers for table in paper["tables"]]
    counts = sum((Counter(table["counts"]) for table in built_tables), Counter())
    report = {
        "scale": plan.scale_name,
        "seeds": tuple(plan.seeds),
        "day": datetime.fromtimestamp(newest, UTC).date().isoformat(),  # of the newest table
        "in_place": list(in_place),  # data that was measured in place of the papers'
        "found": sentences(Found(*parts)),
        "counts": claim_counts(findings),
        "boards": boards,
        "orders": columns_of(ranks),
        "papers": papers,
        "verdicts": count_verdicts(findings),
        "meaning": what_it_shows(plan.scale_name, findings),
        "stages": read_stages(root / "benchmarks") if (root / "benchmarks").is_dir() else [],
        "made": _made([table["manifest"] for table in built_tables]),
        "totals": {
            "tables": len(built_tables),
            "all_tables": len(plan.all_tables),
            "figures": sum(len(paper["figures"]) for paper in papers),
            **counts,
        },
    }
    return fill_template("report.html.j2", report=report)


def _paper(run: _Run, paper: str, tables: Sequence[Table], setting: Setting) -> tuple[dict[str, Any], list[Line]]:
    """A paper's part of the page, and the lines of all its tables."""
    plan, config, root = run.plan, run.plan.config, run.root
    views, lines = [], []
    for table in sorted(tables, key=lambda table: table.name):
        path = Path(paths.table_file(str(root), paper, table.name))
        some = read_lines(path)
        lines += some
        views.append(view_table(table, some, setting, _manifest(path)))
    about = load_paper(run.references / paper / "paper.yaml")
    known = {name for name in (*plan.all_tables, *plan.figures) if name.split("/")[0] == paper}
    topics = {name: plan.figures[name].caption for name in known & {*plan.figures}}
    topics |= {name: about["tables"][name.split("/")[1]]["caption"] for name in known & {*plan.all_tables}}
    encoders, families = _systems(lines, config, setting)
    choices = [encoder_choices(config, name) for name in encoders]
    for recipe in dict.fromkeys(recipe for _, recipe, _, _ in families):
        choices += recipe_choices(config, recipe, dict.fromkeys(d for _, r, d, _ in families if r == recipe))
    part = {
        "name": paper,
        "short": SHORT.get(paper, paper.replace("_", " ")),
        "title": about["title"],
        "source": f"{', '.join(about['authors'])}. {about['venue']} {about['year']}.",
        "tables": views,
        "figures": [_figure(root, plan, name, setting) for name in sorted(known & {*run.figures})],
        # What was not built, with its topic: its caption in the paper.
        "absent": [(_short(name), topics[name]) for name in sorted(known - {*config["tables"], *run.figures})],
        "topics": {anchor_of(*name.split("/")): topic for name, topic in topics.items()},
        "claims": [_claim(finding, run) for finding in run.findings if finding.paper == paper],
        "pretraining": _pretraining_curves(root, paper, encoders, plan.seeds),
        "finetuning": _finetuning_curves(root, paper, families, setting),
        "choices": choices,
    }
    return part, lines


def _manifest(table: Path) -> Mapping[str, Any]:
    path = table.with_suffix(".manifest.json")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. {make_it(table)}") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: not readable as JSON: {error}. Delete {table} and make it again.") from None


def _short(name: str) -> str:
    table = name.split("/")[1]
    return f"{table.rstrip('0123456789')} {table.lstrip('abcdefghijklmnopqrstuvwxyz')}".strip()


def _figure(root: Path, plan: Plan, name: str, setting: Setting) -> dict[str, str]:
    paper, figure = name.split("/")
    path = Path(paths.figure_file(str(root), paper, figure))
    if not path.is_file():
        raise DataError(f"{path}: no such file. {make_it(path)}")
    heading, anchor = _short(name).capitalize(), anchor_of(paper, figure)
    here = measured_here(plan.figures[name], read_points(path.with_suffix(".csv")), setting)
    caption = titled(plan.figures[name].caption, here, paper == OWN)
    svg = inline_svg(path.read_text(encoding="utf-8"), anchor, f"{heading}. {caption}")
    command = setting.command(str(path))
    return {"anchor": anchor, "heading": heading, "caption": caption, "svg": svg, "command": command}


def _claim(finding: Finding, run: _Run) -> dict[str, Any]:
    """A finding and what it is made of: (comparison, [(text of a cell, its address or '')])."""

    def linked(place: str) -> tuple[str, str]:
        of, _, where = place.partition(": ")
        return where, run.cells.get(place) or run.figures.get(of, "")

    mine = [(one, list(map(linked, json.loads(one.cells)))) for one in run.comparisons if one.id == finding.id]
    return {"finding": finding, "comparisons": mine}


def _systems(
    lines: Sequence[Line], config: Mapping[str, Any], setting: Setting
) -> tuple[list[str], list[tuple[str, str, str, str]]]:
    """What a paper's measured cells come from: encoders, and (encoder, recipe, training data set, size); BM25 has neither."""
    families: dict[tuple[str, str, str, str], None] = {}
    for line in lines:
        if line.status in MEASURED and line.system not in ("", STATISTICS):
            encoder, recipe, size = paths.parse_system(line.system)
            if encoder in config["encoders"] and recipe in config["recipes"]:
                families[encoder, recipe, setting.trained_on.get(line.dataset, line.dataset), size] = None
    encoders = [encoder for encoder, *_ in families]
    starts = [config["encoders"][encoder].get("start") for encoder in encoders]
    return list(dict.fromkeys([*(s for s in starts if s in config["encoders"]), *encoders])), list(families)


def _pretraining_curves(root: Path, paper: str, encoders: Sequence[str], seeds: Sequence[int]) -> str:
    panels = []
    for encoder in encoders:
        files = [(seed, Path(paths.encoder_dir(str(root), encoder, seed), "curve.csv")) for seed in seeds[:SEEDS_SHOWN]]
        curves = (read_curve(path, f"seed {seed}", look_of(encoder)) for seed, path in files)
        panels.append((encoder, list(filter(None, curves))))
    return _picture(panels, f"{paper}-pretraining", "Loss of every encoder's pre-training over steps")


def _finetuning_curves(root: Path, paper: str, families: Sequence[tuple[str, str, str, str]], setting: Setting) -> str:
    """One picture for each recipe and data set, at the size that most encoders have, for the first seed."""
    panels: dict[str, dict[str, list[Curve]]] = {}
    for encoder, recipe, dataset, size in families:
        system = f"{encoder}.{recipe}-{size}"
        path = Path(paths.retriever_dir(str(root), system, dataset, setting.seeds[0]), "curve.csv")
        if curve := read_curve(path, encoder, look_of(recipe, encoder)):
            panels.setdefault(f"{recipe}, {dataset}", {}).setdefault(size, []).append(curve)
    chosen = []
    for title, by_size in panels.items():
        size, curves = max(by_size.items(), key=lambda item: len(item[1]))
        chosen.append((f"{title}, {size}", curves))
    return _picture(chosen, f"{paper}-finetuning", "Loss of fine-tuning over steps, by recipe and data set")


def _picture(panels: Sequence[tuple[str, Sequence[Curve]]], name: str, label: str) -> str:
    panels = [(title, curves) for title, curves in panels if curves]
    return inline_svg(draw_curves(panels, name), name, label) if panels else ""


def _made(manifests: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What the tables were made with, each distinct value once."""
    made: dict[str, dict[str, None]] = {}
    for manifest in manifests:
        git, machine = manifest["git"], manifest["hardware"]
        gpus = ", ".join(machine["gpus"]) or "no GPU"
        for term, text in (
            ("Commit", f"{git['commit'] or 'none'}{' with changes' if git['dirty'] else ''}"),
            ("Configuration", manifest["config_hash"]),
            ("Environment (SHA-256 of the lock file)", manifest["lock_sha256"] or ""),
            ("Machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, {gpus}"),
            ("Software", ", ".join(f"{name} {version}" for name, version in manifest["versions"].items() if version)),
        ):
            made.setdefault(term, {})[text] = None
    return [(term, "; ".join(filter(None, texts))) for term, texts in made.items()]
