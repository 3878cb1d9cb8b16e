"""Take scores that keep-scores packed elsewhere, so that Snakemake takes them as made (docs/clusters.md#joining-seeds)."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_settings, required
from pretrieve.operations.scores import report, take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, file="scores.tar.xz of a publication, or what keep-scores wrote")
    parser.add_argument("--any-code", action="store_true", help="accept scores of other source files, too")
    parser.add_argument("--cores", type=int, default=1, help="for building the data")
    add_settings(parser, "of the run, without seeds")


def main(arguments: argparse.Namespace) -> None:
    print(report(take(arguments.file, arguments.config, arguments.any_code, arguments.cores)))
