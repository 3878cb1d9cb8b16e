"""What a finished model was made of, noted in a file next to it.

A job that trains a model and then scores it runs again when the scoring has changed. The workflow then keeps the
model (``update`` of the rule's outputs), and what the same run would make is not trained again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pretrieve.base.files import sha256_of, write_json
from pretrieve.training.checkpoint import code_word

NOTE = "made_of.json"
#: The note itself, and files with times in them.
_NOT_OF_THE_MODEL = (NOTE, "cost.json", "curve.csv")


def note_finished(directory: Path, key: str) -> None:
    """Note that all files of a model's directory come from the run ``key`` and from the code of this job."""
    files = [file for file in sorted(directory.rglob("*")) if file.is_file() and file.name not in _NOT_OF_THE_MODEL]
    sums = {str(file.relative_to(directory)): sha256_of(file) for file in files}
    write_json(directory / NOTE, {"key": key, "code": code_word(), "files": sums})


def is_finished(directory: Path, key: str) -> bool:
    """Whether a directory has the model of the run ``key``, made by the code of this job, with every file as it was written."""
    try:
        note = json.loads((directory / NOTE).read_text(encoding="utf-8"))
        same = (note["key"], note["code"]) == (key, code_word())
        return same and all(sha256_of(directory / name) == digest for name, digest in note["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def begin_anew(directory: Path) -> None:
    """Remove what another run has left where a model is written."""
    shutil.rmtree(directory, ignore_errors=True)
