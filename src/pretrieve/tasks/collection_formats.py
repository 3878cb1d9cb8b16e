"""Which official layouts of retrieval benchmarks there are, and the names of their files: what the workflow must know of
:mod:`pretrieve.tasks.collection_readers` before any job starts. Standard library only, for every call of Snakemake reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pretrieve.errors import ConfigError, nearest


class Layout(NamedTuple):
    """Names of the files of a layout. answers: its collections have answers to match, and so have tasks made of them."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    answers: bool = False


_SPLITS = ("train", "dev", "test")
_MSMARCO = (*(f"{split}_{what}" for split in _SPLITS for what in ("queries", "qrels")), "negatives")

LAYOUTS: dict[str, Layout] = {
    "beir": Layout(("corpus", "queries"), _SPLITS),
    "msmarco-passage": Layout(("collection",), ("titles", *_MSMARCO)),
    "msmarco-document": Layout(("docs",), _MSMARCO),
    "dpr": Layout((), ("passages", *_SPLITS), answers=True),
    "corpus": Layout(("articles", "passages"), _SPLITS, answers=True),
    "inverse-cloze": Layout(("corpus",)),
}


def check_files(reader: str, files: Mapping[str, str]) -> None:
    """Check the names of a data set's files.

    Raises
    ------
    ConfigError
        for a file that the layout has not, or a missing one.
    """
    layout = LAYOUTS[reader]
    known = (*layout.required, *layout.optional)
    for name in files:
        if name not in known:
            raise ConfigError(f"files.{name}: reader {reader} takes {', '.join(known)}{nearest(name, known)}")
    missing = [name for name in layout.required if name not in files]
    if missing or not files:
        raise ConfigError(
            f"files: reader {reader} needs {', '.join(missing or known)}; found {', '.join(files) or 'none'}"
        )
