"""Count the pairs of ICT, BFS and WLP and measure their lengths."""

import argparse
from pathlib import Path

from pretrieve.base.files import write_json
from pretrieve.base.program import run_program
from pretrieve.pretraining.pairs.statistics import all_statistics
from pretrieve.text.token_store import TokenStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--ict-keep", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    statistics = all_statistics(TokenStore(arguments.store), arguments.ict_keep)
    write_json(arguments.out, statistics)
    for name, values in statistics.items():
        print(name, values)


if __name__ == "__main__":
    run_program(main)
