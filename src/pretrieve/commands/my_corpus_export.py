"""Export the retriever that my-corpus-table chose as a sentence-transformers directory with a model card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.arguments import add_licences, required
from pretrieve.retrieval.export import export


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, choice="choice.json of my-corpus-table", tokenizer="tokenizer.json of its vocabulary")
    add_licences(parser)
    required(parser, Path, out="")


def main(args: argparse.Namespace) -> None:
    choice = json.loads(args.choice.read_text(encoding="utf-8"))
    lengths = (choice["query_length"], choice["passage_length"])
    metrics = [Path(choice["metrics"])]
    export(Path(choice["retriever"]), args.tokenizer, args.out, *lengths, metrics, args.licences)
    print(f"{choice['exported']}, seed {choice['seed']} -> {args.out}")
