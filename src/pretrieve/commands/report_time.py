"""Print where the time of a run went: jobs, wall and processor seconds, memory and share of every rule."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import required
from pretrieve.base.errors import ConfigError
from pretrieve.reporting.report.timing import format_report, read_stages, startup_seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, results="folder of the scale, such as results/demo")
    parser.add_argument("--elapsed", type=float, metavar="SECONDS", help="wall time of the whole run")
    parser.add_argument("--since", type=float, default=0.0, metavar="EPOCH", help="count only what was written since")


def main(options: argparse.Namespace) -> None:
    if options.elapsed is not None and not options.elapsed > 0:
        raise ConfigError(f"--elapsed is {options.elapsed:g}; expected the run's wall seconds, above 0.")
    startup = startup_seconds(options.results / "logs", options.since)
    stages = read_stages(options.results / "benchmarks", options.since)
    print(format_report(stages, options.elapsed, startup), end="")
