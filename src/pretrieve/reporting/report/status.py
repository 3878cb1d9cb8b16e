"""How far the tables of a scale are: counts of measured, quoted, not-run and failed cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.base.paths import table_file
from pretrieve.base.text_table import text_table
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
    rows, total = [("table", "cells", *words)], Counter[str]()
    for name in tables:
        path = Path(table_file(str(root), *split_name(name)))
        counts = Counter(count_statuses(read_lines(path)) if path.is_file() else {})
        numbers = [str(n) if path.is_file() else "" for n in (counts.total(), *(counts[word] for word in words))]
        rows.append((name if path.is_file() else f"{name}  not made yet", *numbers))
        total += counts
    rows.append(("total", str(total.total()), *(str(total[word]) for word in words)))
    return "\n".join(text_table(rows)) + "\n"
