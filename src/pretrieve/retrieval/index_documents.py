"""Documents → a directory to search in (:mod:`pretrieve.retrieval.deployment`), by BM25, an encoder, or both."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.given import given_number, given_texts
from pretrieve.base.progress import Progress
from pretrieve.corpora.language import language_of
from pretrieve.models.sentence_files import expect_modules
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_text import check_id
from pretrieve.retrieval import bm25
from pretrieve.retrieval.deployment import (
    BM25,
    PARTS,
    SearchSettings,
    deploying,
    is_deployed,
    read_settings,
    write_bm25_card,
    write_vectors,
)
from pretrieve.retrieval.document_table import DocumentTable, write_documents
from pretrieve.retrieval.retriever import Retriever, load
from pretrieve.training.device import choose_device

#: Documents that are encoded at a time, and that tell the language.
BLOCK, SAMPLE = 1024, 2000
#: Shares of a hybrid whose model has no settings.
EVEN = {"bm25": 0.5, "dense": 0.5}


def index_documents(
    out: Path | str,
    documents: Iterable[tuple[str, str, str]],
    model: Path | str | None = None,
    kind: str | None = None,
    language: str = "auto",
    threads: int = 1,
    precision: str = "auto",
) -> SearchSettings:
    """Make ``out``, which :func:`pretrieve.load_index` opens, and return how it searches.

    Parameters
    ----------
    documents : (id, title, text); ids differ, and a title may be ''
    model : a directory of sentence-transformers that :func:`pretrieve.load` reads; one that searches already lends its settings
        too. None: BM25 alone
    kind : ``bm25``, ``dense`` or ``hybrid``; by default the model's own, or a hybrid, an even sum
    language : whose words BM25 stems, one of :data:`pretrieve.corpora.language.LANGUAGES`; ``auto``: the
        model's own, if it searches by BM25, or told from the texts
    precision : of the encoder, as :func:`pretrieve.training.device.choose_device` takes it, or ``int8``
        (:mod:`pretrieve.models.int8`)

    Raises
    ------
    ConfigError
        when the options do not fit together, or ``out`` holds something that is not an earlier index.
    DataError
        when there is no document, one is not three texts, an id is '', too long or appears twice, or the model cannot be read.
    """
    out, model = Path(out), None if model is None else Path(model)
    threads = given_number(threads, "threads")
    if model is not None and out.resolve() == model.resolve():
        raise ConfigError(f"{out}: is the model's own directory; give the new index another one.")
    settings = _settings(model, kind, precision)
    # Before the documents are read: what is wrong with a model is said at once.
    retriever = _load(model, precision) if settings.uses_dense and model is not None else None
    with deploying(out, settings) as building:
        write_documents(building, _checked(documents))
        table = DocumentTable(building)
        if settings.uses_bm25:
            stems = _stems(model, table) if language == "auto" else language
            bm25.build_index(zip(table.ids, table.texts(), strict=True), building / BM25, threads, stems)
        if retriever is not None and model is not None:
            _copy_model(model, building)
            write_vectors(building, _encoded(retriever, table, threads))
        else:
            write_bm25_card(building, settings)
    return settings


def _stems(model: Path | None, table: DocumentTable) -> str:
    """The language of the model's own index, or else that of the documents."""
    lent = None if model is None else model / BM25 / "language.json"
    if lent is not None and lent.is_file():
        return read_json(lent, "the language of an index")
    found = language_of(islice(table.texts(), SAMPLE)).code
    print(f"language of the documents: {found}", file=sys.stderr)
    return found


def _checked(documents: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    for number, document in enumerate(documents):
        if not isinstance(document, tuple | list) or len(document) != 3 or document[0] == "":
            raise DataError(
                f"documents[{number}]: {repr(document)[:80]}; expected (id, title, text), and an id that is not ''."
            )
        doc_id, *texts = given_texts(document, f"documents[{number}]")
        check_id(f"documents[{number}]: its id", doc_id)
        yield doc_id, *texts


def _settings(model: Path | None, kind: str | None, precision: str) -> SearchSettings:
    if model is None:
        if kind not in (None, "bm25"):
            raise ConfigError(f"kind {kind!r} needs an encoder; give a model, or leave the kind out for BM25 alone.")
        if precision != "auto":
            raise ConfigError(f"precision {precision!r} is an encoder's; give a model, or leave it out for BM25 alone.")
        return SearchSettings("bm25")
    if not is_deployed(model):
        expect_modules(model)  # nothing else says how its tokens become a vector
        return SearchSettings(kind or "hybrid", weights=EVEN)
    own = read_settings(model)
    if own.kind == "bm25" and kind != "bm25" and kind is not None:
        raise ConfigError(f"{model}: searches by BM25 alone and has no encoder for kind {kind!r}; leave the kind out.")
    return replace(own, kind=kind or own.kind, weights=own.weights or EVEN)


def _copy_model(model: Path, out: Path) -> None:
    """The encoder's files, without the others that a search needs."""
    hidden = shutil.ignore_patterns(".*", *PARTS)
    left_out = lambda folder, names: hidden(folder, names) if Path(folder) == model else set()
    shutil.copytree(model, out, ignore=left_out, dirs_exist_ok=True)
    for folder, _, _ in os.walk(out):  # a model may be where nothing can be written, and its folders are copied so
        os.chmod(folder, os.stat(folder).st_mode | stat.S_IRWXU)


def _load(model: Path, precision: str) -> Retriever:
    int8 = precision == "int8"
    device = choose_device("fp32" if int8 else precision)
    return replace(load(model, device=str(device.device), int8=int8), device=device)


def _encoded(retriever: Retriever, table: DocumentTable, threads: int) -> Iterator[np.ndarray]:
    """The vectors of the documents, block by block, each computed by one thread as the workflow does, or by the GPU."""
    threads = threads if retriever.device.device.type == "cpu" else 1
    texts = table.texts()
    blocks = iter(lambda: list(islice(texts, BLOCK)), [])
    # Whole blocks side by side: two threads inside a matrix product are 1.4 times as fast as one, and two blocks 1.9 times.
    with (
        Progress("index", len(table), "documents") as progress,
        ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        waiting = deque(pool.submit(retriever.encode_passages, block) for block in islice(blocks, threads + 1))
        while waiting:
            vectors = waiting.popleft().result()
            waiting.extend(pool.submit(retriever.encode_passages, block) for block in islice(blocks, 1))
            yield vectors
            progress.advance(len(vectors))
