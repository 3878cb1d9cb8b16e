"""Archives whose bytes follow from their content: tar with xz; members sorted by name, without owner, of 1970, mode 644.

Reading refuses what leaves the directory, what is not a plain file, and what the manifest does not list.
"""

import hashlib
import io
import lzma
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of, whole_file
from pretrieve.base.inside import inside
from pretrieve.raw.archives import damage_told, tar_members
from pretrieve.raw.raw_bytes import open_xz

#: xz's default level, as a higher one does not make token ids smaller; and how far back it finds repeated bytes (its own: 8 MiB),
#: so that the second copy of a file, which data sets with the same questions have, takes no room.
_PACKING = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 64 << 20}]

#: The content of a name: a file, or the bytes themselves.
Content = Path | bytes


def _opened(content: Content) -> BinaryIO:
    return io.BytesIO(content) if isinstance(content, bytes) else open(content, "rb")


def write_archive(path: Path, members: Mapping[str, Content]) -> int:
    """Write ``path`` (.tar.xz) with members name → content, and return its size in bytes. It appears when it is complete."""
    with (
        whole_file(path) as raw,
        lzma.open(raw, "wb", filters=_PACKING) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(members):
            content = members[name]
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            info.size = len(content) if isinstance(content, bytes) else content.stat().st_size
            with _opened(content) as stream:
                tar.addfile(info, stream)
    return path.stat().st_size


def sums_of(members: Mapping[str, Content]) -> dict[str, dict[str, Any]]:
    """Name → sha256 and bytes of its content, as manifests have them."""
    sums = {}
    for name, content in members.items():
        with _opened(content) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            sums[name] = {"sha256": digest, "bytes": stream.seek(0, io.SEEK_END)}
    return sums


def check_sum(path: Path, expected: Mapping[str, Any]) -> None:
    """Raise :class:`DataError` unless a file has the sha256 and the bytes that a manifest says."""
    if not path.is_file():
        raise DataError(f"{path}: missing, and the manifest lists it; copy it again.")
    if path.stat().st_size != expected["bytes"] or sha256_of(path) != expected["sha256"]:
        raise DataError(
            f"{path}: {path.stat().st_size:,} bytes, not those of the manifest ({expected['bytes']:,} bytes, sha256 "
            f"{expected['sha256']}); damaged or changed: copy it again."
        )


def read_archive(path: Path, directory: Path, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Unpack into ``directory`` and return the names of the members. ``expected``: name → sha256 and bytes, of plain files.

    Raises DataError, with the member, when the archive is damaged (also after its last member), a member leaves the directory,
    is not a plain file or not the expected one, or one is missing; and when there is no room.
    """
    taken: dict[str, str] = {}
    names: list[str] = []
    with damage_told(path):
        for info, content in tar_members(path, open_xz):
            place = inside(directory, info.name, f"{path}: member", taken=taken)
            if content is None or info.name not in expected or info.name in names:
                raise DataError(
                    f"{path}: member {info.name!r} is not a plain file, occurs twice, or is not in the manifest; take an archive "
                    "that this project made."
                )
            if info.size != expected[info.name]["bytes"]:
                raise DataError(
                    f"{path}: member {info.name!r} has {info.size:,} bytes, but {expected[info.name]['bytes']:,} in the manifest."
                )
            with whole_file(place) as stream:
                shutil.copyfileobj(content, stream, 1 << 20)
            names.append(info.name)
            check_sum(place, expected[info.name])
    if missing := sorted(set(expected) - set(names)):
        raise DataError(f"{path}: {missing[0]!r} is missing, and the manifest lists it; copy it again.")
    return names


def packed_size(content: Content) -> int:
    """About how many bytes a file takes in an archive, by xz at a quick level."""
    packer, size = lzma.LZMACompressor(preset=1), 0
    with _opened(content) as stream:
        while block := stream.read(1 << 20):
            size += len(packer.compress(block))
    return size + len(packer.flush())
