"""Which version of this project made a result: the git commit, and whether the checkout differs from it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import PretrieveError


class Version(NamedTuple):
    """``commit`` is the full hash, or None without a commit; ``dirty`` says whether files differ from it."""

    commit: str | None
    dirty: bool


def version_of(folder: Path | str) -> Version:
    """The commit of the checkout around ``folder``; ``Version(None, True)`` outside of one, as nothing is known there.

    Untracked files count as a difference unless git ignores them: they may be the code that ran.
    """
    try:
        commit = _git(folder, "rev-parse", "--verify", "HEAD").strip()
        return Version(commit, bool(changed_files(folder)))
    except PretrieveError:
        return Version(None, True)


def changed_files(folder: Path | str = ".") -> list[str]:
    """Paths that differ from the last commit, sorted. Raises PretrieveError when ``folder`` is not a git checkout."""
    # -z leaves odd names unquoted; --no-renames keeps it to one name an entry.
    entries = _git(folder, "status", "--porcelain", "--no-renames", "-z").split("\0")
    return sorted(entry[3:] for entry in entries if entry)


def _git(folder: Path | str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=True,
        )
    except FileNotFoundError:
        raise PretrieveError("git is not installed; install it, or work without a version.") from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PretrieveError(f"git {' '.join(arguments)} in {folder}: {reason}") from None
    return done.stdout
