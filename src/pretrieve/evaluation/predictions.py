"""Predictions for labelled examples as a file that can be read: gzipped, tab-separated, one example a line.

``example_id``, ``scores`` and ``labels`` (both numbers with blanks between them; a triplet has no label), under a line
with these names. Equal predictions give equal bytes, and scores keep every bit of float32.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.base.files import DAMAGED_TEXT, whole_file

HEADER = "example_id\tscores\tlabels"


class Prediction(NamedTuple):
    """scores (m,) float32; labels float32: as in :mod:`pretrieve.tasks.example_task`."""

    example_id: str
    scores: np.ndarray
    labels: np.ndarray


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions in the given order; the file appears whole.

    Raises DataError when a score is not finite, or an id has a tab or a line break.
    """
    with (
        whole_file(path) as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream,
    ):
        stream.write(f"{HEADER}\n".encode())
        for example_id, scores, labels in predictions:
            if not np.isfinite(scores).all() or not example_id or set(example_id) & set("\t\r\n"):
                raise DataError(
                    f"{path}: example '{example_id}' has a non-finite score, or an id that is empty or has a tab or line break."
                )
            columns = (" ".join(f"{value:.9g}" for value in np.asarray(values).tolist()) for values in (scores, labels))
            stream.write("\t".join([example_id, *columns]).encode() + b"\n")


def read_predictions(path: Path) -> list[Prediction]:
    """Read predictions, in the order of the file.

    Raises DataError when the file is missing or damaged, or an example appears twice; file and line are named.
    """
    path = Path(path)
    found: dict[str, Prediction] = {}
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                line = line.removesuffix("\n")
                if number == 1:
                    if line != HEADER:
                        raise DataError(f"{path}: begins with {line[:60]!r}, expected {HEADER!r}. Predict again.")
                    continue
                try:
                    example_id, scores, labels = line.split("\t")
                    values = [np.array(column.split(), dtype=np.float32) for column in (scores, labels)]
                except ValueError:
                    raise DataError(
                        f"{path}, line {number}: found {line[:80]!r}, expected {HEADER!r}. Predict again."
                    ) from None
                if example_id in found or not len(values[0]):
                    raise DataError(
                        f"{path}, line {number}: example '{example_id}' appears twice, or has no score. Predict again."
                    )
                found[example_id] = Prediction(example_id, *values)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file, expected predictions.") from None
    except DAMAGED_TEXT as error:
        raise DataError(f"{path}: damaged after line {number}: {error}. Predict again.") from error
    return list(found.values())
