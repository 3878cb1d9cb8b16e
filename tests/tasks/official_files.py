"""Small files in the layouts of STS-B, GLUE, MIND and the section triplets, with hard records, for the tests of their
readers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from example_reader import Examples
from tokenizers import Tokenizer

from pretrieve.benchmarks.reading import build_task
from pretrieve.tasks.splits import Target


def put(directory: Path, **contents: str | bytes) -> dict[str, Path]:
    """Write each content to ``{name}.txt``; name → path."""
    files = {name: directory / f"{name}.txt" for name in contents}
    for name, content in contents.items():
        files[name].write_bytes(content if isinstance(content, bytes) else content.encode())
    return files


def tsv(*rows: str, end: str = "\n") -> str:
    """Lines in which `` | `` stands for a tab."""
    return "".join(row.replace(" | ", "\t") + end for row in rows)


def built(
    reader: str, files: Mapping[str, Path], tokenizer: Tokenizer, out: Path, counts: str = "any", **options: object
) -> Examples:
    """The task of a reader, read back; all that may train does."""
    build_task(reader, files, Target(tokenizer, out, {"full": "all"}), options={"counts": counts, **options})
    return Examples(out)


def left_behind(directory: Path) -> list[str]:
    """Files below a task directory."""
    return sorted(path.name for path in directory.rglob("*") if path.is_file())
