"""Write the table of sources and licences in docs/raw-files.md anew from resources/sources.tsv."""

import argparse
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.raw.licences import licence_table, with_table
from pretrieve.raw.sources import read_sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, default=Path("resources/sources.tsv"))
    parser.add_argument("--page", type=Path, default=Path("docs/raw-files.md"))
    arguments = parser.parse_args()
    table = licence_table(read_sources(arguments.sources).values())
    arguments.page.write_text(with_table(arguments.page.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    run_program(main)
