"""How far a run is: counts of measured, quoted, not-run and failed cells; and where its time went: Snakemake's benchmark files,
added up by rule."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.paths import table_file
from pretrieve.base.program import STARTED_IN
from pretrieve.reporting.tables.filling import UNMEASURED, count_statuses, read_lines
from pretrieve.reporting.tables.rows import text_table

#: Columns read from a benchmark file: wall seconds, largest resident memory (MiB), processor seconds.
_WALL, _MEMORY, _CPU = "s", "max_rss", "cpu_time"
#: Snakemake writes these where a job ended before it was sampled.
_UNKNOWN = ("NA", "-", "")
_STARTED = re.compile(re.escape(STARTED_IN) + r"(\d+\.\d\d) s$")


@dataclass
class Stage:
    """One rule: jobs, wall and processor seconds added up, and the largest job's memory in GB (1e9 bytes)."""

    rule: str
    jobs: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_gb: float = 0.0
    unsampled: int = 0


def read_stages(folder: Path, since: float = 0.0) -> list[Stage]:
    """Add up ``folder/{rule}/**/*.tsv`` and ``folder/{rule}.tsv``, the longest rule first; only files written at or after
    ``since`` (epoch seconds).

    Every line of a file is a job (``repeat`` in a rule gives several). A job too short for Snakemake to sample has
    only a wall time; ``unsampled`` counts those.

    Raises DataError when there is no benchmark file, or one lacks a column or has something else than a number.
    """
    stages: dict[str, Stage] = {}
    for path in sorted(folder.glob("**/*.tsv")):
        if path.stat().st_mtime < since:
            continue
        rule = path.relative_to(folder).parts[0].removesuffix(".tsv")
        _add(stages.setdefault(rule, Stage(rule)), path)
    if not stages:
        raise DataError(
            f"{folder}: no benchmark files ({{rule}}/*.tsv, {{rule}}.tsv); expected those of a finished run."
        )
    return sorted(stages.values(), key=lambda stage: (-stage.wall_s, stage.rule))


def _add(stage: Stage, path: Path) -> None:
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream, delimiter="\t")
        missing = {_WALL, _MEMORY, _CPU} - set(reader.fieldnames or ())
        if missing:
            found = ", ".join(reader.fieldnames or ["nothing"])
            raise DataError(f"{path}, line 1: no column {', '.join(sorted(missing))}; found {found}. Delete the file.")
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            cpu, memory = _number(row, _CPU, where), _number(row, _MEMORY, where)
            stage.jobs += 1
            stage.wall_s += _number(row, _WALL, where) or 0.0
            stage.cpu_s += cpu or 0.0
            stage.peak_gb = max(stage.peak_gb, (memory or 0.0) * 2**20 / 1e9)  # Snakemake counts MiB
            stage.unsampled += cpu is None


def _number(row: dict[str, str], column: str, where: str) -> float | None:
    text = row[column]
    if text in _UNKNOWN and column != _WALL:
        return None
    try:
        return float(text)
    except (TypeError, ValueError):
        raise DataError(f"{where}: column {column} is {text!r}; expected a number. Delete the file.") from None


def startup_seconds(folder: Path, since: float = 0.0) -> tuple[float, int]:
    """(seconds, jobs): what the programs spent before their work began, from the first lines of ``folder/**/*.log``.

    Logs written before ``since`` (epoch seconds) do not count, nor do those without such a line.
    """
    total, count = 0.0, 0
    for file in sorted(folder.rglob("*.log")):
        if file.stat().st_mtime < since:
            continue
        with open(file, encoding="utf-8", errors="replace") as stream:
            found = _STARTED.match(stream.readline())  # a full disk may have cut the line off
        if found:
            total += float(found[1])
            count += 1
    return total, count


def format_report(stages: list[Stage], elapsed: float | None = None, startup: tuple[float, int] | None = None) -> str:
    """A plain-text table (ASCII), then how parallel the run was and what share starting up had, when known.

    ``elapsed``: wall seconds from the first job to the last; ``startup``: what :func:`startup_seconds` gives.
    """
    jobs, wall, cpu = (sum(getattr(stage, name) for stage in stages) for name in ("jobs", "wall_s", "cpu_s"))
    total = Stage("total", jobs, wall, cpu, max(stage.peak_gb for stage in stages))
    rows = [("stage", "jobs", "wall s", "cpu s", "cpu/wall", "peak GB", "share")]
    rows += [_row(stage, wall) for stage in (*stages, total)]
    head, *body, last = text_table(rows)
    bars = ("#" * round(20 * stage.wall_s / wall) if wall else "" for stage in stages)
    rule = "-" * len(head)
    text = [head, rule, *(f"{line}  {bar}".rstrip() for line, bar in zip(body, bars, strict=True)), rule, last, ""]
    if elapsed:
        text.append(f"elapsed {elapsed:,.1f} s; {wall / elapsed:.2f} jobs ran at a time on average")
    if startup is not None:
        seconds, started = startup
        share = f" = {seconds / wall:.1%} of all job seconds" if wall else ""
        said = f"starting up {seconds:,.1f} s in {started} jobs{share}"
        text.append(said if started else "no log says how long its program took to start")
    if cpu:
        text.append("cpu seconds are those of Snakemake's last look at a job; cost.json has all of them")
    if unsampled := sum(stage.unsampled for stage in stages):
        text.append(f"{unsampled} job(s) ended before they were sampled: their cpu seconds and memory count as 0")
    return "\n".join(text).rstrip() + "\n"


def _row(stage: Stage, wall: float) -> tuple[str, ...]:
    ratio = f"{stage.cpu_s / stage.wall_s:.2f}" if stage.wall_s else "-"
    share = f"{stage.wall_s / wall:.1%}" if wall else "-"
    times = f"{stage.wall_s:,.1f}", f"{stage.cpu_s:,.1f}"
    return (stage.rule, f"{stage.jobs:,}", *times, ratio, f"{stage.peak_gb:.2f}", share)


def split_name(name: str) -> tuple[str, str]:
    """``pretraining_tasks/table3`` → paper and table. Raises ConfigError for another form."""
    paper, slash, table = name.partition("/")
    if not (paper and slash and table) or "/" in table:
        raise ConfigError(f"table '{name}'; expected PAPER/TABLE such as pretraining_tasks/table3.")
    return paper, table


def configured(config: Mapping[str, Any], key: str) -> list[str]:
    """The names under ``tables`` or ``figures`` of a configuration. Raises ConfigError when there is no such list."""
    names = config.get(key)
    if not isinstance(names, list) or not names:
        raise ConfigError(f"config: {key}: found {names!r}; expected a list of PAPER/{key.removesuffix('s').upper()}.")
    return names


def format_status(root: Path, tables: Sequence[str]) -> str:
    """A plain-text table for ``root`` (``results/{scale}``), one line for each of ``tables`` (PAPER/TABLE).

    A table that was not made yet says so instead of numbers.
    """
    words = ("measured", *UNMEASURED)
    rows, total = [("table", "cells", *words)], Counter[str]()
    for name in tables:
        path = Path(table_file(str(root), *split_name(name)))
        counts = Counter(count_statuses(read_lines(path)) if path.is_file() else {})
        numbers = [str(n) if path.is_file() else "" for n in (counts.total(), *(counts[word] for word in words))]
        rows.append((name if path.is_file() else f"{name}  not made yet", *numbers))
        total += counts
    rows.append(("total", str(total.total()), *(str(total[word]) for word in words)))
    return "\n".join(text_table(rows)) + "\n"
