"""A directory that answers questions on its own: a model, indexes of a corpus, its documents, and how they are combined.

===============================  ==========================================================================================
search.json                      how it searches, below
config.json, modules.json, …     the encoder (:mod:`pretrieve.retrieval.export`): ``SentenceTransformer(DIR)``, and with one
                                 tower ``AutoModel.from_pretrained(DIR)``. Not there for ``bm25``
dense/index.faiss, index.json    the documents' vectors, a flat faiss index, in the order of documents.parquet. Not there
                                 for ``bm25``
bm25/                            Lucene's index of the documents. Not there for ``dense``
documents.parquet                ``doc_id``, ``title``, ``text``. BM25 and the encoder read title and text with a blank
                                 between them
README.md                        what the model is, and what its training has seen; for ``bm25`` how to search
===============================  ==========================================================================================

``search.json``::

    {"format": 1,
     "kind": "hybrid",                          bm25, dense or hybrid
     "weights": {"bm25": 0.4, "dense": 0.6},    of a hybrid: shares of the two normalised scores, or "rrf"
     "depth": 100,                              hits of each of the two that are fused (pretrieve.retrieval.fusion)
     "bm25": {"k1": 0.9, "b": 0.4}}             Lucene's parameters

A directory has no path to outside and can be moved and copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.retrieval.bm25 import document_ids
from pretrieve.retrieval.document_table import FILE, DocumentTable
from pretrieve.retrieval.index import load_faiss, write_index
from pretrieve.retrieval.whole_folder import whole_folder

KINDS = ("bm25", "dense", "hybrid")
SETTINGS, DENSE, BM25 = "search.json", "dense", "bm25"
FORMAT = 1
#: What a directory has besides its encoder.
PARTS = (SETTINGS, DENSE, BM25, FILE)


@dataclass(frozen=True)
class SearchSettings:
    """How a directory searches (the module's ``search.json``).

    Raises ConfigError for a kind, a weight or a number that is not allowed.
    """

    kind: str
    weights: Mapping[str, float] | str | None = None
    depth: int = 100
    k1: float = 0.9
    b: float = 0.4

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"search: kind {self.kind!r} is not allowed; choose from {', '.join(KINDS)}.")
        if self.kind == "hybrid" and self.weights != "rrf" and not _are_weights(self.weights):
            raise ConfigError(
                f"search: weights {self.weights!r}; expected 'rrf', or shares such as {{'bm25': 0.4, 'dense': 0.6}}."
            )
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (self.k1, self.b))
        counts = isinstance(self.depth, int) and not isinstance(self.depth, bool) and 1 <= self.depth < 2**31
        if not counts or not numbers or not 0 <= self.k1 <= 1000 or not 0 <= self.b <= 1:
            raise ConfigError(
                f"search: depth={self.depth!r}, k1={self.k1!r}, b={self.b!r}; expected a whole depth from 1 to 2³¹, k1 from 0 "
                "to 1000 and b from 0 to 1."
            )

    @property
    def uses_bm25(self) -> bool:
        return self.kind != "dense"

    @property
    def uses_dense(self) -> bool:
        return self.kind != "bm25"

    @property
    def bm25_share(self) -> float | None:
        """BM25's share in a hybrid, 0 to 1; None: reciprocal ranks."""
        if not isinstance(self.weights, Mapping):
            return None
        return self.weights["bm25"] / (self.weights["bm25"] + self.weights["dense"])

    @property
    def said(self) -> str:
        """How it searches, in words."""
        if self.kind == "hybrid":
            share = self.bm25_share
            how = "by reciprocal ranks" if share is None else f"with weights {share:.2g} and {1 - share:.2g}"
            return f"BM25 and the encoder's vectors, fused {how}"
        return "BM25" if self.kind == "bm25" else "the encoder's vectors"


def _are_weights(given: Any) -> bool:
    """Whether these are two shares of which one is above zero."""
    if not isinstance(given, Mapping) or set(given) != {"bm25", "dense"}:
        return False
    values = list(given.values())
    return all(isinstance(value, int | float) and 0 <= value < float("inf") for value in values) and sum(values) > 0


def write_bm25_card(directory: Path, settings: SearchSettings) -> None:
    """README.md of a directory without a model."""
    (directory / "README.md").write_text(f"# Search by BM25\n\n{how_to_search(settings)}\n", encoding="utf-8")


def how_to_search(settings: SearchSettings) -> str:
    """Markdown for the card of a directory."""
    return (
        f"With the documents that lie beside it this directory searches by {settings.said} (`search.json`):\n\n"
        '```\npretrieve search --index path/to/this/directory "where do anchors hold?"\n```'
    )


@contextmanager
def deploying(out: Path, settings: SearchSettings) -> Iterator[Path]:
    """A folder to put the parts into, which becomes ``out`` when the block ends and all of them are there.

    Raises ConfigError when ``out`` holds something that is no earlier deployment, and DataError when a part that the kind needs
    is missing, or has another number of documents.
    """
    out = Path(out).resolve()  # what a link leads to is replaced, not the link
    if out.exists() and not (out.is_dir() and (is_deployed(out) or not any(out.iterdir()))):
        raise ConfigError(f"{out}: exists and is not an earlier index, so it is not replaced; give a new directory.")
    with whole_folder(out) as building:
        yield building
        _finish(building, settings)


def write_vectors(directory: Path, blocks: Iterable[np.ndarray]) -> None:
    """Write the faiss index of the documents' vectors, (n, width) float32 blocks in the order of the documents."""
    index = None
    for block in blocks:
        index = load_faiss(1).IndexFlatIP(block.shape[1]) if index is None else index
        index.add(np.ascontiguousarray(block, dtype=np.float32))
    if index is None:
        raise DataError(f"{directory}: there are no vectors to search in; expected one for each document.")
    write_index(index, Path(directory) / DENSE, "Flat", "")


def _finish(directory: Path, settings: SearchSettings) -> None:
    """Write ``search.json``, once every part is there."""
    counts = {FILE: len(DocumentTable(directory))}
    if settings.uses_dense:
        counts[DENSE] = _rows_of(directory / DENSE / "index.json")
    if settings.uses_bm25:
        counts[BM25] = len(document_ids(directory / BM25))
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
        raise DataError(f"{directory}: its parts are of different documents: {said}; make all of them again.")
    about: dict[str, Any] = {"format": FORMAT, "kind": settings.kind, "depth": settings.depth}
    about |= {"weights": settings.weights} if settings.kind == "hybrid" else {}
    about |= {"bm25": {"k1": settings.k1, "b": settings.b}} if settings.uses_bm25 else {}
    write_json(directory / SETTINGS, about)


def _rows_of(path: Path) -> int:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: missing or damaged ({error}); make the directory again.") from None


def is_deployed(directory: Path) -> bool:
    """Whether a directory has a ``search.json``."""
    return (Path(directory) / SETTINGS).is_file()


def read_settings(directory: Path) -> SearchSettings:
    """How a directory searches.

    Raises DataError when it is no such directory, or ``search.json`` is damaged or of another format.
    """
    directory, path = Path(directory), Path(directory) / SETTINGS
    if not path.is_file():
        model = (directory / "modules.json").is_file() or (directory / "config.json").is_file()
        raise DataError(
            f"{directory}: has no {SETTINGS}, so there is nothing to search in; "
            + (
                f"it is a model: pretrieve index --model {directory} --documents corpus.jsonl --out NEW_DIR makes an index."
                if model
                else "expected a directory that `make my-corpus` or `pretrieve index` made."
            )
        )
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["format"] != FORMAT:
            raise DataError(
                f"{path}: format {said['format']!r}; this version reads {FORMAT}: make the directory again."
            )
        return SearchSettings(said["kind"], said.get("weights"), said["depth"], **said.get("bm25", {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__} {error}); make the directory again.") from None
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from None
