"""The bytes of a raw file, unpacked as they are read: plain, gzip or bzip2.

What a file is packed with is told by its first bytes, not by its name: ``1f 8b`` is gzip (RFC 1952), ``BZh`` bzip2. Both
formats allow several streams one after another, which Wikipedia's multistream dumps consist of. Bytes after the last stream
that are no stream are an error: Python's own ``bz2.open`` ends there in silence, and the rest of the file is lost.

The checksum of a bzip2 block stands for all of it. What a damaged block unpacks to would be read before the damage is known, and
its reader would complain of a bad line; so nothing is given out until a block's length is unpacked after it (:data:`HELD`).
gzip has one checksum for a whole stream, which is too long to be waited for.

What unpacks to more than :func:`pretrieve.base.sizes.unpacked_limit` is refused while it is read.

Its lines, JSON and columns: :mod:`pretrieve.raw.raw_text`. Archives of several files: :mod:`pretrieve.raw.archives`.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from pretrieve.base.errors import DataError
from pretrieve.base.sizes import RATIO, too_large, unpacked_limit

#: Bytes that are read at a time.
BLOCK = 1 << 18
#: Bytes that a bzip2 block unpacks to at most. More than five equal bytes in a row count as five, so that a block of long rows
#: is longer: then its begin is given out before its checksum is compared.
HELD = 900_000
#: Bytes that unpacking xz may take: a file can ask for 4 GiB; bundles ask for their window of 64 MiB.
XZ_MEMORY = 256 << 20
_OTHER_KINDS = {
    b"\xfd7zXZ": ("xz", "unpack it first"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unpack it first"),
    b"PK\x03\x04": ("zip", "unpack it first"),
    b"7z\xbc\xaf": ("7z", "unpack it first"),
    b"PAR1": ("Parquet", "take the publisher's own file, or write the table as text"),
}


_DECODERS = {
    "gzip": lambda: zlib.decompressobj(31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY),
}


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file of gzip, bzip2 or xz streams."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        self._packed = open(path, "rb")  # noqa: SIM115 - closed by close()
        self._decoder: Any = None
        self._input = b""
        self._streams = self._unpacked = 0
        # Unpacked, not given out yet; so many bytes of it are known to be whole; what came after them.
        self._held, self._whole, self._fault = bytearray(), 0, None

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._packed.close()
        super().close()

    def tell(self) -> int:
        """Bytes of the packed file that were read: what progress is measured by."""
        return self._packed.tell()

    def _next_stream(self) -> bool:
        """Begin a stream where the last one ended; False at the end of the file."""
        if self._kind == "gzip" and self._streams:
            # gzip files on tapes and from some web servers are filled up with zeros [gzip(1)].
            self._input = self._input.lstrip(b"\0")
            while not self._input and (block := self._packed.read(BLOCK)):
                self._input = block.lstrip(b"\0")
        self._input = self._input or self._packed.read(BLOCK)
        if not self._input:
            return False
        self._decoder = _DECODERS[self._kind]()
        self._streams += 1
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        data: bytes | bytearray | None = b""
        if self._kind == "bzip2":
            data = self._checked(size)
        else:
            while size and data is not None and not data:
                data = self._unpack(size)
        if not data:
            return 0
        buffer[: len(data)] = data
        self._unpacked += len(data)
        limit = unpacked_limit(self._packed.tell())
        if self._unpacked > limit:
            why = f"{RATIO} times the packed bytes that were read and a margin"
            raise too_large(f"{self._path}, unpacked", self._unpacked, limit, why)
        return len(data)

    def _checked(self, size: int) -> bytearray:
        """At most ``size`` bytes of blocks whose checksums were compared; none at the end of the file."""
        while self._fault is None and len(self._held) < size + HELD:
            try:
                data = self._unpack(HELD)
            except DataError as error:
                self._fault = error
                del self._held[self._whole :]
                break
            if data is None:
                break
            self._held += data
            if self._decoder is None:
                self._whole = len(self._held)
        if self._fault is not None and not self._held:
            raise self._fault
        data = self._held[:size]
        del self._held[:size]
        self._whole = max(0, self._whole - size)
        return data

    def _unpack(self, size: int) -> bytes | None:
        """The next at most ``size`` bytes, maybe none yet; None at the end of the file."""
        if self._decoder is None and not self._next_stream():
            return None
        decoder = self._decoder
        try:
            data = decoder.decompress(self._input, size)
        except (OSError, zlib.error, lzma.LZMAError, EOFError) as error:
            raise self._damaged(f"stream {self._streams} is damaged ({error})") from None
        self._input = decoder.unconsumed_tail if self._kind == "gzip" else b""
        if decoder.eof:
            self._input, self._decoder = decoder.unused_data, None
        elif not data and not self._input and (self._kind == "gzip" or decoder.needs_input):
            self._input = self._packed.read(BLOCK)
            if not self._input:
                self._whole = len(self._held)  # of a block that is cut off nothing is unpacked
                raise self._damaged("it ends in the middle of a stream")
        return data

    def _damaged(self, what: str) -> DataError:
        given = self._unpacked + self._whole
        return DataError(
            f"{self._path}: not a whole {self._kind} file: {what}, after {given:,} unpacked bytes, within the "
            f"first {self._packed.tell():,} of {self._path.stat().st_size:,} bytes of the file; delete it and fetch it again."
        )


def open_raw(path: Path | str) -> BinaryIO:
    """Open a plain, gzip or bzip2 file (also of several streams) for reading its unpacked bytes.

    Raises DataError when there is no such file, it cannot be read twice (a pipe), or it is packed in another way; and, from any
    later read, when the packed file is truncated or damaged: with the bytes read so far.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream:
            if not stream.seekable():  # it is opened once more below, and what was read would be lost
                raise DataError(
                    f"{path}: is no file that can be read twice, such as a pipe; expected one: write it first."
                )
            begin = stream.read(6)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; expected a file.") from None
    for magic, (name, how) in _OTHER_KINDS.items():
        if begin.startswith(magic):
            raise DataError(f"{path}: a {name} file; expected plain, gzip or bzip2: {how}.")
    packing = _packing(begin)
    return io.BufferedReader(_Unpacked(path, packing), BLOCK) if packing else open(path, "rb")


def open_xz(path: Path) -> BinaryIO:
    """Open an xz file for reading its unpacked bytes, to its end, where its checksum is. Raw files are never xz; bundles are.

    Raises DataError from any read, as for :func:`open_raw`.
    """
    return io.BufferedReader(_Unpacked(path, "xz"), BLOCK)


def packing_of(path: Path) -> str | None:
    """``gzip``, ``bzip2``, or None for any other file."""
    with open(path, "rb") as stream:
        return _packing(stream.read(3))


def _packing(begin: bytes) -> str | None:
    return "gzip" if begin[:2] == b"\x1f\x8b" else "bzip2" if begin[:3] == b"BZh" else None
