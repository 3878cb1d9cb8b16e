"""Join the metrics of a system on several data sets, each with equal weight, and write them as the metrics of their mean."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.arguments import required, required_lists
from pretrieve.base.files import write_json
from pretrieve.base.program import one_each
from pretrieve.evaluation.conventions import mean_of_means
from pretrieve.reporting.tables.results import ResultFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required_lists(
        parser, str, parts="names, as the keys of the record have them", metrics="of one system, one for each part"
    )
    required(parser, Path, out="")


def main(options: argparse.Namespace) -> None:
    one_each(parts=options.parts, metrics=options.metrics)
    files = ResultFiles()
    records = {name: files.read(path) for name, path in zip(options.parts, options.metrics, strict=True)}
    write_json(options.out, mean_of_means(records, options.parts))
