"""Whether a file that nobody knows the checksum of is one of its kind: read to its end before its first use is recorded.

What is recorded decides what is right ever after, so a sign-in page under the name of an archive must never be it. An archive is
read through, member by member, with the checksums in it; a packed file is unpacked; a text is UTF-8, weights have their header.
What the lines say is checked by the readers. Kinds are told by the file's name. Standard library only.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.raw.archives import read_through
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_bytes import BLOCK, open_raw, packing_of

_ARCHIVE = re.compile(r"\.(zip|tar|tgz|tbz2?|tar\.\w+)$")
_TEXT = {".json", ".jsonl", ".tsv", ".csv", ".txt", ".md"}
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html|head|body|\?xml[^>]*>\s*<(!doctype\s+)?html)\b", re.IGNORECASE)
_HEADER = 100 << 20  # bytes of the longest header of safetensors


def check_readable(path: Path, name: str, member: str = "") -> None:
    """Read a file to its end; ``name`` says of which kind it should be, ``member`` what an archive must have.

    Raises DataError when it is a web page, not whole, or of another kind.
    """
    with open(path, "rb") as stream:
        begin = stream.read(1024)
    if _PAGE.match(begin.removeprefix(codecs.BOM_UTF8)) and not name.lower().endswith((".html", ".htm", ".xml")):
        raise DataError(
            f"{path}: a web page; expected the file {name}. Does the site ask to sign in or to accept terms first?"
        )
    if _ARCHIVE.search(name.lower()):
        read_through(path, member)
    elif name.endswith(".safetensors"):
        _check_header(path, begin)
    elif re.search(r"pytorch_model[^/]*\.bin$|\.pt$", name):
        if not begin.startswith((b"PK", b"\x80")):  # torch's files: a zip, before 2020 a pickle of protocol 2
            raise DataError(f"{path}: not a file of weights ({path.stat().st_size:,} bytes); fetch it again.")
    elif name.endswith(".json"):
        read_json(path, "JSON")
    else:
        _read(path, name)


def _read(path: Path, name: str) -> None:
    plain = re.sub(r"\.(gz|bz2)$", "", name)
    if plain == name and Path(name).suffix not in _TEXT:
        return
    decoder = codecs.getincrementaldecoder("utf-8")() if Path(plain).suffix in _TEXT else None
    if plain != name and packing_of(path) is None:
        raise DataError(f"{path}: not packed; expected the gzip or bzip2 file {name}.")
    with open_raw(path) as stream:
        while block := stream.read(BLOCK):
            try:
                if decoder is not None:
                    decoder.decode(block)
            except UnicodeDecodeError as error:
                raise DataError(f"{path}: not UTF-8 ({error.reason}); expected the text {name}.") from None


def _check_header(path: Path, begin: bytes) -> None:
    """Of safetensors: eight bytes that say how long the JSON after them is, and how many bytes the tensors have in all."""
    size = path.stat().st_size
    length = int.from_bytes(begin[:8], "little")
    try:
        if not 2 <= length <= min(_HEADER, size - 8):
            raise ValueError
        with open(path, "rb") as stream:
            stream.seek(8)
            header = json.loads(stream.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        if 8 + length + max(ends, default=0) != size:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise DataError(f"{path}: not a whole file of safetensors ({size:,} bytes); fetch it again.") from None
