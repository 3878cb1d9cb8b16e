"""The folder of the code: what comes with it is found there, wherever a program is run, and git says which version it is.
Standard library only.

Code, lists of sources, published tables and defaults come with the checkout that this package lies in; data and results belong to
the working directory. The workflow puts the package of its own checkout on Python's path (``rules/common.smk``), so that a run
reads what belongs to its code.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import PretrieveError

#: Schemas and templates come with the package, wherever it is installed.
PACKAGE = Path(__file__).resolve().parents[1]


def package_file(name: str) -> Path:
    """The path of a file or folder of the package, in a checkout as in an installed one.

    >>> package_file("schemas/config.schema.yaml").is_file()
    True
    """
    return PACKAGE / name


CODE = Path(__file__).resolve().parents[3]


def code_file(name: str = "") -> Path:
    """A file or folder of the checkout, such as ``resources/sources.tsv``; '' is the checkout itself.

    Relative where the checkout is the working directory, so that commands and messages stay as short as they are there.
    """
    return (Path() if Path.cwd() == CODE else CODE) / name


#: Papers' tables, figures and claims as data.
REFERENCES = code_file("references")


def given_or_code_file(name: str) -> str:
    """A path of the configuration: of the working directory, or, where there is none, of the checkout; else as it is.

    >>> given_or_code_file("/data/my.tsv")
    '/data/my.tsv'
    """
    return str(code_file(name)) if not Path(name).exists() and code_file(name).exists() else name


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
