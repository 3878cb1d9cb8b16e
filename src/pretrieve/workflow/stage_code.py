"""What code a stage's results depend on, as one short word that its rule has among its parameters.

Snakemake runs a job again when a parameter changed. The word is a hash of the program and of all modules that it imports,
directly or through others, as Python reads them: comments, docstrings, line breaks, the texts of errors and of ``--help`` do
not count, for no result depends on them. So are the modules of :data:`NO_RESULT`. A registry, which imports one of many modules
by its name, is not followed: the rule names the modules that its job uses. Standard library only, for every call of Snakemake
reads it.
"""

import ast
import atexit
import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json

#: The folder that the package is in, wherever it is installed.
ROOT = Path(__file__).resolve().parents[2]

#: Modules that no result depends on → why. What they import counts only where something else imports it.
NO_RESULT = {
    "pretrieve.base.arguments": "the forms of options; their values are parameters of the rule",
    "pretrieve.base.program": "how programs end, what they print, and which process works on a job",
    "pretrieve.base.errors": "texts of errors",
    "pretrieve.base.disk": "what is said of a full disk",
    "pretrieve.base.progress": "what a terminal shows, and how long a run still takes",
    "pretrieve.base.finished_work": "when checkpoints are removed",
    "pretrieve.benchmarks.readers": "a registry: the rule names the data set's entry and module",
    "pretrieve.corpora.readers": "a registry: the rule names the entries and modules of the corpus's formats",
    "pretrieve.pretraining.objectives": "a registry: the rule names the objective's modules",
    "pretrieve.finetuning.trainers": "a registry: the rule names the trainer's modules",
}


class Source(NamedTuple):
    """A module as far as results depend on it: ``digest`` of its code, and what of the project it ``imports``: modules, and
    names in them."""

    digest: str
    imports: list[str]


#: SHA-256 of a file's bytes → its source, as this call or an earlier one has read it.
_READ: dict[str, Source] = {}


def remember(file: Path) -> None:
    """Take what earlier calls have read from ``file``, and write there what this one reads: else a seventh of a dry run is
    reading modules. What is kept counts for modules with the same bytes, and as long as this module has the same."""
    file = file.absolute()
    reader = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    try:
        kept = json.loads(file.read_bytes())
        _READ.update({key: Source(*source) for key, source in kept["sources"].items() if kept["reader"] == reader})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # none yet, or damaged: all are read
    before = len(_READ)

    def write() -> None:
        if len(_READ) > before:
            with suppress(OSError, DataError):  # a folder that cannot be written
                write_json(file, {"reader": reader, "sources": _READ})

    atexit.register(write)


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of the project by its full name; of a command by its own (``pretrain.py``). None: there is none."""
    if module.endswith(".py"):
        module = f"pretrieve.commands.{module.removesuffix('.py')}"
    base = ROOT / Path(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


@cache
def _source(module: str) -> Source:
    file = file_of(module)
    if file is None:
        raise ConfigError(
            f"{module}: no such module, and a registry names it; write src/{module.replace('.', '/')}.py."
        )
    content = file.read_bytes()
    key = hashlib.sha256(content).hexdigest()
    if key not in _READ:
        found: set[str] = set()
        words: list[str] = []
        _add_words(words, ast.parse(content), found)
        own = sorted(name for name in found if name.split(".")[0] == "pretrieve")
        _READ[key] = Source(hashlib.sha256(" ".join(words).encode()).hexdigest(), own)
    digest, names = _READ[key]
    return Source(digest, [name for name in names if name not in NO_RESULT and file_of(name) is not None])


def _add_words(words: list[str], node: object, imports: set[str]) -> None:
    """A part of a syntax tree as words, the same for every version of Python; and the project's modules that it imports.
    One list for all, and no call for each name: the first call of Snakemake waits for it."""
    if isinstance(node, list):
        words.append("[")
        for one in node:
            _add_words(words, one, imports)
        words.append("]")
    elif not isinstance(node, ast.AST):
        words.append(repr(node))
    elif not _decides_nothing(node):
        if isinstance(node, ast.ImportFrom) and node.module:
            imports |= {name for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))}
        elif isinstance(node, ast.Import):
            imports |= {one.name for one in node.names}
        words.append(f"({type(node).__name__}")
        says_only = isinstance(node, ast.Call) and _says_only(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or value == [] or (says_only and name in ("args", "keywords")):
                continue
            words.append(name)
            if type(value) is str:
                words.append(repr(value))
            elif isinstance(value, ast.expr_context):  # Load, Store or Del: half of all nodes
                words.append(f"({type(value).__name__} )")
            else:
                _add_words(words, value, imports)
        words.append(")")


def _decides_nothing(node: ast.AST) -> bool:
    """Docstrings and other lone strings, what is for type checkers, and texts of ``--help``."""
    return (
        (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        or (isinstance(node, ast.keyword) and node.arg == "help")
    )


def _says_only(node: ast.Call) -> bool:
    """``ConfigError(…)``: what an exception says; ``required(parser, Path, out="…")``: what --help says."""
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    return called.endswith("Error") or called in ("required", "required_lists")


def stage_sources(program: str, *modules: str) -> dict[str, str]:
    """Module → digest of its code: the program's own, ``modules``, and all that these import. Raises ConfigError for one of
    ``modules`` that is not there."""
    found: dict[str, str] = {}
    waiting = [program, *modules]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module] = _source(module).digest
            waiting += _source(module).imports
    return found


@cache
def stage_code(program: str, *modules: str, entries: str = "") -> str:
    """The code that a stage's results depend on, in 16 letters and digits.

    program: a command, such as ``pretrain.py``; modules: what its registries choose for this job; entries: what they say of it.
    """
    lines = "".join(f"{module} {digest}\n" for module, digest in sorted(stage_sources(program, *modules).items()))
    lines += entries
    return hashlib.sha256(lines.encode()).hexdigest()[:16]
