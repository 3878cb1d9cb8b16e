"""Which of the project's files a program uses: the code that a stage's results depend on. Standard library only."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from pretrieve.base.code_folder import code_file

SOURCE_ROOT = code_file("src")
#: The module that imports every objective's module, and what else it imports from there.
OBJECTIVES_FILE = SOURCE_ROOT / "pretrieve/pretraining/objectives.py"
SHARED_BY_OBJECTIVES = ("setting.py", "__init__.py")
#: Objectives whose module has another name.
OBJECTIVE_MODULES = {"pairs": "contrastive"}
#: The module that imports what trains each kind of recipe; and what else it imports from there.
TRAINERS_FILE = SOURCE_ROOT / "pretrieve/finetuning/trainers.py"
SHARED_BY_TRAINERS = ("fine_tuning.py", "__init__.py")


@cache
def _imports(path: Path) -> tuple[Path, ...]:
    """The project's own modules that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pretrieve":
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.split(".")[0] == "pretrieve")
    found = []
    for name in sorted(names):
        base = SOURCE_ROOT / Path(*name.split("."))
        found += [file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()]
    return tuple(found)


def stage_sources(script: str, objective: str | None = None, trainer: str | None = None) -> list[str]:
    """The source files that a program uses, directly or through others: the code a stage's results depend on.

    Snakemake compares their content, so an edit reruns exactly the stages that use the file, and a touch reruns nothing.
    ``objective``: of the list of pre-training objectives only this one's file is followed ('' for none), so that an edit of one
    method leaves the encoders of all others alone. ``trainer``: the same for what fine-tunes.
    """
    followed = {}
    if objective is not None:
        wanted = OBJECTIVE_MODULES.get(objective, objective).replace("-", "_")
        followed[OBJECTIVES_FILE] = (f"{wanted}.py", *SHARED_BY_OBJECTIVES)
    if trainer is not None:
        followed[TRAINERS_FILE] = (f"train_{trainer.replace('-', '_')}.py", *SHARED_BY_TRAINERS)
    seen: set[Path] = set()
    waiting = [code_file("workflow_scripts") / script]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        found = _imports(path)
        if path in followed:
            found = [file for file in found if file.parent != path.parent or file.name in followed[path]]
        waiting += found
    return sorted(str(path) for path in seen if path.stat().st_size)
