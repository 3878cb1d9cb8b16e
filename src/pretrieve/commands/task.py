"""Make a task of questions, examples or a collection, with a reader of pretrieve/benchmarks/readers.py.

pretrieve task squad --files train=train.json dev=dev.json test=test.json --tokenizer tokenizer.json --sizes full=all --out task
pretrieve task squad --files file=train.json --corpus corpus --options '{"open": true, "max_extra": 1000}' …
pretrieve task sst-2 --files train=train.tsv dev=dev.tsv --options '{"counts": "any"}' …
pretrieve task descriptions --corpus corpus …
pretrieve task collection --files collection=DIR --options '{"title": "prefix"}' …
"""

import argparse
import json
from pathlib import Path

from pretrieve.base.arguments import json_object, named_values, required
from pretrieve.benchmarks.readers import READERS
from pretrieve.benchmarks.reading import build_task
from pretrieve.tasks.splits import Target, parse_sizes
from pretrieve.text.vocabulary import given_tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reader", help=f"{', '.join(name for name, one in READERS.items() if not one.collection)}, collection"
    )
    parser.add_argument("--files", nargs="*", default=[], metavar="NAME=PATH", help="files of the reader, by name")
    parser.add_argument("--corpus", type=Path, help="directory of the corpus that it is made of or searched in")
    parser.add_argument(
        "--options", type=json_object, default={}, metavar="JSON", help="keys of the data set, and of reader_options"
    )
    required(parser, Path, tokenizer="tokenizer.json of the scale", out="task directory to write")
    parser.add_argument(
        "--sizes",
        nargs="+",
        required=True,
        metavar="NAME=PART",
        help="share of what may train, a number, or all: 1pct=0.01 1k=1000 full=all",
    )
    parser.add_argument("--seed", type=int, default=1)


def main(args: argparse.Namespace) -> None:
    files = {name: Path(path) for name, path in named_values(args.files, "--files").items()}
    sizes, tokenizer = parse_sizes(args.sizes), given_tokenizer(args.tokenizer)
    target = Target(tokenizer, args.out, sizes, args.seed)
    print(json.dumps(build_task(args.reader, files, target, args.corpus, args.options)))
