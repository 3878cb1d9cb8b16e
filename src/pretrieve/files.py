"""Files that appear whole or not at all: written beside their place, then moved there in one step."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def whole_file(path: Path | str) -> Iterator[BinaryIO]:
    """Open a binary stream whose content becomes ``path`` when the block ends without an exception.

    Parent folders are made. On an exception the temporary file is removed and what stood at ``path`` stays.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process id keeps two jobs that write the same target from sharing one temporary file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as stream:
            yield stream
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path | str, value: Any) -> None:
    """Write ``value`` as JSON with sorted keys: equal values give equal bytes. NaN and infinity are a ValueError."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with whole_file(path) as stream:
        stream.write(text.encode())


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file, read in blocks."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
