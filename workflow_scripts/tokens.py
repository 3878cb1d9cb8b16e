"""Train the vocabulary of a corpus (or take a given vocab.txt), and write the corpus as a token store."""

import argparse
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.text.corpus_tokens import build_vocabulary, tokenise_corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    vocabulary = commands.add_parser("vocabulary", help="write tokenizer.json")
    vocabulary.add_argument("--corpus", type=Path, required=True)
    vocabulary.add_argument("--size", type=int, required=True, help="entries at most")
    vocabulary.add_argument("--given", type=Path, help="a BERT vocab.txt to use instead of training one")
    vocabulary.add_argument("--out", type=Path, required=True)
    store = commands.add_parser("store", help="write the token store")
    store.add_argument("--corpus", type=Path, required=True)
    store.add_argument("--tokenizer", type=Path, required=True)
    store.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "vocabulary":
        tokenizer = build_vocabulary(arguments.corpus, arguments.size, arguments.given, arguments.out)
        print(f"vocabulary: {tokenizer.get_vocab_size():,} entries")
    else:
        result = tokenise_corpus(arguments.corpus, arguments.tokenizer, arguments.out)
        print(
            f"token store: {len(result.tokens):,} tokens, {result.n_sentences:,} sentences, {result.n_passages:,} passages"
        )


if __name__ == "__main__":
    run_program(main)
