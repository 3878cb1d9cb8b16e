"""Pack the scores of finished systems, to join them with other seeds elsewhere (docs/clusters.md#joining-seeds)."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_run
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.scores import keep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--out", type=Path, help="results/SCALE/scores.tar.xz, unless given")


def main(arguments: argparse.Namespace) -> None:
    out = arguments.out or Path(f"results/{arguments.scale}/scores.tar.xz")
    count = keep(Asked(arguments.scale, tuple(arguments.tables), tuple(arguments.config)), out)
    if not count:
        if arguments.out is None:  # what an earlier call kept there would be published
            out.unlink(missing_ok=True)
        print("no score of a trained system is there: nothing is kept.")
        return
    print(f"{out}: {count} scores, {out.stat().st_size / 1e6:.1f} MB")
