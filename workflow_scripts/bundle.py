"""Pack what some tables still need for a machine with a GPU and without a network (docs/gpu-bundle.md)."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.bundle.pack import LIMIT_MIB, pack, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="demo")
    parser.add_argument(
        "--tables", nargs="*", default=[], metavar="PAPER/TABLE", help="those of config.yaml, unless given"
    )
    parser.add_argument("--files", nargs="*", default=[], metavar="METRICS", help="single scores: metrics files")
    parser.add_argument(
        "--config", nargs="*", default=[], metavar="KEY=VALUE", help="as Snakemake's --config takes them"
    )
    parser.add_argument("--limit", type=float, default=LIMIT_MIB, help="MiB; what exceeds it is left out, and named")
    parser.add_argument("--cores", type=int, default=1, help="for building the data")
    parser.add_argument("--out", type=Path, help="results/bundles/SCALE.tar.xz, unless given")
    arguments = parser.parse_args()
    out = arguments.out or Path(f"results/bundles/{arguments.scale}.tar.xz")
    asked = Asked(arguments.scale, tuple(arguments.tables), tuple(arguments.config), tuple(arguments.files))
    print(report(pack(asked, out, arguments.cores, arguments.limit), out))


if __name__ == "__main__":
    run_program(main)
