"""Export one retriever as a sentence-transformers directory with a model card."""

import argparse
import json
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.retrieval.export import export


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--retriever", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of its vocabulary")
    parser.add_argument("--query-length", type=int, required=True)
    parser.add_argument("--passage-length", type=int, required=True)
    parser.add_argument("--metrics", type=Path, nargs="*", default=[], help="metrics files, for the model card")
    parser.add_argument("--licences", nargs="*", default=[], help="lines about the training data, for the model card")
    parser.add_argument("--prompts", type=json.loads, default={}, help='JSON, such as {"query": "question: "}')
    parser.add_argument("--part", default="", help="cls: export that part of a joint representation alone")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    run_program(main)
