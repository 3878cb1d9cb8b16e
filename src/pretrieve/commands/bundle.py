"""Pack what some tables still need for a machine with a GPU and without a network (docs/gpu-bundle.md)."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_run
from pretrieve.base.errors import ConfigError
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.bundle.pack import LIMIT_MIB, pack, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--files", nargs="*", default=[], metavar="METRICS", help="single scores: metrics files")
    parser.add_argument("--limit", type=float, default=LIMIT_MIB, help="MiB; what does not fit is listed, not packed")
    parser.add_argument("--answers", action="store_true", help="pack the answers and passages that hits@k needs, too")
    parser.add_argument("--cores", type=int, default=1, help="for building the data")
    parser.add_argument("--out", type=Path, help="results/bundles/SCALE.tar.xz, unless given")


def main(arguments: argparse.Namespace) -> None:
    limit, cores = arguments.limit, arguments.cores
    if not 0 < limit < float("inf") or cores < 1:  # before the data are built, which takes minutes
        raise ConfigError(f"--limit {limit:g} --cores {cores}: expected a number of MiB above 0, and 1 core or more.")
    out = arguments.out or Path(f"results/bundles/{arguments.scale}.tar.xz")
    asked = Asked(arguments.scale, tuple(arguments.tables), tuple(arguments.config), tuple(arguments.files))
    print(report(pack(asked, out, cores, limit, arguments.answers), out))
