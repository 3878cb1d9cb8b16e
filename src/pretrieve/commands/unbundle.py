"""Take home what a bundle's runner made, so that Snakemake takes it as done (docs/gpu-bundle.md)."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_settings, required
from pretrieve.operations.bundle.unpack import report, unbundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, file="the runner's folder out/, or one slice in it")
    parser.add_argument("--any-code", action="store_true", help="accept results of other source files, too")
    add_settings(parser, "what the bundle was made with")


def main(args: argparse.Namespace) -> None:
    print(report(unbundle(args.file, args.any_code, args.config)))
