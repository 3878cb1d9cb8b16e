"""A file that is one JSON text and is read whole, packed with gzip or bzip2 or not.

Its faults end as those of :mod:`pretrieve.raw.raw_text` do: with the file, the line, what was found and what was expected.

**An array that may be larger than memory** is read element by element: RFC 8259 has no format for streams, and ``json.load`` of a
file of several GB takes many times that in memory. The file is read in blocks; the elements are parsed one at a time by the
standard library's decoder from a text that holds a few of them. Memory is a few times the largest element.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pretrieve.base.errors import DataError
from pretrieve.base.sizes import factor, too_large
from pretrieve.raw.raw_bytes import open_raw
from pretrieve.raw.raw_text import MegaBytes

#: An escape, as a whole; half of a surrogate pair is group 1. In valid JSON no backslash stands outside of an escape.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def read_json(path: Path | str, expected: str, most: int = 0) -> Any:
    """The value of a UTF-8 file; a byte order mark in front of it is dropped. ``expected`` says what the file should be; ``most``
    is how many bytes it may have, 0: any number.

    Raises DataError when there is no such file, it is larger, damaged, not UTF-8 or not JSON, its values are too deep or a
    number too long for Python, or a text has half of a surrogate pair, which no text can have; the message names the file and
    the line.
    """
    path = Path(path)
    advice = f"expected {expected}: mend the file, or fetch it again."
    if not path.exists():
        raise DataError(f"{path}: no such file; expected {expected}. Fetch it, or correct the path.")
    most = int(most * factor())
    with open_raw(path) as stream:
        content = stream.read(most + 1 if most else -1).removeprefix(codecs.BOM_UTF8)
    if most and len(content) > most:
        raise too_large(path, len(content), most, f"far above that of {expected}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = error.start - content.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{path}: line {line}, byte {byte}: 0x{content[error.start]:02x} is not UTF-8: {error.reason}; {advice}"
        ) from None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}: line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}; {advice}"
        ) from None
    except RecursionError:
        raise DataError(f"{path}: not valid JSON: values nested too deeply; {advice}") from None
    except ValueError:  # the only one that is not a JSONDecodeError: a number longer than Python reads
        most = sys.get_int_max_str_digits()
        number = re.compile(rf'"(?:[^"\\]|\\.)*+"|(\d{{{most + 1},}})')
        found = next(match for match in number.finditer(text) if match[1])
        raise DataError(
            f"{path}: {_place(text, found.start())}: a number of {len(found[1]):,} digits, at most {most:,} can be read; "
            f"{advice}"
        ) from None
    if "\\ud" in text or "\\uD" in text:
        half = next((match for match in _ESCAPE.finditer(text) if match[1]), None)
        if half is not None:
            raise DataError(
                f"{path}: {_place(text, half.start())}: {half[0]} without the other half of its surrogate pair; expected "
                "whole characters: fix the file, or fetch it again."
            )
    return value


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


BLOCK = 1 << 20
#: Characters of the longest element that is believed to be one.
LONGEST = 256 << 20
_BLANK = " \t\n\r"


class _Text:
    """The decoded text of a file from the last element on, extended block by block."""

    def __init__(self, path: Path, stream: BinaryIO, progress: MegaBytes, block: int) -> None:
        self.path = path
        self.text, self.place, self.whole = "", 0, False
        self.lines = 1  # the line in the file of text[0]
        self._stream, self._progress = stream, progress
        self._bytes, self._block = 0, block
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()

    @property
    def line(self) -> int:
        return self.lines + self.text.count("\n", 0, self.place)

    def more(self) -> bool:
        """Read as much as there is unread text, at least a block; False at the end of the file."""
        if self.whole:
            return False
        self.lines, self.text, self.place = self.line, self.text[self.place :], 0
        data = self._stream.read(max(self._block, len(self.text)))
        self.whole = not data
        try:
            self.text += self._decoder.decode(data, final=self.whole)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}: within bytes {self._bytes + 1:,} to {self._bytes + len(data):,}: not UTF-8 ({error.reason}); "
                "expected a UTF-8 file: convert it, or fetch it again."
            ) from None
        self._bytes += len(data)
        self._progress.update()
        return not self.whole

    def skip_blanks(self) -> str:
        """Move to the next character that is not blank, and give it; '' at the end of the file."""
        while True:
            while self.place < len(self.text):
                if (character := self.text[self.place]) not in _BLANK:
                    return character
                self.place += 1
            if not self.more():
                return ""


def first_character(path: Path | str) -> str:
    """The first character of a file, packed or not, that is no blank; '' where its begin is blank, or that is not ASCII."""
    with open_raw(path) as stream:
        begin = stream.read(4096).removeprefix(codecs.BOM_UTF8).lstrip(_BLANK.encode())
    return begin[:1].decode("ascii", "ignore")


def read_json_array(path: Path | str, longest: int = LONGEST, block: int = BLOCK) -> Iterator[tuple[int, Any]]:
    """Number (from 0) and value of each element of the array that a file is, packed with gzip or bzip2 or not.

    Raises DataError when the file is not a JSON array, ends within it, has something after it, an element is not JSON or longer
    than ``longest`` characters, or bytes are not UTF-8; the message names the file, the element and its line.
    """
    path = Path(path)
    with open_raw(path) as stream, MegaBytes(path, stream, path.name) as progress:
        yield from _elements(_Text(path, stream, progress, block), longest)


def _elements(text: _Text, longest: int) -> Iterator[tuple[int, Any]]:
    if (found := text.skip_blanks()) != "[":
        begin = text.text[text.place : text.place + 40]
        raise DataError(
            f"{text.path}: line {text.line}: found {begin!r}; expected a JSON array, which begins with '['."
        )
    text.place += 1
    number = 0
    while (found := text.skip_blanks()) != "]":
        if number:
            if found != ",":
                raise _fault(text, number, f"found {found!r} after an element; expected ',' or ']'")
            text.place += 1
            if text.skip_blanks() == "]":
                raise _fault(text, number, "not JSON (',' in front of the end of the array)")
        yield number, _element(text, number, longest)
        number += 1
    text.place += 1
    if rest := text.skip_blanks():
        raise DataError(f"{text.path}: line {text.line}: {rest!r} after the end of the array; expected nothing there.")


def _element(text: _Text, number: int, longest: int) -> Any:
    decoder = json.JSONDecoder()
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.place)
        except RecursionError:
            raise _fault(text, number, "values nested too deeply") from None
        except json.JSONDecodeError as error:
            # It may only be that the rest of the element is not read yet.
            if len(text.text) - text.place > longest:
                raise _fault(text, number, f"more than {longest:,} characters, or not JSON ({error.msg})") from None
            if not text.more():
                cut = error.pos >= len(text.text.rstrip()) or error.msg.startswith("Unterminated")
                reason = "the file ends within it" if cut else f"not JSON ({error.msg})"
                raise _fault(text, number, reason) from None
            continue
        except ValueError:  # the only one that is not a JSONDecodeError
            most = sys.get_int_max_str_digits()
            raise _fault(text, number, f"a number of more than {most:,} digits") from None
        # A number at the end of what was read may continue in the next block ("-0" and ".5"): what ends it must be seen.
        behind = end
        while behind < len(text.text) and text.text[behind] in _BLANK:
            behind += 1
        if text.text[behind : behind + 1] not in (",", "]") and text.more():
            continue
        text.place = end
        return value


def _fault(text: _Text, number: int, what: str) -> DataError:
    return DataError(
        f"{text.path}: element {number}, from line {text.line}: {what}; found "
        f"{text.text[text.place : text.place + 60]!r}. Delete the file and fetch it again."
    )
