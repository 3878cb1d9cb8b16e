"""Read a retrieval benchmark in its official layout into a collection directory."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.errors import ConfigError
from pretrieve.base.program import run_program
from pretrieve.benchmarks.official.beir import beir_files
from pretrieve.benchmarks.official.collection_readers import READERS, build_collection


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", help=", ".join(READERS))
    parser.add_argument("--files", nargs="*", default=[], metavar="NAME=PATH", help="files of the layout, by name")
    parser.add_argument("--directory", type=Path, help="beir: a directory in the layout, in place of --files")
    parser.add_argument("--options", default="{}", metavar="JSON", help='of the reader: {"official": false}')
    parser.add_argument("--out", type=Path, required=True, help="collection directory to write")
    return parser.parse_args()


def parse_files(entries: list[str]) -> dict[str, Path]:
    """``["corpus=a.jsonl"]`` → ``{"corpus": Path("a.jsonl")}``; ConfigError for another form, or a name that comes twice."""
    files: dict[str, Path] = {}
    for entry in entries:
        name, equals, path = entry.partition("=")
        if not equals or not name or not path:
            raise ConfigError(f"--files: {entry!r} is not NAME=PATH, such as corpus=corpus.jsonl.gz.")
        if name in files:
            raise ConfigError(f"--files: '{name}' is given twice, as {files[name]} and {path}; give each name once.")
        files[name] = Path(path)
    return files


def main() -> None:
    args = parse_arguments()
    try:
        options = json.loads(args.options)
    except ValueError as error:
        raise ConfigError(f"--options: {args.options!r} is not JSON ({error}).") from None
    if not isinstance(options, dict):
        raise ConfigError(f'--options: {args.options!r} is no JSON object such as {{"official": false}}.')
    files = parse_files(args.files)
    if args.directory is not None:
        if args.reader != "beir" or files:
            raise ConfigError("--directory goes with the reader beir alone, and without --files.")
        files = beir_files(args.directory)
    collection = build_collection(args.reader, files, args.out, options)
    for kind, warning in collection.stats["warnings"].items():
        print(f"warning: {kind}: {warning['count']:,}, the first: {warning['first']}")
    print("collection:", ", ".join(f"{count:,} {name}" for name, count in sorted(collection.stats["counts"].items())))


if __name__ == "__main__":
    run_program(main)
