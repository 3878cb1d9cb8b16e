"""Tables of plain text, as commands print them."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows, each with as many texts, as lines: columns two blanks apart, the first one left-aligned, all others right-aligned.

    >>> text_table([("rule", "jobs"), ("finetune", "12")])
    ['rule      jobs', 'finetune    12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, numbers, widths[1:])]).rstrip() for name, *numbers in rows
    ]
