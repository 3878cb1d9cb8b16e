"""Files that appear whole or not at all: written beside their place, then moved there in one step."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pretrieve.base.disk import room_for

#: What reading a text file raises, plain or gzip, when its bytes are damaged.
DAMAGED_TEXT = (EOFError, OSError, UnicodeDecodeError, zlib.error)


def unfinished(path: Path) -> Path:
    """Where to write ``path`` until it is whole: ``.NAME.PID.part`` beside it; the process id keeps two processes apart.

    What processes that are dead by now have left there is removed.
    """
    name = re.compile(rf"\.+{re.escape(path.name)}\.(\d+)\.(part|member)(\.\d+\.part)?")
    for entry in os.scandir(path.parent) if path.parent.is_dir() else ():
        match = name.fullmatch(entry.name)
        if match and not _lives(int(match[1])):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's
    return True


@contextmanager
def whole_file(path: Path | str) -> Iterator[BinaryIO]:
    """Open a binary stream whose content becomes ``path`` when the block ends without an exception.

    Parent folders are made. On an exception the temporary file is removed and what stood at ``path`` stays.

    Raises DataError when the disk is full or read-only (:mod:`pretrieve.base.disk`).
    """
    path = Path(path)
    temporary = unfinished(path)
    with room_for(path, remove=[temporary]):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as stream:
            yield stream
        os.replace(temporary, path)


def write_text(path: Path | str, text: str) -> None:
    """Write ``text`` as UTF-8, with the line ends that it has."""
    with whole_file(path) as stream:
        stream.write(text.encode())


def write_json(path: Path | str, value: Any) -> None:
    """Write ``value`` as JSON with sorted keys: equal values give equal bytes. NaN and infinity are a ValueError."""
    write_text(path, json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def remove_if_empty(directory: Path) -> None:
    """Remove a folder, if there is one and nothing in it."""
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file, read in blocks."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
