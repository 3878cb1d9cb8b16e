"""Join the metrics of a system on several data sets, each with equal weight, and write them as the metrics of their mean."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.arguments import required, required_lists
from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.program import one_each
from pretrieve.evaluation.conventions import joinable, mean_of_means
from pretrieve.reporting.tables.results import ResultFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required_lists(
        parser, str, parts="names, as the keys of the record have them", metrics="of one system, one for each part"
    )
    required(parser, Path, out="")


def main(options: argparse.Namespace) -> None:
    one_each(parts=options.parts, metrics=options.metrics)
    files = ResultFiles()
    for path in options.metrics:
        _check_record(files, path)
    records = {name: files.read(path) for name, path in zip(options.parts, options.metrics, strict=True)}
    joinable(records, options.parts)
    for path in options.metrics:
        _check_values(files, path)
    write_json(options.out, mean_of_means(records, options.parts))


def _check_record(files: ResultFiles, path: str) -> None:
    """Raise DataError where a file is no metrics record."""
    record = files.read(path)
    for key in ("n_queries", "n_candidates"):
        if key in record:
            files.number(path, key)
    for key, kind, what in (("metrics", dict, "an object"), ("conventions", list, "a list")):
        if not isinstance(record.get(key, kind()), kind):
            raise DataError(f"{path}: key {key} is {str(record[key])[:60]!r}; expected {what}. Evaluate it again.")


def _check_values(files: ResultFiles, path: str) -> None:
    """Raise DataError where a metrics record has not a number for each query."""
    count = files.number(path, "n_queries")
    for metric in files.read(path)["metrics"]:
        values = files.per_query(path, metric)
        if values is None or len(values) != count:
            found = "none" if values is None else f"{len(values):,}"
            raise DataError(
                f"{path}: key per_query.{metric} has {found} of {count:,} queries; expected a value for each. Evaluate it again."
            )
        for query_id in values:
            files.number(path, "per_query", metric, query_id)
        files.chance(path, metric)
