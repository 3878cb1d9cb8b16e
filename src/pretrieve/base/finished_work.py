"""Checkpoints of trainings that have ended, kept until the whole run has. Standard library only.

A training that removed its checkpoints when its model is written could lose it: if Snakemake is killed before it takes note of
the job's end (on a cluster: hours before), it takes the model for half-written, deletes it and starts the job once more. So under
Snakemake (``PRETRIEVE_KEEP_CHECKPOINTS``) a training leaves its last checkpoint, from which the second time ends within seconds;
and what the workflow removes, it removes when all that plain ``snakemake`` makes is there (``onsuccess`` in the Snakefile).
"""

from __future__ import annotations

import os
import shutil
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


def forget_finished(root: str) -> list[Path]:
    """Remove the checkpoints below ``root`` (``results/{scale}``) of trainings that are done; returns their folders. Others
    stay: of what was interrupted, and is not part of this run."""
    done = [
        folder for folder, results in _jobs(root) if results and all(Path(place, _LAST).is_file() for place in results)
    ]
    for folder in done:
        shutil.rmtree(folder, ignore_errors=True)
    # Folders above that are empty by now; rmdir refuses the others.
    for folder in sorted(Path(root, "checkpoints").glob("**/"), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    return done


def _jobs(root: str) -> Iterator[tuple[Path, list[str]]]:
    """The folder of checkpoints of each job, and the folders that it writes (:mod:`pretrieve.base.paths`)."""
    for folder in Path(root, "checkpoints/encoders").glob("*/seed*"):
        yield folder, [paths.encoder_dir(root, folder.parts[-2], folder.name.removeprefix("seed"))]
    for folder in Path(root, "checkpoints/retrievers").glob("*/*/seed*"):
        family, task, seed = folder.parts[-3:]
        sizes = [place.name for place in folder.iterdir() if place.is_dir()]
        yield folder, [paths.retriever_dir(root, f"{family}-{size}", task, seed.removeprefix("seed")) for size in sizes]
