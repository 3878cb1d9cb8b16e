"""A disk that is full, over quota or read-only, or a name that no file can have, said in one sentence: which file, what to do.

Libraries say it in their own ways. Python and Arrow raise an ``OSError`` with a number; what is written in Rust (safetensors,
tokenizers) puts ``os error 28`` into a text, Java ``No space left on device``, and numpy says how many items it wrote of how
many.
:func:`disk_error` knows them all. Standard library only: the workflow reads it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pretrieve.base.errors import DataError, PretrieveError

#: Error number → what it says, where more room would help.
_FULL = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than allowed here (`ulimit -f`, or the file system's limit)",
}
#: And where it would not.
_CLOSED = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "the system does not allow it",
    errno.EIO: "the disk reports an input/output error",
}
#: And where another name would.
_NAMED = {
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of its path is no folder",
    errno.EEXIST: "a file stands where a folder should",
    errno.ENAMETOOLONG: "its name is too long",
}
_KNOWN = _FULL | _CLOSED | _NAMED
_WORDS = {os.strerror(number): number for number in (*_FULL, *_CLOSED)}


def disk_error(error: BaseException | None) -> int | None:
    """The error number of the disk behind an exception or its cause; None when it is about something else.

    >>> disk_error(OSError(28, "No space left on device")), disk_error(ValueError("os error 28")), disk_error(KeyError("x"))
    (28, 28, None)
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno if error.errno in _KNOWN else None
        text = str(error)
        if found := re.search(r"\bos error (\d+)\b", text):
            return int(found[1]) if int(found[1]) in _KNOWN else None
        for words, number in _WORDS.items():
            if words in text:
                return number
        # numpy's tofile loses the number: a short write to a plain file is a full disk.
        if isinstance(error, OSError) and re.fullmatch(r"\d+ requested and \d+ written", text):
            return errno.ENOSPC
        error = error.__cause__
    return None


def refusal(
    path: Path | str, number: int, needed: int | None = None, written: int = 0, verb: str = "written"
) -> DataError:
    """The error for a ``path`` that could not be written. needed: its bytes, where they are known; written: how many fitted."""
    path = Path(path)
    if number in _NAMED:
        shown = f"{str(path)[:200]}{'…' * (len(str(path)) > 200)}"
        return DataError(
            f"{shown}: cannot be {verb}: {_NAMED[number]}. Give another one and run the same command again."
        )
    folder = _standing(path)
    if number not in _FULL:
        link = "" if path.is_absolute() else f", or let {path.parts[0]} be a link to a folder that is,"
        return DataError(
            f"{path}: cannot be {verb}: {_CLOSED[number]}. Make {folder} writable{link} and run the same command again."
        )
    size = (
        f"it needs {needed:,} bytes"
        if needed
        else f"it needs more than {written:,} bytes"
        if written
        else "it needs more"
    )
    return DataError(
        f"{path}: {_FULL[number]}: {size}, and {shutil.disk_usage(folder).free:,} are free in {folder}. Make room there and run "
        "the same command again: what is finished is kept, and nothing half-written is left."
    )


def explained(error: Exception) -> DataError | None:
    """The same for an exception that nobody caught where it was raised; None when it is not the disk's."""
    number = disk_error(error)
    if number is None:
        return None
    name = isinstance(error, OSError) and (error.filename2 or error.filename)
    if isinstance(name, (str, bytes)):
        return refusal(os.fsdecode(name), number, verb="read or written")
    # Python's own tempfile.gettempdir writes there to see: on a full disk that is an error.
    temporary = os.environ.get("TMPDIR") or "/tmp"
    places = [place for place in ("results", "data", temporary) if Path(place).exists()]
    room = ", ".join(f"{shutil.disk_usage(place).free:,} bytes in {place}" for place in places)
    return DataError(
        f"a file could not be written: {_KNOWN[number]} ({type(error).__name__}: {' '.join(str(error).split())}); "
        f"free are {room}. Fix that and run the same command again: what is finished is kept."
    )


