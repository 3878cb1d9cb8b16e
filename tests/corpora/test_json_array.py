"""Streaming of a JSON array: the same as json.loads for every cut into blocks, little memory, messages.

Seen to fail when: a number that a block cuts is given as it stands; blanks or a comma at the border of two blocks are not
read; bytes of one character in two blocks are decoded one by one; what stands behind the array is not looked at; the unread
text is kept from the beginning of the file; a cut file ends the iteration in silence; lines are counted from the block.
"""

from __future__ import annotations

import bz2
import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.raw.json_file import first_character, read_json_array

VALUES = [
    {"question": 'who wrote "Ödipus 🚁 auf Kolonos"?', "n": [1, 2.5, None, True], "text": "a\\b\u2028c"},
    12345678901234567890,
    "naïve 東京",
    [],
    {},
    -0.5e10,
    False,
    {"deep": [[["]", "[", ","]]]},
]


def values(path: Path, **options: int) -> list:
    return [value for _, value in read_json_array(path, **options)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_size_of_blocks_gives_what_json_gives(tmp_path: Path, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(VALUES, indent=indent, ensure_ascii=ascii_only)
    path = tmp_path / "array.json"
    path.write_bytes(b" \r\n" + text.encode() + b"\n\n")
    for block in (1, 2, 3, 5, 7, 16, 61, 1000):
        assert values(path, block=block) == VALUES
    assert [number for number, _ in read_json_array(path)] == list(range(len(VALUES)))


def test_packed_with_a_byte_order_mark_and_empty(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(VALUES).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.bz2").write_bytes(bz2.compress(data[:50]) + bz2.compress(data[50:]))
    (tmp_path / "empty.json").write_text("[ \n ]")
    assert values(tmp_path / "a.json.gz") == values(tmp_path / "a.bz2", block=9) == VALUES
    assert values(tmp_path / "empty.json") == []
    assert first_character(tmp_path / "a.bz2") == "["
    (tmp_path / "lines.jsonl").write_text('{"a": [1]}\n')
    assert first_character(tmp_path / "lines.jsonl") == "{"


def test_memory_is_a_few_elements(tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    element = json.dumps({"text": "x" * 10_000})
    path.write_text("[" + ",\n".join([element] * 2_000) + "]")  # 20 MB
    list(read_json_array(path, block=1 << 16))  # imports and caches
    tracemalloc.start()
    assert sum(1 for _ in read_json_array(path, block=1 << 16)) == 2_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def message(path: Path, text: bytes, **options: int) -> str:
    path.write_bytes(text)
    with pytest.raises(DataError) as caught:
        values(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_messages(tmp_path: Path) -> None:
    path = tmp_path / "array.json"
    assert "line 2: found '{\"data\": []}'; expected a JSON array" in message(path, b'\n{"data": []}')
    assert "found ''; expected a JSON array" in message(path, b"  ")
    cut = message(path, b'[1,\n{"a": 2},\n{"question": "wh', block=4)
    assert 'element 2, from line 3: the file ends within it; found \'{"question": "wh\'' in cut
    assert "element 1, from line 1: found '2' after an element" in message(path, b"[1 2]")
    assert "element 1, from line 2: not JSON" in message(path, b'[1,\n{a: 2}, {"b": 1}]')
    assert "element 1, from line 1: not JSON" in message(path, b"[1,]")
    assert "'x' after the end of the array" in message(path, b"[1] x")
    assert "found '' after an element" in message(path, b"[1, 2")
    assert "more than 50 characters" in message(path, b'["' + b"x" * 500 + b'"]', longest=50, block=16)
    assert "within bytes 1 to 6: not UTF-8" in message(path, b'["\xe9 "]')
    assert "values nested too deeply" in message(path, b"[" + b"[" * 100_000 + b"]" * 100_001)
    digits = message(path, b'[1,\n{"question": ' + b"9" * 5_000 + b"}]")
    assert "element 1, from line 2: a number of more than 4,300 digits" in digits


def test_a_truncated_gzip_file(tmp_path: Path) -> None:
    data = gzip.compress(json.dumps(VALUES * 50).encode())
    assert "not a whole gzip file" in message(tmp_path / "a.json.gz", data[:-20])
