"""Where libraries keep their caches when the home directory cannot be written: a service account, a job without a home.

Compiled code of numba, fonts of matplotlib and downloads of the hub go to the home directory by default. Without one matplotlib
makes a new cache in each process, and numba refuses to load what it is to keep. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


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
