"""Environment variables that jobs begin with. Standard library only.

* Memory (:func:`allocator`). A training step on a CPU allocates and frees tensors of up to 100 MB for each layer. glibc returns
  every block above 32 MB to the system as soon as it is freed, and the system clears its pages again for the next one. Here freed
  blocks are kept for the next tensor, in huge pages where the system has them. Results do not change;
  ``benchmarks/c19_allocator.py`` measures the gain. Tunables of glibc, version 2.35 or later (others ignore them):
  https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html.
* Caches (:func:`cache_places`). Compiled code of numba, fonts of matplotlib and downloads of the hub go to the home directory.
  A service account, or a job without a home, has none to write: matplotlib then makes a new cache in each process, and numba
  refuses to load what it is to keep.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NAME = "GLIBC_TUNABLES"
#: Blocks up to 1 GiB come from the heap, of which nothing is returned before the process ends; huge pages.
TUNABLES = f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={1 << 40}:glibc.malloc.hugetlb=1"


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
