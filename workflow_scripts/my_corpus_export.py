"""Export the retriever that my_corpus_table.py chose as a sentence-transformers directory with a model card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.retrieval.export import export


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choice", type=Path, required=True, help="choice.json of my_corpus_table.py")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of its vocabulary")
    parser.add_argument("--licences", nargs="*", default=[], help="lines about the training data, for the model card")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    choice = json.loads(args.choice.read_text(encoding="utf-8"))
    lengths = (choice["query_length"], choice["passage_length"])
    metrics = [Path(choice["metrics"])]
    export(Path(choice["retriever"]), args.tokenizer, args.out, *lengths, metrics, args.licences)
    print(f"{choice['exported']}, seed {choice['seed']} -> {args.out}")


if __name__ == "__main__":
    run_program(main)
