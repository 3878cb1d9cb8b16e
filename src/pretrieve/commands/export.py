"""Export one retriever as a sentence-transformers directory with a model card."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_licences, json_object, required
from pretrieve.retrieval.export import export


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, retriever="", tokenizer="tokenizer.json of its vocabulary")
    required(parser, int, query_length="", passage_length="")
    parser.add_argument("--metrics", type=Path, nargs="*", default=[], help="metrics files, for the model card")
    add_licences(parser)
    parser.add_argument("--prompts", type=json_object, default={}, help='JSON, such as {"query": "question: "}')
    parser.add_argument("--part", default="", help="cls: export that part of a joint representation alone")
    required(parser, Path, out="")


def main(arguments: argparse.Namespace) -> None:
    export(
        arguments.retriever,
        arguments.tokenizer,
        arguments.out,
        arguments.query_length,
        arguments.passage_length,
        arguments.metrics,
        arguments.licences,
        arguments.prompts,
        arguments.part,
    )
