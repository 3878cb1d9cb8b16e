"""Checkpoints of jobs that have ended, kept until Snakemake knows it. Standard library only.

A training job removes its checkpoints when its model is written. If Snakemake is killed just before it takes note of that (on a
cluster: hours before), it takes the model for half-written, deletes it and starts the job once more, from nothing. So under
Snakemake (``PRETRIEVE_KEEP_CHECKPOINTS``) a job leaves its checkpoints, and the workflow removes them: at the end of a run and
at the beginning of the next, for every job whose outputs Snakemake has recorded as complete.

Snakemake marks an output as incomplete with a file of its own, whose name is the output's in base64, from the start of a job
until it has recorded the job's end.
"""

from __future__ import annotations

import os
import shutil
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pretrieve.base import paths

#: Set where somebody else removes checkpoints.
KEEP = "PRETRIEVE_KEEP_CHECKPOINTS"
#: A file that every training job writes last.
_LAST = "cost.json"


def leaves_checkpoints() -> bool:
    """Whether training leaves its checkpoints to the workflow."""
    return bool(os.environ.get(KEEP))


def forget_finished(root: str, snakemake: Path = Path(".snakemake")) -> list[Path]:
    """Remove the checkpoints below ``root`` (``results/{scale}``) of jobs that Snakemake has recorded; returns their folders."""
    done = []
    for folder, outputs in _jobs(root):
        if outputs and all(Path(file).is_file() and not _marked(file, snakemake) for file in outputs):
            shutil.rmtree(folder, ignore_errors=True)
            done.append(folder)
    # Folders above that are empty by now; rmdir refuses the others.
    for folder in sorted(Path(root, "checkpoints").glob("**/"), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    return done


def _jobs(root: str) -> Iterator[tuple[Path, list[str]]]:
    """The folder of checkpoints of each job, and a file of each of its outputs (:mod:`pretrieve.base.paths`)."""
    for folder in Path(root, "checkpoints/encoders").glob("*/seed*"):
        yield folder, [f"{paths.encoder_dir(root, folder.parts[-2], folder.name.removeprefix('seed'))}/{_LAST}"]
    for folder in Path(root, "checkpoints/retrievers").glob("*/*/seed*"):
        family, task, seed = folder.parts[-3:]
        sizes = [place.name for place in folder.iterdir() if place.is_dir()]
        places = [paths.retriever_dir(root, f"{family}-{size}", task, seed.removeprefix("seed")) for size in sizes]
        yield folder, [f"{place}/{_LAST}" for place in places]


def _marked(file: str, snakemake: Path) -> bool:
    """Whether Snakemake takes a file for incomplete."""
    folder = snakemake / "incomplete"
    if not folder.is_dir():
        return True  # this Snakemake keeps its record elsewhere: nothing is known
    return (folder / marker_name(file, os.pathconf(folder, "PC_NAME_MAX") - 1)).exists()


def marker_name(file: str, room: int = 254) -> str:
    """Snakemake's name for what it notes about a file: base64, in folders where it is longer than ``room``.

    >>> marker_name("a/b"), marker_name("a/b", 3)
    ('YS9i', '@YS9/i')
    """
    code = urlsafe_b64encode(file.encode()).decode()
    *heads, last = [code[start : start + room] for start in range(0, len(code), room)]
    return "/".join([*(f"@{head}" for head in heads), last])
