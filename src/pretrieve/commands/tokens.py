"""Train the vocabulary of a corpus (or take a given vocab.txt), and write the corpus as a token store."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import required
from pretrieve.text.corpus_tokens import build_vocabulary, tokenise_corpus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True)
    vocabulary = commands.add_parser("vocabulary", help="write tokenizer.json")
    required(vocabulary, Path, corpus="")
    required(vocabulary, int, size="entries at most")
    vocabulary.add_argument("--given", type=Path, help="a BERT vocab.txt to use instead of training one")
    required(vocabulary, Path, out="")
    store = commands.add_parser("store", help="write the token store")
    required(store, Path, corpus="", tokenizer="", out="")


def main(arguments: argparse.Namespace) -> None:
    if arguments.command == "vocabulary":
        tokenizer = build_vocabulary(arguments.corpus, arguments.size, arguments.given, arguments.out)
        print(f"vocabulary: {tokenizer.get_vocab_size():,} entries")
    else:
        result = tokenise_corpus(arguments.corpus, arguments.tokenizer, arguments.out)
        print(
            f"token store: {len(result.tokens):,} tokens, {result.n_sentences:,} sentences, {result.n_passages:,} passages"
        )
