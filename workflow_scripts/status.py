"""Print for every table how many of its cells are measured, quoted, not run and failed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.reporting.report.status import configured, format_status
from pretrieve.workflow.config_files import read_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the scale, such as results/demo")
    parser.add_argument("--config", type=Path, metavar="YAML", help="lists the tables")
    parser.add_argument("--tables", nargs="+", metavar="PAPER/TABLE", help="instead of those of the configuration")
    options = parser.parse_args()
    print(format_status(options.results, options.tables or configured(read_config(options.config), "tables")), end="")


if __name__ == "__main__":
    run_program(main)
