"""Which official layouts of retrieval benchmarks there are, and the names of their files: what the workflow must know of
:mod:`pretrieve.benchmarks.official.collection_readers` before any job starts. Standard library only, for every call of
Snakemake reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pretrieve.base.errors import ConfigError, nearest


class Layout(NamedTuple):
    """Names of the files of a layout. answers: its collections have answers to match, and so have tasks made of them.
    from_corpus: tables of the scale's own corpus, which the workflow gives where a data set does not name them. negatives:
    the file without which its collections have no negatives."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    answers: bool = False
    from_corpus: tuple[str, ...] = ()
    negatives: str = ""


_SPLITS = ("train", "dev", "test")
_MSMARCO = (*(f"{split}_{what}" for split in _SPLITS for what in ("queries", "qrels")), "negatives")

LAYOUTS: dict[str, Layout] = {
    "beir": Layout(("corpus", "queries"), _SPLITS),
    "msmarco-passage": Layout(("collection",), ("titles", *_MSMARCO), negatives="negatives"),
    "msmarco-document": Layout(("docs",), _MSMARCO, negatives="negatives"),
    "dpr": Layout((), ("passages", *_SPLITS), answers=True, negatives="train"),
    "corpus": Layout(("articles", "passages"), _SPLITS, answers=True, from_corpus=("articles", "passages")),
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
    missing = [name for name in layout.required if name not in files and name not in layout.from_corpus]
    if missing or not files:
        raise ConfigError(
            f"files: reader {reader} needs {', '.join(missing or known)}; found {', '.join(files) or 'none'}"
        )


def ships_negatives(dataset: Mapping[str, Any]) -> bool:
    """Whether a data set of the configuration comes with negatives of its publisher: MS MARCO's triples where they are named,
    and DPR's hard negatives unless they are left out.

    >>> ships_negatives({"reader": "dpr", "files": {"train": "biencoder-nq-train.json"}})
    True
    """
    layout = LAYOUTS.get(dataset["reader"])
    left_out = (dataset.get("reader_options") or {}).get("negatives") == "none"
    return (
        layout is not None and bool(layout.negatives) and layout.negatives in dataset.get("files", {}) and not left_out
    )
