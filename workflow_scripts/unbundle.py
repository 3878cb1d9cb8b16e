"""Take home what a bundle's runner made, so that Snakemake takes it as done (docs/gpu-bundle.md)."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.operations.bundle.unpack import report, unbundle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="the runner's folder out/, or one slice in it")
    parser.add_argument("--any-code", action="store_true", help="take results of other source files, too")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="what the bundle was made with")
    arguments = parser.parse_args()
    print(report(unbundle(arguments.file, arguments.any_code, arguments.config)))


if __name__ == "__main__":
    run_program(main)
