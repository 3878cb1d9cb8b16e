"""The raw files that a table needs, those that are there, and those to fetch: ``make fetch TABLE=condenser/table5``.

The plan of the scale says it: the data sets that have the table's roles, the corpus, and the published checkpoints that its
encoders start from.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.raw import hub
from pretrieve.raw.checksums import RECORDS, digests_of
from pretrieve.raw.mirror import candidates, is_in_place
from pretrieve.raw.sources import SOURCES, Source, recorded, source_of
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import vocabulary_of

#: In the order of the report.
STATES = {
    "there": "in place",
    "mirror": "from the mirror folder",
    "package": "from a Python package",
    "unpack": "from an archive that is in place",
    "download": "to download",
    "missing": "nowhere to be had: put into a mirror folder by hand",
}
GB = 1e9


@dataclass(frozen=True)
class Wanted:
    """A raw file, its place, and its state: a key of :data:`STATES`. ``bytes`` is what would be copied or downloaded for it;
    ``unfit``: a file of that name that cannot be used, and why."""

    source: Source
    target: Path
    state: str
    bytes: int
    unfit: str = ""


def table_files(plan: Plan, table: str) -> tuple[list[str], list[str]]:
    """Names of the sources that a table needs at the plan's scale, and other files that it needs, which are the user's own."""
    files, name_of = plan.table_sources(*table.split("/")), plan.source_at
    return [name_of[file] for file in files if file in name_of], [file for file in files if file not in name_of]


def table_starts(plan: Plan, table: str) -> list[str]:
    """The published checkpoints (``hub:OWNER/NAME``) that the encoders of a table start from, and the vocabulary if it is one."""
    starts = set()
    for cell in plan.cells[table]:
        if (dataset := plan.measured(cell)) is not None:
            starts |= {vocabulary_of(plan.config, name).file for name in plan.corpora_behind(cell["system"], dataset)}
            if cell["system"] != "statistics":
                starts.add(plan.published_start(paths.parse_system(cell["system"]).encoder))
    return sorted(start for start in starts if start.startswith("hub:"))


def survey(
    names: Iterable[str], sources: Mapping[str, Source], mirror: Path | None, folder: Path = SOURCES
) -> list[Wanted]:
    """The state of each file, and of the archives that must come for them, before their members. A file in place is checked."""
    found: dict[str, Wanted] = {}

    def look(name: str) -> Wanted:
        if name not in found:
            source = source_of(sources, name)
            state, size, unfit = _state(source, folder, mirror)
            if state == "download" and source.archive:
                state = look(source.archive).state
                state, size = "missing" if state == "missing" else "unpack" if state == "there" else state, 0
            found[name] = Wanted(source, folder / source.file, state, size, unfit)
        return found[name]

    for name in names:
        look(name)
    return list(found.values())


def _state(source: Source, folder: Path, mirror: Path | None) -> tuple[str, int, str]:
    target, unfit = folder / source.file, ""
    if is_in_place(source, target):
        expected = recorded(source, folder / RECORDS)
        if expected and digests_of(target, expected).right(source.bytes):
            return "there", target.stat().st_size, ""
    for candidate in candidates(source, mirror):
        inside = mirror is not None and candidate.path.is_relative_to(mirror)
        why = f"has not the expected {source.bytes:,} bytes{', unpacked' if candidate.packed else ''}"
        try:
            if candidate.may_have(source.bytes):
                return "mirror" if inside else "package", source.bytes or candidate.path.stat().st_size, ""
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        unfit = unfit or f"{candidate.path} {why}"
    return "download" if source.url or source.archive else "missing", source.bytes, unfit


def report(wanted: Iterable[Wanted]) -> str:
    """One line a state with its files and GB, and one line a file that must be downloaded or is not available; members are
    counted after their archive."""
    wanted = list(wanted)
    lines = []
    for state, words in STATES.items():
        some = [one for one in wanted if one.state == state]
        if not some:
            continue
        unknown = sum(not one.bytes for one in some if not one.source.archive)
        more = f" and {unknown} of unknown size" if unknown else ""
        size = sum(one.bytes for one in some) / GB
        lines.append(f"  {len(some):3} file{'s' if len(some) > 1 else ' '} {size:9.3f} GB{more}: {words}")
        for one in some if state in ("download", "missing") else ():
            members = sum(other.source.archive == one.source.name for other in wanted)
            if one.state == "missing" or not one.source.archive:
                size = f"{one.bytes / GB:9.3f} GB" if one.bytes else "     unknown"
                inside = f", for {members} file{'s' if members > 1 else ''} in it" if members else ""
                where = one.source.url or one.source.note
                lines.append(f"           {size}  {one.source.file}{inside}  ({one.source.licence})  {where}".rstrip())
                lines += [f"               {one.unfit}"] if one.unfit else []
    return "\n".join(lines) or "  no raw files"


def check_room(wanted: Iterable[Wanted], folder: Path = SOURCES) -> None:
    """Check that everything is available, and that there is room for what must be fetched. Raises DataError, before anything is
    fetched."""
    wanted = list(wanted)
    if missing := [one for one in wanted if one.state == "missing"]:
        names = ", ".join(f"{one.source.file} ({one.unfit})" if one.unfit else one.source.file for one in missing)
        raise DataError(
            f"{len(missing)} file{'s' if len(missing) > 1 else ''} not available: {names}; put them into a "
            f"mirror folder: make fetch … MIRROR=DIR."
        )
    coming = sum(one.bytes for one in wanted if one.state != "there")
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if coming > (free := shutil.disk_usage(place).free):
        raise DataError(f"{folder}: {coming / GB:.1f} GB to fetch, but {free / GB:.1f} GB are free; make room.")


def checkpoint_state(start: str, mirror: Path | None) -> str:
    """Where a published checkpoint is or would be fetched from, in words."""
    place = Path(hub.place_of(start))
    if (place / hub.ORIGIN).is_file():
        return "in place"
    mirrored = mirror and (mirror / "hub" / start.removeprefix("hub:")).is_dir()
    return "from the mirror folder" if mirrored else "to download from huggingface.co"
