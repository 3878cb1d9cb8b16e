"""Join the metrics of a system on several data sets, each with equal weight, and write them as the metrics of their mean."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.files import write_json
from pretrieve.base.program import one_each, run_program
from pretrieve.evaluation.conventions import mean_of_means
from pretrieve.reporting.tables.results import ResultFiles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", required=True, help="names, as the keys of the record have them")
    parser.add_argument("--metrics", nargs="+", required=True, metavar="JSON", help="of one system, one for each part")
    parser.add_argument("--out", type=Path, required=True, metavar="JSON")
    options = parser.parse_args()
    one_each(parts=options.parts, metrics=options.metrics)
    files = ResultFiles()
    records = {name: files.read(path) for name, path in zip(options.parts, options.metrics, strict=True)}
    write_json(options.out, mean_of_means(records, options.parts))


if __name__ == "__main__":
    run_program(main)
