"""Count the pairs of ICT, BFS and WLP and measure their lengths."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import required
from pretrieve.base.files import write_json
from pretrieve.pretraining.pairs.statistics import all_statistics
from pretrieve.text.token_store import TokenStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, store="")
    required(parser, float, ict_keep="")
    required(parser, Path, out="")


def main(arguments: argparse.Namespace) -> None:
    statistics = all_statistics(TokenStore(arguments.store), arguments.ict_keep)
    write_json(arguments.out, statistics)
    for name, values in statistics.items():
        print(name, values)
