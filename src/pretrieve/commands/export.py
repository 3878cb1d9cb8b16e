"""Export one retriever as a sentence-transformers directory with a model card."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_base, add_licences, json_object, required
from pretrieve.base.errors import ConfigError
from pretrieve.base.given import given_number
from pretrieve.models.sentence_modules import Reading
from pretrieve.retrieval.export import export
from pretrieve.retrieval.model_card import CardFacts, base_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, retriever="", tokenizer="tokenizer.json of its vocabulary")
    required(parser, int, query_length="", passage_length="")
    parser.add_argument("--metrics", type=Path, nargs="*", default=[], help="metrics files, for the model card")
    add_licences(parser)
    add_base(parser)
    parser.add_argument("--prompts", type=json_object, default={}, help='JSON, such as {"query": "question: "}')
    parser.add_argument("--part", default="", help="cls: export that part of a joint representation alone")
    required(parser, Path, out="")


def main(options: argparse.Namespace) -> None:
    sides = ("query", "document")
    if others := set(options.prompts).difference(sides):
        raise ConfigError(f"--prompts: {', '.join(sorted(others))}; expected no keys but query and document.")
    for side, prompt in options.prompts.items():
        if not isinstance(prompt, str):
            raise ConfigError(f"--prompts: {side} is {prompt!r}; expected a text, which is put in front of others.")
    for name in ("query_length", "passage_length"):
        given_number(getattr(options, name), f"--{name.replace('_', '-')}", 3, "3 or more, special tokens included")
    reading = Reading(options.query_length, options.passage_length, *(options.prompts.get(side, "") for side in sides))
    facts = CardFacts(options.metrics, options.licences, base_of(options.base))
    export(options.retriever, options.tokenizer, options.out, reading, facts, options.part)
