"""No function takes more than a reader can hold: seven parameters, beside ``self``.

Seen to fail when: an eighth is added to ``train``.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
MOST = 7


def test_no_function_has_more_than_seven_parameters() -> None:
    found = set()
    for file in sorted((SOURCES / "pretrieve").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([one for one in given if one.arg not in ("self", "cls")]) > MOST:
                    found.add(f"{file.relative_to(SOURCES / 'pretrieve')} {node.name}")
    assert not found, f"group what belongs together, as a dataclass: {sorted(found)}"
