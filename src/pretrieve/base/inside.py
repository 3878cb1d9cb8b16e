"""Names that come from outside, each resolved against the one folder that it may be in.

A name in an archive, a manifest, an index, a list or an answer of a server is data: ``../../.bashrc``, ``/etc/passwd``, or the
name of a link that leads out of its folder must not decide which file of this machine is read or written. All of them go through
:func:`inside`; tests/faults/outside_places.py lists the places. Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from pretrieve.base.errors import DataError

#: Bytes of a name between two slashes, and of all of it: what the file systems of Linux take [limits.h, NAME_MAX and PATH_MAX].
LONGEST_PART, LONGEST = 255, 4095


def inside(
    folder: Path | str,
    name: object,
    what: object,
    room: Path | str | None = None,
    taken: dict[str, str] | None = None,
) -> Path:
    """``folder / name``, where that is a place below the folder: a plain file, a folder, or nothing yet.

    ``what`` begins the message: whose name it is. ``room``: where links may lead to, the folder itself unless given.
    ``taken``: the names that came before, which this one must not collide with, and it is added: two names that differ in case
    (or in how Unicode composes a letter) alone are one file on some disks.

    Raises DataError for a name that is not text, is absolute, leaves the folder, also by a link, is of a device, has control
    characters or is too long, and for one that collides.
    """
    folder = Path(folder)
    plain_name(name, what, taken)
    why = leads_out(folder / str(name), Path(room or folder))
    if why is not None:
        raise _refusal(name, what, why)
    return folder / str(name)


def plain_name(name: object, what: object, taken: dict[str, str] | None = None) -> None:
    """The half of :func:`inside` that needs no folder: for a name that is only read, or is unpacked somewhere else (raises
    alike)."""
    why = _wrong(name) or _collides(str(name), taken)
    if why is not None:
        raise _refusal(name, what, why)


def _refusal(name: object, what: object, why: str) -> DataError:
    shown = repr(name) if len(repr(name)) <= 120 else repr(name)[:120] + "…"
    return DataError(
        f"{what} {shown} {why}; expected the name of a file below its folder. It is damaged, or meant to do harm: take it from a "
        "place that you trust."
    )


def _wrong(name: object) -> str | None:
    """What is wrong with a name, whatever is on the disk."""
    if not isinstance(name, str):
        return "is no text"
    parts = re.split(r"[\\/]", name)
    if ".." in parts or name.startswith(("/", "\\")) or re.match("[A-Za-z]:", name):
        return "would leave its folder"
    if not any(part not in ("", ".") for part in parts):
        return "is empty"
    if re.search(r"[\x00-\x1f\x7f]", name):
        return "has a control character"
    try:
        sizes = [len(part.encode()) for part in name.split("/")]
    except UnicodeEncodeError:
        return "is not UTF-8"
    if max(sizes) > LONGEST_PART or sum(sizes) + len(sizes) > LONGEST:
        return f"is too long (at most {LONGEST_PART} bytes between slashes and {LONGEST:,} in all)"
    return None


def leads_out(path: Path, room: Path) -> str | None:
    """The half of :func:`inside` that looks at the disk: why a place is not below ``room``; None where it is one."""
    try:
        real, limit = os.path.realpath(path), os.path.realpath(room)
        if real != limit and not real.startswith(limit.rstrip("/") + "/"):
            return f"leads out of its folder by a link, to {real}"
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        return "is a link to nothing" if path.is_symlink() else None
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    return None if stat.S_ISREG(kind) or stat.S_ISDIR(kind) else "is that of a device, a pipe or a socket"


def refuse_outside(paths: Iterable[Path], room: Path) -> None:
    """Raise DataError for the first path that :func:`leads_out` of ``room``: whoever made the folder would decide what is read of
    this machine."""
    for path in paths:
        if why := leads_out(path, room):
            raise DataError(f"{path} {why}; expected a file in the folder: put a copy there, or remove the link.")


def _collides(name: str, taken: dict[str, str] | None) -> str | None:
    """Folders count too: ``a/x`` and ``A/y`` are below one folder or below two."""
    if taken is None:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    for depth in range(1, len(parts) + 1):
        own = "/".join(parts[:depth])
        other = taken.setdefault(unicodedata.normalize("NFC", own).casefold(), own)
        if other != own:
            return f"differs from {other!r} in case alone"
    return None
