"""How far the tables of a scale are: counts of measured, quoted, not-run and failed cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.base.paths import table_file
from pretrieve.reporting.tables.filling import UNMEASURED, count_statuses, read_lines


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
