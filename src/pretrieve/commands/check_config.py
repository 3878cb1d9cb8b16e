"""Refuse configuration files that Snakemake could not walk through: aliases or levels without end."""

import argparse
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.workflow.config_checks import check_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="for --configfile; the checkout's config.yaml is checked by itself"
    )


def main(arguments: argparse.Namespace) -> None:
    for file in arguments.files:
        if not Path(file).is_file():
            raise DataError(f"{file}: no such file; expected a configuration in YAML.")
        check_file(file)
