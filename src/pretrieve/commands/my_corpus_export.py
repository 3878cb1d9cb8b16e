"""Deploy what my-corpus-table chose: retriever, indexes of the corpus and its documents, as one directory to search in."""

import argparse
import shutil
from pathlib import Path

from pretrieve.base import paths
from pretrieve.base.arguments import add_base, add_licences, json_object, required
from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_table
from pretrieve.models.sentence_modules import Reading
from pretrieve.raw.json_file import read_json
from pretrieve.retrieval.deployment import (
    BM25,
    SearchSettings,
    deploying,
    how_to_search,
    write_bm25_card,
    write_vectors,
)
from pretrieve.retrieval.document_table import DocumentTable, write_documents
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.export import export
from pretrieve.retrieval.model_card import CardFacts, base_of
from pretrieve.tasks.collection_tables import Collection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, choice="choice.json of my-corpus-table", tokenizer="tokenizer.json of its vocabulary")
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus_rows.py: search_request")
    add_licences(parser)
    add_base(parser)
    required(parser, Path, out="")


def main(options: argparse.Namespace) -> None:
    choice = read_json(options.choice, "the choice of my-corpus-table")
    try:
        kind, system, weights = (choice["deploy"].get(key) for key in ("kind", "dense", "weights"))
    except (KeyError, TypeError, AttributeError):
        raise DataError(
            f"{options.choice}: has no 'deploy' that says what to search by; make the table again."
        ) from None
    request = options.request
    root, dataset = request["root"], request["dataset"]
    settings = SearchSettings(kind, weights, request["depth"], request["k1"], request["b"])
    with deploying(options.out, settings) as out:
        write_documents(out, Collection(f"{root}/collections/{dataset}").documents())
        _check_order(out, Path(paths.task_dir(root, dataset)) / "corpus.parquet")
        if settings.uses_bm25:
            shutil.copytree(request["index"], out / BM25)
        if settings.uses_dense:
            store = paths.embedding_dir(root, system, dataset, choice["seed"])
            write_vectors(out, (block for _, block in EmbeddingReader(store, "corpus").shards()))
            metrics = [Path(choice["metrics"])]
            if kind == "hybrid":  # before those of the retriever that is a part of it
                measured = paths.metrics_file(root, choice["use"], dataset, choice["seed"])
                metrics.insert(0, Path(measured))
            facts = CardFacts(metrics, options.licences, base_of(options.base), how_to_search(settings))
            reading = Reading(choice["query_length"], choice["passage_length"])
            export(Path(choice["retriever"]), options.tokenizer, out, reading, facts)
        else:
            write_bm25_card(out, settings)
    print(f"{kind}{f' with {system}' if system else ''} -> {options.out}")


def _check_order(out: Path, corpus: Path) -> None:
    """The vectors are in the order of the task's candidates; the documents must be, too."""
    if read_table(corpus, ["doc_id"])["doc_id"].to_pylist() != DocumentTable(out).ids:
        raise DataError(f"{corpus}: has other documents than its collection, or another order; run snakemake again.")
