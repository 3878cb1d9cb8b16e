"""pretrieve: pre-training for dense retrieval, from raw text to result tables.

The rules of the workflow run these commands, and every one of them can be run by hand: pretrieve COMMAND --help.
"""

import ast
import shutil
import sys
import textwrap
from pathlib import Path

from pretrieve import __version__
from pretrieve.base.errors import nearest
from pretrieve.base.program import run_command, run_program

#: What each command does is the first line of its module in :mod:`pretrieve.commands`; none is imported to list them.
GROUPS = {
    "raw files": ("fetch", "fetch-checkpoint", "fetch-table", "raw-files-page", "make-rehearsal-data"),
    "corpora and tasks": (
        *("corpus", "tokens", "pair-statistics", "collection", "task", "overlap"),
        *("make-corpus", "make-example-corpus"),
    ),
    "training": ("pretrain", "finetune", "bm25", "mine", "published-negatives"),
    "retrieval and scores": ("retrieve", "predict", "evaluate", "mean", "analyse", "export"),
    "search in your own documents": ("search", "index", "evaluate-model"),
    "tables, figures and the report": (
        *("table", "figure", "claims", "league", "report", "my-corpus-table", "my-corpus-export"),
        *("my-corpus-plan", "my-corpus-hybrids", "my-corpus-rerank", "my-corpus-speed"),
        *("status", "report-time", "compare-runs", "publish"),
    ),
    "running": ("check-config", "estimate", "bundle", "unbundle", "keep-scores", "take-scores", "warm-up"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)


def overview() -> str:
    """All commands, a line each, in groups."""
    folder, width = Path(__file__).parent / "commands", min(shutil.get_terminal_size().columns, 120)
    lines = ["usage: pretrieve COMMAND [OPTIONS]", "", *(__doc__ or "").strip().splitlines()]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:"]
        for name in names:
            source = (folder / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
            first = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
            lines.append(textwrap.fill(f"  {name:<22}{first}", width, subsequent_indent=" " * 24))
    return "\n".join(lines)


def main() -> None:
    name, *words = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        run_program(lambda: print(overview()), [])
    elif name == "--version":
        print(f"pretrieve {__version__}")
    elif name in COMMANDS:
        run_command(name, words, f"pretrieve {name}")
    else:
        sys.exit(f"pretrieve: {name!r} is no command{nearest(name, COMMANDS)}; pretrieve --help lists them.")


if __name__ == "__main__":
    main()
