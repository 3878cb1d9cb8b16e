"""Read a retrieval benchmark in its official layout into a collection directory."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import json_object, named_values, required
from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.official.beir import beir_files, not_read
from pretrieve.benchmarks.readers import READERS
from pretrieve.benchmarks.reading import build_collection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reader", help=", ".join(name for name, one in READERS.items() if one.collection))
    parser.add_argument("--files", nargs="*", default=[], metavar="NAME=PATH", help="files of the layout, by name")
    parser.add_argument("--directory", type=Path, help="beir: a directory in the layout, in place of --files")
    parser.add_argument(
        "--options", type=json_object, default={}, metavar="JSON", help='of the reader: {"official": false}'
    )
    required(parser, Path, out="collection directory to write")


def main(args: argparse.Namespace) -> None:
    files = {name: Path(path) for name, path in named_values(args.files, "--files").items()}
    if args.directory is not None:
        if args.reader != "beir" or files:
            raise ConfigError("--directory goes with the reader beir alone, and without --files.")
        files = beir_files(args.directory)
        for name in not_read(args.directory):
            print(f"warning: {args.directory}/qrels/{name} is not read; expected train.tsv, dev.tsv or test.tsv")
    collection = build_collection(args.reader, files, args.out, args.options)
    for kind, warning in collection.stats["warnings"].items():
        print(f"warning: {kind}: {warning['count']:,}, the first: {warning['first']}")
    print("collection:", ", ".join(f"{count:,} {name}" for name, count in sorted(collection.stats["counts"].items())))
