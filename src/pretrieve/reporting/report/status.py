"""How far the tables of a scale are: counts of measured, quoted, not-run and failed cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from pretrieve.base.errors import ConfigError
from pretrieve.base.paths import table_file
from pretrieve.reporting.tables.filling import UNMEASURED, count_statuses, read_lines


def split_name(name: str) -> tuple[str, str]:
    """``pretraining_tasks/table3`` → paper and table. Raises ConfigError for another form."""
    paper, slash, table = name.partition("/")
    if not (paper and slash and table) or "/" in table:
        raise ConfigError(f"table '{name}'; expected PAPER/TABLE such as pretraining_tasks/table3.")
    return paper, table


def configured_tables(config: Path) -> list[str]:
    """The names under ``tables`` of a configuration file. Raises ConfigError when there is no such list."""
    tables = _configured(config, "tables")
    if not isinstance(tables, list) or not tables:
        raise ConfigError(f"{config}: key tables is {tables!r}; expected a list of PAPER/TABLE.")
    return tables


def configured_figures(config: Path) -> list[str]:
    """The names under ``figures`` of a configuration file, PAPER/FIGURE; [] without that key."""
    figures = _configured(config, "figures")
    if figures is not None and not isinstance(figures, list):
        raise ConfigError(f"{config}: key figures is {figures!r}; expected a list of PAPER/FIGURE.")
    return figures or []


def _configured(config: Path, key: str) -> object:
    try:
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{config}: not readable as YAML: {error}") from None
    return content.get(key) if isinstance(content, dict) else None


def format_status(root: Path, tables: Sequence[str]) -> str:
    """A plain-text table for ``root`` (``results/{scale}``), one line for each of ``tables`` (PAPER/TABLE).

    A table that was not made yet says so instead of numbers.
    """
    words = ("measured", *UNMEASURED)
    head = ["table", "cells", *words]
    body: list[list[str]] = []
    totals = dict.fromkeys(("cells", *words), 0)
    for name in tables:
        path = Path(table_file(str(root), *split_name(name)))
        if not path.is_file():
            body.append([name, "not made yet"])
            continue
        counts = count_statuses(read_lines(path))
        counts = {"cells": sum(counts.values()), **counts}
        body.append([name, *(str(n) for n in counts.values())])
        totals = {word: totals[word] + n for word, n in counts.items()}
    body.append(["total", *(str(n) for n in totals.values())])
    width = max(len(row[0]) for row in [head, *body])
    lines = []
    for row in [head, *body]:
        numbers = (
            row[1:] if len(row) == 2 else [text.rjust(len(word)) for text, word in zip(row[1:], head[1:], strict=True)]
        )
        lines.append("  ".join([row[0].ljust(width), *numbers]).rstrip())
    return "\n".join(lines) + "\n"
