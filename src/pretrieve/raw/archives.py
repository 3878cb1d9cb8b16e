"""Members of tar and zip archives, taken out safely.

An archive can name a member ``../../.bashrc`` or ``/etc/passwd``, or have a link that points out of its folder and a member
behind that link. Such an archive is refused as a whole: no publisher of a data set makes one, so it is damaged or meant to do
harm. Nothing but plain files is ever taken out, with the content alone: no owners, no permissions, no times. Names are checked
by :func:`pretrieve.base.inside.plain_name`; what all members unpack to is bounded (:mod:`pretrieve.base.sizes`).

Formats: zip (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT), and tar, plain or packed with gzip or bzip2
(https://www.gnu.org/software/tar/manual/html_node/Standard.html). ``tarfile`` takes the end of a cut archive, and a damaged
header, for the archive's end. Here a tar must have its end of two blocks of zeros, and packed ones are read through
:func:`~pretrieve.raw.raw_bytes.open_raw`, to the last byte, whose checksums tell.
"""

from __future__ import annotations

import errno
import fnmatch
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file
from pretrieve.base.inside import plain_name
from pretrieve.base.sizes import RATIO, stated_limit, too_large, unpacked_limit
from pretrieve.raw.raw_bytes import open_raw

#: What reading a damaged archive raises.
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(RuntimeError, ValueError, IndexError, OverflowError),  # of zipfile, for numbers and names that are damaged
)
#: Of an OSError, what wrong places within the archive and impossible names lead to; all others are of the disk.
_ODD = {None, errno.EINVAL, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}


def extract_member(archive: Path, member: str, target: Path, size: int = 0) -> None:
    """Write one member's content to ``target``; it appears when it is whole.

    ``member`` is the name in the archive, or a pattern with ``*`` that fits exactly one; ``size`` its bytes, 0 where not known.

    Raises DataError when there is no such member, or more than one, it is not a plain file or too large, or the archive is
    damaged or unsafe.
    """
    found: list[str] = []
    names: list[str] = []
    pattern = "*" in member
    # The content goes to the disk at once; it takes its place after the whole archive was looked through.
    with damage_told(archive), whole_file(target) as out:
        for name, stream, length in _files(archive):
            names.append(name)
            if fnmatch.fnmatchcase(name, member) if pattern else name == member:
                found.append(name)
                if len(found) > 1:
                    both = f"{found[0]} and {found[1]}" if pattern else f"{name} twice"
                    raise DataError(f"{archive}: {member} stands for {both}; expected one member.")
                if size and length > stated_limit(size):
                    raise too_large(
                        f"{archive}: {name}", length, stated_limit(size), "its size in the list and a margin"
                    )
                shutil.copyfileobj(stream, out, 1 << 20)
        if not found:
            raise _no_member(archive, member, names)


def read_through(archive: Path, member: str = "") -> None:
    """Read all members to their ends, where their checksums are; ``member``, a name or a pattern, must be one of them.

    Raises DataError as in :func:`extract_member`.
    """
    names = []
    with damage_told(archive):
        for name, stream, _ in _files(archive):
            names.append(name)
            while stream.read(1 << 20):
                pass
    if not names or (member and not any(fnmatch.fnmatchcase(name, member) for name in names)):
        raise _no_member(archive, member or "at all", names)


def _no_member(archive: Path, member: str, names: list[str]) -> DataError:
    some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return DataError(f"{archive}: no member {member}; it has {len(names)}: {some}. Another version of the archive?")


@contextmanager
def damage_told(archive: Path) -> Iterator[None]:
    """What reading a damaged archive raises becomes a DataError that names it."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in _ODD:
            raise
        raise DataError(
            f"{archive}: not a whole archive ({type(error).__name__}: {error}), {archive.stat().st_size:,} bytes; expected "
            f"tar or zip. Delete it and fetch it again."
        ) from None


def _files(archive: Path) -> Iterator[tuple[str, BinaryIO, int]]:
    """Name (without ``./`` in front), content and size of every plain file, in the archive's order; every name, kind and size is
    checked."""
    if not archive.is_file():
        raise DataError(f"{archive}: no such file; expected a tar or zip archive.")
    with open(archive, "rb") as stream:
        zipped = stream.read(2) == b"PK"
    if zipped:
        with zipfile.ZipFile(archive) as source:
            total, taken = 0, dict[str, str]()
            for info in source.infolist():
                _check_name(archive, info.orig_filename, taken)  # zipfile cuts names at NUL
                total = _added(archive, total, info.file_size)
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise DataError(
                        f"{archive}: {info.filename} is a link or a device; expected plain files: not unpacked."
                    )
                if info.flag_bits & 1:
                    raise DataError(f"{archive}: {info.filename} is encrypted; expected plain files.")
                if not info.is_dir():
                    with source.open(info) as stream:
                        yield info.filename.removeprefix("./"), stream, info.file_size
        return
    taken: dict[str, str] = {}
    for info, content in tar_members(archive):
        _check_name(archive, info.name, taken)
        if content is not None:
            yield info.name.removeprefix("./"), content, info.size
        elif not info.isdir():
            raise DataError(
                f"{archive}: {info.name} is a link or a device"
                f"{f', to {info.linkname}' if info.linkname else ''}; expected plain files: not unpacked."
            )


def _added(archive: Path, total: int, size: int) -> int:
    """The bytes of all members so far."""
    total, limit = total + size, unpacked_limit(archive.stat().st_size)
    if total > limit:
        raise too_large(f"{archive}, unpacked", total, limit, f"{RATIO} times its own bytes and a margin")
    return total


class _Header(tarfile.TarInfo):
    """A member's header that tells the end of the archive from the end of a file that is cut off."""

    @classmethod
    def fromtarfile(cls, source: tarfile.TarFile) -> tarfile.TarInfo:
        try:
            return super().fromtarfile(source)
        except tarfile.EOFHeaderError:
            if source.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
                raise tarfile.ReadError("one block of zeros where a tar file's end has two") from None
            raise  # a block of zeros: the first of the two
        except tarfile.EmptyHeaderError:
            raise tarfile.ReadError("it stops without a tar file's end, two blocks of zeros") from None
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"no header of a member at byte {source.offset:,}: {error}") from None


def tar_members(
    archive: Path, opened: Callable[[Path], BinaryIO] = open_raw
) -> Iterator[tuple[tarfile.TarInfo, BinaryIO | None]]:
    """Every member of a tar file (plain or packed, told by its content) and what is in it: None for all but plain files.

    It is read from front to back: a packed archive has no index, and one of many GB is not read twice. A member's content is
    there until the next one is asked for. To be used within :func:`damage_told`, as the contents are read by the caller.

    Raises DataError for a name that leaves the directory it is unpacked to, more bytes than are allowed, and what
    :func:`~pretrieve.raw.raw_bytes.open_raw` raises, and tarfile.TarError for a damaged or cut archive.
    """
    with opened(archive) as unpacked, tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Header) as source:
        total = 0
        for info in source:
            _check_name(archive, info.name)
            total = _added(archive, total, info.size)  # of a sparse file the bytes that it stands for
            yield info, source.extractfile(info) if info.isfile() else None
        while unpacked.read(1 << 20):
            pass


def _check_name(archive: Path, name: str, taken: dict[str, str] | None = None) -> None:
    # "./" is the root, which some archives have as a member.
    if name.strip("./") or ".." in name or name.startswith("/"):
        plain_name(name, f"{archive}: member", taken)
