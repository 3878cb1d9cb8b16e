"""Write the table of sources and licences in docs/raw-files.md anew from resources/sources.tsv."""

import argparse
from pathlib import Path

from pretrieve.raw.licences import licence_table, with_table
from pretrieve.raw.sources import read_sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sources", type=Path, default=Path("resources/sources.tsv"))
    parser.add_argument("--page", type=Path, default=Path("docs/raw-files.md"))


def main(arguments: argparse.Namespace) -> None:
    table = licence_table(read_sources(arguments.sources).values())
    arguments.page.write_text(with_table(arguments.page.read_text(encoding="utf-8"), table), encoding="utf-8")
