"""Environment variables that jobs begin with (:func:`job_prefix`). Standard library only.

* What changes no result: where raw files come from, how often training saves, where the jobs run. A parameter of a rule would
  run everything again when it changes.
* Memory (:func:`allocator`). A training step on a CPU allocates and frees tensors of up to 100 MB for each layer. glibc returns
  freed blocks above 32 MB to the system, which clears their pages for the next tensor. Here they are kept, in huge pages where
  there are some; ``benchmarks/c19_allocator.py`` measures the gain. glibc 2.35 or later (others ignore the variable):
  https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html.
* Caches (:func:`cache_places`) of numba, matplotlib and the hub are in the home directory. A service account, or a job without
  a home, has none to write: matplotlib then makes a new cache in each process, and numba refuses to load.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import CODE
from pretrieve.base.finished_work import KEEP
from pretrieve.raw.mirror import MIRROR, mirror_folder
from pretrieve.workflow.cluster import Site
from pretrieve.workflow.my_corpus import timetable_of

NAME = "GLIBC_TUNABLES"
#: Blocks up to 1 GiB come from the heap, of which nothing is returned before the process ends; huge pages.
TUNABLES = f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={1 << 40}:glibc.malloc.hugetlb=1"


def job_prefix(config: Mapping[str, Any], site: Site, own_python: bool) -> str:
    """What the shell of every job begins with, braces doubled for Snakemake. own_python: ``python`` is the one that Snakemake
    runs with, whatever PATH has; an environment of conda or a container brings its own."""
    variables = {
        "PYTHONPATH": CODE / "src",
        MIRROR: mirror_folder(config) or "",
        "PRETRIEVE_CHECKPOINT_SECONDS": config.get("checkpoint_seconds", 60),
        "PRETRIEVE_SCHEDULER": site.scheduler,
        "PRETRIEVE_GPU_SHARE": site.share,
        **timetable_of(config),
        # The workflow removes checkpoints, when all is there.
        KEEP: 1,
        **cache_places("."),
        **allocator(),
    }
    exports = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
    if own_python:
        exports += f' PATH={shlex.quote(os.path.dirname(sys.executable))}:"$PATH"'
    return f"set -euo pipefail; export {exports}; ".replace("{", "{{").replace("}", "}}")


def allocator(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variable that a job's process begins with; none where the user has set it."""
    return {} if NAME in environment else {NAME: TUNABLES}


def cache_places(checkout: Path | str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that move the caches into ``.snakemake/`` of a checkout; none where the usual places can be written."""
    home = Path(environment.get("HOME") or os.path.expanduser("~"))  # "~" for a user whom the system has no name of
    usual = {"XDG_CACHE_HOME": home / ".cache", "XDG_CONFIG_HOME": home / ".config"}
    own = Path(checkout).absolute() / ".snakemake"
    return {
        name: str(own / folder.name.removeprefix("."))
        for name, folder in usual.items()
        if not _writable(Path(environment.get(name) or folder))
    }


def _writable(folder: Path) -> bool:
    if not folder.is_absolute():
        return False
    standing = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    return standing.is_dir() and os.access(standing, os.W_OK | os.X_OK)
