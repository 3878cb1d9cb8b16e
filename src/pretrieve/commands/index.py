"""Index documents for pretrieve search, with the encoder of a directory, by BM25, or by both."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from pretrieve.base.arguments import add_threads, required
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.beir_documents import Ids, read_documents
from pretrieve.corpora.language import LANGUAGES
from pretrieve.raw.raw_text import Warnings
from pretrieve.retrieval.deployed_index import load_index
from pretrieve.retrieval.deployment import KINDS
from pretrieve.retrieval.index_documents import index_documents
from pretrieve.training.device import PRECISIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, documents="corpus.jsonl, as pretrieve make-corpus writes it", out="the new directory")
    model = "sentence-transformers directory; one that searches lends its settings too. Without: BM25 alone"
    parser.add_argument("--model", type=Path, help=model)
    kinds = "of a model that has no settings: hybrid (an even sum), unless given"
    parser.add_argument("--kind", choices=KINDS, help=kinds)
    language = "whose words BM25 stems: auto (the model's own, or told from the texts), or one of " + " ".join(
        LANGUAGES
    )
    parser.add_argument("--language", default="auto", choices=("auto", *LANGUAGES), metavar="CODE", help=language)
    add_threads(parser)
    precision = "auto: fp32 or bf16, whichever the processor runs faster; int8: faster on a CPU, scores vary slightly"
    parser.add_argument("--precision", default="auto", choices=(*PRECISIONS, "int8"), help=precision)


def main(options: argparse.Namespace) -> None:
    out = options.out.resolve()  # of a folder that is replaced, '.' is the old one
    if out in options.documents.resolve().parents:  # the earlier index is removed as a whole
        raise ConfigError(
            f"--out {options.out}: {options.documents} is in it and would be removed; give a new directory."
        )
    warnings = Warnings()
    documents = _documents(options.documents, warnings)
    more = (options.model, options.kind, options.language, options.threads, options.precision)
    settings = index_documents(out, documents, *more)
    if warnings.counts:
        print(warnings.summary())
    print(f"{len(load_index(out)):,} documents, searched by {settings.said} -> {options.out}")


def _documents(path: Path, warnings: Warnings) -> Iterator[tuple[str, str, str]]:
    """(id, title, text) of every document that has one of the two."""
    if path.is_dir():
        raise DataError(
            f"{path}: a folder; expected its corpus.jsonl, or what pretrieve make-corpus {path} --out DIR/corpus.jsonl writes."
        )
    ids = Ids("document", path)
    for line, (doc_id, title, text) in read_documents(path, warnings):
        ids.take(doc_id, line)
        if title.strip() or text.strip():
            yield doc_id, title, text
        else:
            warnings.add("document without text, left out", f"{path}: line {line}: {doc_id!r}")