@contextmanager
def room_for(path: Path | str, needed: int | None = None, remove: Iterable[Path] = ()) -> Iterator[None]:
    """Write ``path`` in the block: when it fails, what is half-written is removed, and the disk's reason is said.

    needed: bytes, where they are known before. remove: what the block writes to before it is whole; gone after any exception.

    Raises DataError when the disk is full, over quota or read-only, nothing of this name can be there, or it is a device or
    pipe; every other exception passes.
    """
    if remove and _is_device(path):  # a file that is moved to its place would replace even /dev/null
        raise DataError(f"{path}: is a device or pipe; expected the name of a file.")
    try:
        yield
    except BaseException as error:
        written = 0
        for part in remove:
            try:
                written += part.stat().st_size
                part.unlink()
            except OSError:
                pass  # never begun, or not to be removed either
        number = disk_error(error) if isinstance(error, Exception) and not isinstance(error, PretrieveError) else None
        if number is None or not _about(error, Path(path), remove):
            raise
        raise refusal(path, number, needed, written) from error


def check_writable(folders: Iterable[Path | str]) -> None:
    """Find out before any work that a folder, or the one that it would be made in, can be written and has some room.

    Raises DataError for the first that cannot, is not a folder, or is (in) a link that leads nowhere.
    """
    for folder in map(Path, folders):
        for place in (folder, *folder.parents):
            if os.path.islink(place) and not os.path.exists(place):
                raise DataError(
                    f"{place}: is a link to {os.readlink(place)}, which is not there; expected a folder. Make it, or remove "
                    "the link, and run the same command again."
                )
        standing = _standing(folder)
        if standing != folder and os.path.lexists(folder):
            raise DataError(
                f"{folder}: is not a folder; expected one, or nothing. Remove or rename it, and run the same command again."
            )
        # access() also knows of read-only file systems, whoever asks.
        if not os.access(standing, os.W_OK | os.X_OK):
            number = errno.EROFS if os.statvfs(standing).f_flag & os.ST_RDONLY else errno.EACCES
            raise refusal(folder, number)
        if not shutil.disk_usage(standing).free:
            raise refusal(folder, errno.ENOSPC)


def check_all_writable(folder: Path | str) -> None:
    """The same for a folder and all folders in it. Raises DataError as :func:`check_writable`."""
    check_writable([folder])
    for place, _, _ in os.walk(folder, onerror=_not_to_be_read):
        if not os.access(place, os.W_OK | os.X_OK):
            raise refusal(place, errno.EACCES)


def check_run_folders(root: str) -> None:
    """Before the first job: ``root`` (``results/{scale}``) with all folders in it, and an empty ``data``, can be written.

    Raises DataError as :func:`check_writable`.
    """
    check_all_writable(root)
    # Raw files that somebody else keeps may stand where nothing can be written.
    if not any(os.path.exists(f"data/{name}") for name in ("sources", "hub")):
        check_writable(["data"])


def _not_to_be_read(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # still to be made
        raise refusal(os.fsdecode(error.filename), errno.EACCES, verb="read") from error


def _is_device(path: Path | str) -> bool:
    """Also a link in /dev: where output goes to a file, /dev/stdout leads to it."""
    other = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return other or os.path.dirname(os.path.abspath(path)) == "/dev"


def _about(error: BaseException, path: Path, parts: Iterable[Path]) -> bool:
    """Whether an error is about what was being written: it names that, or nothing. Of a copy the second name is the target."""
    name = getattr(error, "filename2", None) or getattr(error, "filename", None)
    if not isinstance(name, (str, bytes, os.PathLike)):
        return True
    named = Path(os.fsdecode(name))
    return named in (path, *parts) or named in path.parents


def _standing(path: Path) -> Path:
    """The nearest folder above (or at) ``path`` that is there."""
    for place in (path, *path.parents):
        try:
            if place.is_dir():
                return place
        except OSError:
            pass  # in a folder that may not even be looked into
    return Path(".")
