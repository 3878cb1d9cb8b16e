"""Index documents for pretrieve search, with the encoder of a directory, by BM25, or by both."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from pretrieve.base.arguments import add_device, required
from pretrieve.base.errors import ConfigError
from pretrieve.base.progress import Progress
from pretrieve.corpora.beir_documents import document_fields
from pretrieve.corpora.language import LANGUAGES, language_of
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.retrieval import bm25
from pretrieve.retrieval.deployment import (
    BM25,
    KINDS,
    PARTS,
    SearchSettings,
    deploying,
    how_to_search,
    is_deployed,
    read_settings,
    write_vectors,
)
from pretrieve.retrieval.document_table import DocumentTable, write_documents
from pretrieve.retrieval.retriever import load
from pretrieve.training.device import Device, choose_device

#: Documents that are encoded at a time, and that tell the language.
BLOCK, SAMPLE = 1024, 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, documents="corpus.jsonl, as pretrieve make-corpus writes it", out="the new directory")
    model = "sentence-transformers directory; one that searches lends its settings too. Without: BM25 alone"
    parser.add_argument("--model", type=Path, help=model)
    kinds = "of a model that has no settings: hybrid (reciprocal ranks), unless given"
    parser.add_argument("--kind", choices=KINDS, help=kinds)
    language = "whose words BM25 stems: auto (told from the texts), or one of " + " ".join(LANGUAGES)
    parser.add_argument("--language", default="auto", choices=("auto", *LANGUAGES), metavar="CODE", help=language)
    add_device(parser)


def main(options: argparse.Namespace) -> None:
    settings = _settings(options.model, options.kind)
    if options.model and options.out.resolve() == options.model.resolve():
        raise ConfigError(f"--out {options.out} is --model; give the new index another directory.")
    warnings = Warnings()
    with deploying(options.out, settings) as out:
        count = write_documents(out, _documents(options.documents, warnings))
        if warnings.counts:
            print(warnings.summary())
        table = DocumentTable(out)
        if settings.uses_bm25:
            language = options.language
            if language == "auto":
                language = language_of(islice(table.texts(), SAMPLE)).code
                print(f"language of the documents: {language}")
            bm25.build_index(zip(table.ids, table.texts(), strict=True), out / BM25, options.threads, language)
        if settings.uses_dense:
            _copy_model(options.model, out)
            write_vectors(out, _encoded(out, table, choose_device(options.precision, options.threads)))
        else:
            (out / "README.md").write_text(how_to_search(settings) + "\n", encoding="utf-8")
    print(f"{count:,} documents, searched by {settings.said} -> {options.out}")


def _settings(model: Path | None, kind: str | None) -> SearchSettings:
    if model is None:
        if kind not in (None, "bm25"):
            raise ConfigError(f"--kind {kind} needs an encoder; give --model DIR, or leave --kind out for BM25 alone.")
        return SearchSettings("bm25")
    if not is_deployed(model):
        return SearchSettings(kind or "hybrid", weights="rrf")
    own = read_settings(model)
    if own.kind == "bm25" and kind != "bm25" and kind is not None:
        raise ConfigError(f"--model {model}: searches by BM25 alone and has no encoder; leave --kind out.")
    return replace(own, kind=kind or own.kind, weights=own.weights or "rrf")


def _documents(path: Path, warnings: Warnings) -> Iterator[tuple[str, str, str]]:
    """(id, title, text) of every document that has one of the two."""
    for line, record in read_json_lines(path, ("_id", "text"), warnings=warnings):
        doc_id, title, text = document_fields(record, path, line, warnings)
        if title.strip() or text.strip():
            yield doc_id, title, text
        else:
            warnings.add("document without text, left out", f"{path}: line {line}: {doc_id!r}")


def _copy_model(model: Path, out: Path) -> None:
    """The encoder's files, without what a search needs beside it."""
    hidden = shutil.ignore_patterns(".*", *PARTS)
    left_out = lambda folder, names: hidden(folder, names) if Path(folder) == model else set()
    shutil.copytree(model, out, ignore=left_out, dirs_exist_ok=True)


def _encoded(model: Path, table: DocumentTable, device: Device) -> Iterator[np.ndarray]:
    """The vectors of the documents, block by block, computed as the workflow does."""
    retriever = replace(load(model, device=str(device.device)), device=device)
    texts = table.texts()
    with Progress("index", len(table), "documents") as progress:
        while block := list(islice(texts, BLOCK)):
            yield retriever.encode_passages(block)
            progress.advance(len(block))
