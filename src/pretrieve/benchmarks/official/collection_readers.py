"""Which official layouts can be read into a collection, what files they consist of, and how many records they have.

A reader is a function ``read(files, writer, **options)`` in a module of its own: it puts what stands in the files into
a :class:`~pretrieve.tasks.collection.CollectionWriter`, says in ``writer.variant`` what it did to the texts, and in
``writer.expected`` which counts the publisher states. :data:`READERS` has them by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.benchmarks.made.corpus_collection import read_corpus
from pretrieve.benchmarks.made.inverse_cloze import read_inverse_cloze
from pretrieve.benchmarks.official import beir, dpr_wikipedia, msmarco
from pretrieve.benchmarks.official.dpr_collection import read_dpr
from pretrieve.benchmarks.official.open_qa import SPLITS
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_tables import Collection, read_collection


@dataclass(frozen=True)
class Reader:
    """An official layout.

    read: the function. required, optional: names of its files. licence: of the data, where it is one for all. source:
    page of the publisher. counts: what the publisher states, for the documentation; the function asserts them.
    """

    read: Callable[..., None]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    licence: str = ""
    source: str = ""
    counts: Mapping[str, int] | None = None

    @property
    def options(self) -> list[str]:
        """Names of the options that it takes."""
        return list(inspect.signature(self.read).parameters)[2:]


READERS: dict[str, Reader] = {
    "beir": Reader(
        beir.read_beir,
        required=("corpus", "queries"),
        optional=beir.QRELS,
        licence="of each set: see its publisher",
        source="https://github.com/beir-cellar/beir",
    ),
    # The topics of TREC Deep Learning are read with these two as well: as test_queries and test_qrels.
    "msmarco-passage": Reader(
        msmarco.read_msmarco_passages,
        *msmarco.PASSAGE_FILES,
        licence=msmarco.TERMS,
        source="https://microsoft.github.io/msmarco/Datasets.html",
        counts={"documents": msmarco.PASSAGES},
    ),
    "msmarco-document": Reader(
        msmarco.read_msmarco_documents,
        *msmarco.DOCUMENT_FILES,
        licence=msmarco.TERMS,
        source="https://microsoft.github.io/msmarco/Datasets.html",
        counts={"documents": msmarco.DOCUMENTS},
    ),
    # Each split is a training file (biencoder-*.json) or questions with answers (*.qa.csv, JSON lines).
    "dpr": Reader(
        read_dpr,
        required=(),
        optional=("passages", *SPLITS),
        licence="passages CC BY-SA 3.0 (Wikipedia); questions: of each set, see its publisher",
        source="https://github.com/facebookresearch/DPR",
        counts={"documents": dpr_wikipedia.OFFICIAL_COUNT},
    ),
    # Passages of 100 words of an own corpus, and the questions that have an answer in them.
    "corpus": Reader(
        read_corpus,
        required=("articles", "passages"),
        optional=SPLITS,
        licence="of the corpus and of the questions: see their sources",
    ),
    # Training pairs of a corpus without training questions: sentences, and the documents they were taken from.
    "inverse-cloze": Reader(read_inverse_cloze, required=("corpus",), licence="of the corpus: see its source"),
}


def build_collection(
    name: str, files: Mapping[str, Path], directory: Path | str, options: Mapping[str, Any] | None = None
) -> Collection:
    """Read ``files`` (name in the layout → path) with the reader ``name`` into a collection directory.

    Raises
    ------
    ConfigError
        for an unknown reader, file name or option, or when a required file is not named.
    DataError
        when a file is missing, damaged or not in the layout.
    """
    if name not in READERS:
        raise ConfigError(
            f"reader '{name}' is unknown; there are {', '.join(sorted(READERS))}{nearest(name, READERS)}."
        )
    reader, options = READERS[name], dict(options or {})
    known = (*reader.required, *reader.optional)
    for given in files:
        if given not in known:
            raise ConfigError(
                f"reader '{name}' has no file '{given}'; it takes {', '.join(known)}{nearest(given, known)}."
            )
    missing = [required for required in reader.required if required not in files]
    if missing:
        raise ConfigError(
            f"reader '{name}' needs {', '.join(missing)}; it takes {', '.join(reader.required)}"
            f"{' and, if there are, ' + ', '.join(reader.optional) if reader.optional else ''}."
        )
    for given, path in files.items():
        if not Path(path).is_file():
            raise DataError(f"{path}: no such file; reader '{name}' expects it as '{given}'.")
    for option in options:
        if option not in reader.options:
            raise ConfigError(
                f"reader '{name}' has no option '{option}'; it has {', '.join(reader.options) or 'none'}"
                f"{nearest(option, reader.options)}."
            )
    with CollectionWriter(directory, name, licence=reader.licence) as writer:
        reader.read({given: Path(path) for given, path in files.items()}, writer, **options)
    return read_collection(directory)
