"""Build a corpus: raw files in the format of READER → articles, sections, passages, links as Parquet.

pretrieve corpus mediawiki --files dump=enwiki.xml.bz2 leads=leads.json --out corpus
pretrieve corpus folder --files folder=notes --out corpus
pretrieve corpus --part wikispeedia=wikispeedia articles=a.tar.gz links=l.tsv --part enwiki=extracted text=AA.txt --out corpus
"""

import argparse
from pathlib import Path

from pretrieve.base.arguments import named_values, required
from pretrieve.base.errors import ConfigError
from pretrieve.corpora.parts import build
from pretrieve.corpora.readers import READERS, Part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reader", nargs="?", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--files", nargs="+", default=[], metavar="NAME=PATH", help="the reader's files")
    parser.add_argument("--part", nargs="+", action="append", default=[], metavar="NAME=READER|FILE=PATH")
    parser.add_argument("--exclude", type=Path, help="titles of articles to skip, one per line")
    required(parser, Path, out="directory of the corpus")
    parser.add_argument("--expect", nargs="*", default=[], metavar="COUNT=N", help="expected counts")


def main(arguments: argparse.Namespace) -> None:
    if bool(arguments.reader) == bool(arguments.part):
        raise ConfigError("corpus: expected either READER --files …, or one --part or more.")
    parts = [Part("corpus", arguments.reader, named_values(arguments.files, "--files"))] if arguments.reader else []
    for first, *files in arguments.part:
        ((name, reader),) = named_values([first], "--part").items()
        parts.append(Part(name, reader, named_values(files, f"--part {name}")))
    expected = {key: int(value) for key, value in named_values(arguments.expect, "--expect").items()}
    counts = build(parts, arguments.out, expected, arguments.exclude)
    numbers = {name: count for name, count in counts.items() if isinstance(count, int)}
    print("corpus:", ", ".join(f"{count:,} {name}" for name, count in sorted(numbers.items())))
