"""Where a run has its tables: in ``results/{scale}/tables``, or beside everything else in a published copy."""

import json
import re
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.base.paths import table_file
from pretrieve.reporting.report.timing import split_name

#: The name of a publication: date, number from the second of a day and scale on, scale, commit.
PUBLICATION = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.(\d+))?-(.+)-([0-9a-f]{7})")

#: The configuration's scales, the largest first.
SCALES = ("paper", "small", "demo")


def scale_of(root: Path) -> str:
    """Of ``results/{scale}`` or of a publication.

    >>> scale_of(Path("results/demo")), scale_of(Path("results/published/2026-01-02.2-small-0123abc"))
    ('demo', 'small')
    """
    found = PUBLICATION.fullmatch(root.name)
    return found[3] if found else root.name


def table_of(root: Path, name: str, extension: str = "csv") -> Path:
    """The file of a table (PAPER/TABLE)."""
    paper, table = split_name(name)
    if PUBLICATION.fullmatch(root.name):
        return root / paper / f"{table}.{extension}"
    return Path(table_file(str(root), paper, table, extension))


def read_manifest(path: Path, mend: str) -> dict[str, Any]:
    """A table's manifest, ``cpu`` of its hardware and ``gpu_h`` of its cost. Raises DataError, which ends with ``mend``, where
    it is none."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        git = {key: manifest["git"][key] for key in ("commit", "dirty")}
        seeds, versions, cpu = [*manifest["seeds"]], {**manifest["versions"]}, manifest["hardware"]["cpu"]
        gpu_h = manifest["cost"]["gpu_h"]
        return {**manifest, "git": git, "seeds": seeds, "versions": versions, "cpu": cpu, "gpu_h": gpu_h}
    except (OSError, ValueError, LookupError, TypeError) as error:
        said = f"{type(error).__name__}: {error}; expected the manifest of a table"
        raise DataError(f"{path}: not readable: {said}. {mend}") from None


def tables_of(root: Path) -> list[Path]:
    """The CSV files of all tables that are there."""
    return sorted(file.with_suffix(".csv") for file in table_of(root, "*/*").parents[1].glob("*/*.tex"))


def new_place(published: Path, date: str, scale: str, commit: str) -> Path:
    """The folder of a new publication (``commit``: seven digits), in the order of the day's."""
    others = [_age(one)[1] for one in publications(published, scale) if one.name.startswith(date)]
    place = published / f"{date}-{scale}-{commit}"
    return place if not others or place.exists() else published / f"{date}.{max(others) + 1}-{scale}-{commit}"


def newest(published: Path, scale: str) -> Path | None:
    """The newest publication of a scale, by its name."""
    return next(iter(publications(published, scale)), None)


def publications(published: Path, scale: str) -> list[Path]:
    """All publications of a scale, the newest first."""
    found = [one for one in published.glob(f"*-{scale}-*") if PUBLICATION.fullmatch(one.name)]
    return sorted((one for one in found if scale_of(one) == scale), key=_age, reverse=True)


def _age(publication: Path) -> tuple[str, int, str]:
    date, number, _, commit = PUBLICATION.fullmatch(publication.name).groups()
    return date, int(number or 1), commit
