"""A folder that appears whole or not at all, in place of what was there before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pretrieve.base.disk import room_for
from pretrieve.base.files import unfinished


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside ``out``, which takes its place when the block ends; after an exception what was there stays.

    Raises DataError when the disk is full or read-only (:mod:`pretrieve.base.disk`).
    """
    # Names that nobody gives: what has them is removed.
    building = unfinished(out)
    old = building.with_suffix(".member")
    for leftover in (building, old):
        shutil.rmtree(leftover, ignore_errors=True)
    with room_for(out, remove=[building]):
        try:
            building.mkdir(parents=True)
            yield building
            if out.exists():
                os.replace(out, old)  # which nobody may be able to empty
            os.replace(building, out)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    shutil.rmtree(old, ignore_errors=True)
