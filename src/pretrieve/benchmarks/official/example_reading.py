"""From records of official files to an example task: what the readers of STS-B, GLUE and the section triplets share.

A reader gives, for each of its files, an iterator of :class:`Record`; :func:`write_records` turns them into the directory of
:mod:`pretrieve.tasks.example_task`. Memory has ids and labels only. A text is a row as often as it stands in the files.

* An example's id is ``{file}-{id of the publisher}``, or the record's number from 0 where the publisher gives none:
  ``train-17``.
* Texts stay as they are, blanks at their ends included. A record with a blank text is omitted and counted, for an
  encoder has nothing to read in it.
* The publisher's counts are checked against what was read, the left-out records included.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.raw.raw_text import Form, Warnings, read_columns, read_lines
from pretrieve.tasks.example_task import Example, ExampleTask, Text, write_example_task
from pretrieve.tasks.splits import Target, draw_key

#: Kind of the warning for a record with a blank text.
BLANK = "example left out, a text of it is blank"


class Record(NamedTuple):
    """One labelled record of a file; ``label`` None: the kind has none. ``line`` is where it begins, counted from 1."""

    record_id: str
    texts: tuple[str, ...]
    label: float | None
    line: int


@dataclass
class Job(Target):
    """What every reader is given. counts: file → records that the publisher states; a file without one is not counted; about:
    kept in the task's statistics."""

    counts: Mapping[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    warnings: Warnings = field(default_factory=Warnings)

    def check_count(self, name: str, path: Path, found: int, unit: str = "records") -> None:
        """Raise :class:`DataError` unless the file called ``name`` has as many records as its publisher says."""
        expected = self.counts.get(name, found)
        if found != expected:
            raise DataError(
                f"{path}: {found:,} {unit} in the file '{name}'; expected {expected:,}, as its publisher states. "
                "Fetch the whole file again, or read a part of it with counts=any."
            )


class Part(NamedTuple):
    """One file: its name (in front of ids), its records, and the split of each (one of ``PARTS``)."""

    name: str
    path: Path
    records: Iterable[Record]
    split_of: Callable[[Record], str]


def always(split: str) -> Callable[[Record], str]:
    """Every record of a file is of one split."""
    return lambda record: split


def held_out(seed: int, share: float, splits: Sequence[str]) -> Callable[[str], str]:
    """Group → one of ``splits``, with probability ``share`` each (together below 1), or ``train``; the seed and the group alone
    decide. What belongs together (the hypotheses of a premise, the impressions of a user) is a group."""

    def split_of(group: str) -> str:
        place = int(draw_key(seed, f"held out {group}") / 2**64 / share)
        return splits[place] if place < len(splits) else "train"

    return split_of


def header_of(path: Path) -> list[str]:
    """The fields of a file's first line, separated by tabs. Raises DataError when the file has no line."""
    lines = read_lines(path)
    first = next(lines, None)
    lines.close()
    if first is None or not first.text.strip():
        raise DataError(f"{path}: line 1: nothing; expected a header or a record.")
    return first.text.split("\t")


def read_named(
    path: Path,
    names: Sequence[str],
    warnings: Warnings,
    header: Sequence[str],
    separator: str = "\t",
    quoted: bool = False,
    skip_broken: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Line number and the columns ``names`` of every record; the file's first line, ``header``, names its columns. skip_broken:
    records with fewer fields than the header are omitted and counted.

    Raises DataError when a column is missing or appears twice, or another record has another number of fields.
    """
    for name in names:
        if header.count(name) != 1:
            raise DataError(
                f"{path}: line 1: {header.count(name) or 'no'} columns {name!r}; expected one. The line has "
                f"{', '.join(map(repr, header))}."
            )
    places = [header.index(name) for name in names]
    rows = (
        _longer(path, len(header), warnings)
        if skip_broken
        else read_columns(path, header, Form(separator, header=True, quoted=quoted), warnings=warnings)
    )
    for number, fields in rows:
        yield number, [fields[place] for place in places]


def _longer(path: Path, width: int, warnings: Warnings) -> Iterator[tuple[int, list[str]]]:
    """Records of ``width`` fields; shorter ones are counted, longer ones end the reading."""
    for number, text in read_lines(path):
        fields = text.split("\t")
        if len(fields) > width:
            raise DataError(f"{path}: line {number}: {len(fields)} fields; expected {width}, separated by tabs.")
        if len(fields) < width:
            warnings.add("broken record left out", f"{path}, line {number}, {len(fields)} of {width} fields")
        elif number > 1:
            yield number, fields


def write_records(
    kind: str, width: int, parts: Sequence[Part], job: Job, classes: Sequence[str] = ()
) -> dict[str, Any]:
    """Write the task and return its statistics; ``width``: texts of each record.

    Raises DataError for an id that appears twice in a file, a file without a usable record, or another number of records than
    the publisher's, and what the records' iterators raise; ConfigError when a size cannot be drawn.
    """
    ids: list[str] = []
    labels = array("f")
    split_of: dict[str, str] = {}

    def texts() -> Iterator[Text]:
        for part in parts:
            count, before = 0, len(ids)
            for record in part.records:
                count += 1
                example_id = f"{part.name}-{record.record_id}"
                if example_id in split_of:
                    raise DataError(
                        f"{part.path}: line {record.line}: id {record.record_id!r} appears twice; expected one record "
                        "for each id."
                    )
                if not all(text.strip() for text in record.texts):
                    job.warnings.add(BLANK, f"{part.path}, line {record.line}")
                    continue
                ids.append(example_id)
                split_of[example_id] = part.split_of(record)
                if record.label is not None:
                    labels.append(record.label)
                for place, text in enumerate(record.texts):
                    yield Text(f"{example_id}/{place}", text)
            if len(ids) == before:
                blank = f": a text of all {count:,} is blank" if count else ""
                raise DataError(
                    f"{part.path}: no record that can be used in the file '{part.name}'{blank}; expected one or more. Fetch "
                    "the file again."
                )
            job.check_count(part.name, part.path, count)

    def examples() -> Iterator[Example]:
        for number, example_id in enumerate(ids):
            rows = range(width * number, width * (number + 1))
            yield Example(example_id, rows, labels[number : number + 1].tolist())

    job.about["left_out"] = job.warnings.counts
    return write_example_task(job, ExampleTask(kind, texts(), examples(), split_of, classes, job.about))


def write_splits(
    kind: str,
    width: int,
    files: Mapping[str, Path],
    splits: Mapping[str, str],
    read: Callable[[Path, Warnings], Iterable[Record]],
    job: Job,
) -> dict[str, Any]:
    """:func:`write_records` of files that are one split each (``splits``: file → split), all read by ``read``."""
    parts = [Part(name, files[name], read(files[name], job.warnings), always(split)) for name, split in splits.items()]
    return write_records(kind, width, parts, job)
