"""Compare a fresh run with the published one, cell by cell, and with the papers; exit 1 where a cell differs."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_config_file
from pretrieve.operations.publish.comparison import (
    check_comparison,
    compare_run,
    format_comparison,
    newest_published,
    open_published,
)
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", default="demo", help="compares results/SCALE")
    add_config_file(parser, "of the fresh run")
    parser.add_argument("--published", type=Path, metavar="FOLDER", help="instead of the newest of results/published")
    parser.add_argument("--at-least", type=int, default=1, metavar="N", help="cells that have to be compared")


def main(options: argparse.Namespace) -> None:
    config = read_config(options.config) | {"scale": options.scale}
    published = (
        open_published(options.published, options.scale)
        if options.published
        else newest_published(Path("results/published"), options.scale)
    )
    compared = compare_run(published, Plan.load(config))
    print(format_comparison(compared, published), end="")
    check_comparison(compared, published, options.at_least)
