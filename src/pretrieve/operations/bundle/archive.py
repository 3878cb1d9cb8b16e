"""Archives whose bytes follow from their content: tar, compressed with xz from the standard library.

Members are sorted by name and belong to nobody, their time is 1970, their mode 644; so two bundles of the same files
are equal. Reading refuses what leaves the directory and everything that is no plain file.
"""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file

#: xz level: 6 is the tool's own; token ids do not get smaller by more.
LEVEL = 6
#: How far back xz sees that bytes were there before, where level 6 has 8 MiB. Data sets that ask the same questions have files in
#: common: those of one bundle lie within this, so that the second copy of a file takes no room.
WINDOW = 64 << 20

#: What stands behind a name: a file, or the bytes themselves.
Content = Path | bytes


def write_archive(path: Path, members: Mapping[str, Content], level: int = LEVEL) -> int:
    """Write ``path`` (.tar.xz) with members name → content, and return its size in bytes. It appears whole."""
    packing = [{"id": lzma.FILTER_LZMA2, "preset": level, "dict_size": WINDOW}]
    with (
        whole_file(path) as raw,
        lzma.open(raw, "wb", filters=packing) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(members):
            content = members[name]
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            info.size = len(content) if isinstance(content, bytes) else content.stat().st_size
            with io.BytesIO(content) if isinstance(content, bytes) else open(content, "rb") as stream:
                tar.addfile(info, stream)
    return path.stat().st_size


def read_archive(path: Path, directory: Path) -> list[str]:
    """Unpack into ``directory`` and return the names of the members, which are plain files.

    Raises
    ------
    DataError
        when the archive is damaged, or a member leaves the directory or is no plain file; it is named.
    """
    names = []
    try:
        with tarfile.open(path, "r:xz") as tar:
            for member in tar:
                # Checked here, for the filters of tarfile came with Python 3.11.4, and Debian 12 has 3.11.2.
                if not member.isfile() or member.name.startswith("/") or ".." in PurePosixPath(member.name).parts:
                    raise DataError(
                        f"{path}: member {member.name!r} is no plain file below it; take an archive that this project made."
                    )
                place = directory / member.name
                place.parent.mkdir(parents=True, exist_ok=True)
                with tar.extractfile(member) as content, open(place, "wb") as stream:
                    shutil.copyfileobj(content, stream)
                names.append(member.name)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise DataError(f"{path}: damaged after {len(names)} members ({error}); copy it again.") from error
    return names


def packed_size(content: Content, level: int = 1) -> int:
    """About how many bytes a file takes in an archive: xz at a quick level, a block at a time."""
    if isinstance(content, bytes):
        return len(lzma.compress(content, preset=level))
    packer, size = lzma.LZMACompressor(preset=level), 0
    with open(content, "rb") as stream:
        while block := stream.read(1 << 20):
            size += len(packer.compress(block))
    return size + len(packer.flush())
