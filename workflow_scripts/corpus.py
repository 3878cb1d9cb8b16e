"""Build a corpus: raw files in the format of READER → articles, sections, passages, links as Parquet.

corpus.py mediawiki --files dump=enwiki.xml.bz2 leads=leads.json --out corpus
corpus.py folder --files folder=notes --out corpus
corpus.py --part wikispeedia=wikispeedia articles=a.tar.gz links=l.tsv --part enwiki=extracted text=AA.txt --out corpus
"""

import argparse
from pathlib import Path

from pretrieve.base.errors import ConfigError
from pretrieve.base.program import run_program
from pretrieve.corpora.parts import build
from pretrieve.corpora.readers import READERS, Part


def named(entries: list[str], what: str) -> dict[str, str]:
    """``["dump=a.xml"]`` → ``{"dump": "a.xml"}``."""
    pairs = [entry.partition("=") for entry in entries]
    for entry, (name, equals, value) in zip(entries, pairs, strict=True):
        if not (name and equals and value) or sum(name == other for other, _, _ in pairs) > 1:
            raise ConfigError(f"{what}: found {entry!r}; expected NAME=VALUE, each name once.")
    return {name: value for name, _, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", nargs="?", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--files", nargs="+", default=[], metavar="NAME=PATH", help="the reader's files")
    parser.add_argument("--part", nargs="+", action="append", default=[], metavar="NAME=READER|FILE=PATH")
    parser.add_argument("--exclude", type=Path, help="titles whose articles are left out, one a line")
    parser.add_argument("--out", type=Path, required=True, help="directory of the corpus")
    parser.add_argument("--expect", nargs="*", default=[], metavar="COUNT=N", help="counts that must come out")
    arguments = parser.parse_args()
    if bool(arguments.reader) == bool(arguments.part):
        raise ConfigError("corpus.py: expected either READER --files …, or one --part or more.")
    parts = [Part("corpus", arguments.reader, named(arguments.files, "--files"))] if arguments.reader else []
    for first, *files in arguments.part:
        ((name, reader),) = named([first], "--part").items()
        parts.append(Part(name, reader, named(files, f"--part {name}")))
    expected = {key: int(value) for key, value in named(arguments.expect, "--expect").items()}
    counts = build(parts, arguments.out, expected, arguments.exclude)
    numbers = {name: count for name, count in counts.items() if isinstance(count, int)}
    print("corpus:", ", ".join(f"{count:,} {name}" for name, count in sorted(numbers.items())))


if __name__ == "__main__":
    run_program(main)
