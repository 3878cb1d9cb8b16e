"""A file that is one JSON text: how it is packed and marked, and what every fault of it says.

Seen to fail when: a byte order mark is no JSON; the line is counted from the begin of the file's bytes; a depth, a long number
or half of a surrogate pair ends in Python's own error; a whole pair, or a backslash in front of ``ud800``, is taken for a half;
digits within a text are taken for the number.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.raw.json_file import read_json

VALUE = {"a": ["naïve 猫", "😀", 1.5, None]}
TEXT = b'{"a": ["na\xc3\xafve \xe7\x8c\xab", "\\ud83d\\uDE00", 1.5, null]}'


@pytest.mark.parametrize("content", [TEXT, b"\xef\xbb\xbf" + TEXT, gzip.compress(b"\xef\xbb\xbf\n" + TEXT, mtime=0)])
def test_values(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(content)
    assert read_json(path, "a value") == VALUE


@pytest.mark.parametrize("text", [rb'["\\ud800"]', rb'["\\\\ud800", "\ud83d\ude00"]', b'["' + b"7" * 5_000 + b'"]'])
def test_what_only_looks_like_a_fault(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(text)
    assert len(read_json(path, "a value")) >= 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{\n"a": oops}', "line 2, column 6: not valid JSON: Expecting value; expected a value"),
        (b"", "line 1, column 1: not valid JSON"),
        (b"[" * 100_000, "values nested too deeply"),
        (b'{"a":' * 100_000, "values nested too deeply"),
        (
            b'["' + b"7" * 6_000 + b'",\n' + b"1" * 5_000 + b"]",
            "line 2, column 1: a number of 5,000 digits, at most 4,300",
        ),
        (rb'["\ud83d\ude00\\ud800 \ud800"]', r"line 1, column 23: \ud800 without the other half of its surrogate pair"),
        (b'[1,\n"\\uDC00\\uD83D"]', r"line 2, column 2: \uDC00 without the other half"),
        (b'[1,\n"\\uD83Dx"]', r"line 2, column 2: \uD83D without the other half"),
        (b'\xef\xbb\xbf["\n\xff"]', "line 2, byte 1: 0xff is not UTF-8: invalid start byte"),
        (gzip.compress(TEXT, mtime=0)[:-5], "not a whole gzip file"),
    ],
)
def test_faults(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_json(path, "a value")
    assert str(caught.value).startswith(f"{path}: ") and words in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json: no such file; expected a value"):
        read_json(tmp_path / "none.json", "a value")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_json(tmp_path, "a value")
