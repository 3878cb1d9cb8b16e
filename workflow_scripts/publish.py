"""Publish a finished run: copy its tables to results/published and show one of them in README.md."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from pretrieve.cli import run_program
from pretrieve.reporting.publish import publish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the scale, such as results/demo")
    parser.add_argument("--tables", nargs="+", required=True, metavar="PAPER/TABLE", help="every configured table")
    parser.add_argument("--config", type=Path, required=True, metavar="YAML", help="configuration of the run")
    parser.add_argument("--repository", type=Path, default=Path("."), metavar="FOLDER", help="checkout with README.md")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today(), metavar="YYYY-MM-DD")
    parser.add_argument("--readme-table", default="pretraining_tasks/table3", metavar="PAPER/TABLE")
    options = parser.parse_args()
    target = publish(
        options.results,
        options.tables,
        options.config,
        options.repository,
        options.date.isoformat(),
        options.readme_table,
    )
    print(f"published to {target}; README.md shows {options.readme_table}. Both are yours to commit.")


if __name__ == "__main__":
    run_program(main)
