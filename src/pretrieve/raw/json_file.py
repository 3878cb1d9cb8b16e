"""A file that is one JSON text and is read whole, packed with gzip or bzip2 or not.

Its faults end as those of :mod:`pretrieve.raw.raw_text` do: with the file, the line, what was found and what was expected.
A file that is one large array is read element by element: :mod:`pretrieve.raw.json_array`.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.base.sizes import factor, too_large
from pretrieve.raw.raw_bytes import open_raw

#: An escape, as a whole; half of a surrogate pair is group 1. In valid JSON no backslash stands outside of an escape.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def read_json(path: Path | str, expected: str, most: int = 0) -> Any:
    """The value of a UTF-8 file; a byte order mark in front of it is dropped. ``expected`` says what the file should be; ``most``
    is how many bytes it may have, 0: any number.

    Raises
    ------
    DataError
        when there is no such file, it is larger, damaged, not UTF-8 or not JSON, its values are too deep or a number too long for
        Python, or a text has half of a surrogate pair, which no text can have; the message names the file and the line.
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
        raise DataError(f"{path}: not valid JSON: too many values within each other; {advice}") from None
    except ValueError:  # the only one that is no JSONDecodeError: a number longer than Python reads
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
                "whole characters: mend the file, or fetch it again."
            )
    return value


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"
