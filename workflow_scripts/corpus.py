"""Build a corpus: MediaWiki dump (and leads) → articles, sections, passages, links as Parquet."""

import argparse
from pathlib import Path

from pretrieve.cli import run_program
from pretrieve.corpora.encyclopedia import build_encyclopedia


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dump", type=Path, required=True, help="MediaWiki XML export, plain, .gz or .bz2")
    parser.add_argument("--leads", type=Path, help="encyclopaedia leads as JSON")
    parser.add_argument("--out", type=Path, required=True, help="directory of the corpus")
    parser.add_argument("--expect", nargs="*", default=[], metavar="COUNT=N", help="counts that must come out")
    arguments = parser.parse_args()
    expected = {key: int(value) for key, _, value in (item.partition("=") for item in arguments.expect)}
    counts = build_encyclopedia(arguments.dump, arguments.leads, arguments.out, expected)
    print("corpus:", ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    run_program(main)
