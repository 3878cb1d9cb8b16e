"""Refuse configuration files that Snakemake could not walk through: aliases or levels without end."""

import argparse

from pretrieve.workflow.config_checks import check_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="for --configfile; the checkout's config.yaml is checked by itself"
    )


def main(arguments: argparse.Namespace) -> None:
    for file in arguments.files:
        check_file(file)
