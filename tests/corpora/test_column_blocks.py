"""Columns by blocks give what ``read_columns`` gives line by line, for every input, and the same messages.

Seen to fail when: a carriage return alone ends a line; a blank line becomes a row; a block's
first line number is not moved on; the last line without an end is lost; quotes quote; a long line passes.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import DataError
from pretrieve.raw import column_blocks
from pretrieve.raw.column_blocks import read_column_blocks
from pretrieve.raw.raw_text import read_columns

COLUMNS = ["id", "text"]


def by_line(path: Path, **options: object) -> list[tuple[int, list[str]]] | str:
    try:
        return list(read_columns(path, COLUMNS, **options))
    except DataError as error:
        return str(error)


def by_block(path: Path, **options: object) -> list[tuple[int, list[str]]] | str:
    rows = []
    try:
        for first, columns in read_column_blocks(path, COLUMNS, **options):
            fields = zip(*(column.to_pylist() for column in columns), strict=True)
            rows += [(first + i, list(row)) for i, row in enumerate(fields)]
    except DataError as error:
        return str(error)
    return rows


PIECES = [
    b"1",
    b"\t",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"a b",
    "é".encode(),
    "東\u2028".encode(),
    b"\xff",
    b"\xef\xbb\xbf",
    b'"',
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=24), block=st.integers(1, 9), packed=st.booleans())
def test_any_bytes_are_read_as_line_by_line(
    pieces: list[bytes], block: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_blocks, "BLOCK", block)
    path = tmp_path / "columns.tsv"
    path.write_bytes(gzip.compress(b"".join(pieces)) if packed else b"".join(pieces))
    assert by_block(path) == by_line(path)


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_whole_files_in_blocks_of_any_size(
    block: int, end: bytes, last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_blocks, "BLOCK", block)
    texts = ["plain", "", "a\u2028b\x0cc", 'he said "no', "ﬁ 東京 \U0001f600", " blanks ", "â€™s"]
    expected = [(i + 1, [str(i), text]) for i, text in enumerate(texts * 5)]
    lines = [f"{fields[0]}\t{fields[1]}".encode() for _, fields in expected]
    path = tmp_path / "columns.tsv"
    path.write_bytes("\ufeff".encode() + end.join(lines) + (end if last else b""))
    assert by_block(path) == expected == by_line(path)


@pytest.mark.parametrize(
    "content",
    [
        b"1\ta\r2\tb\n",
        b"1\ta\r\r\n",
        b"1\ta\n\r2\tb\n",
        b"1\ta\n\n2\tb\n",
        b"\t\n",
        b"1\ta\n\xef\xbb\xbf2\tb\n",
        b'1\t"a"\n2\t"b\n',
    ],
)
@pytest.mark.parametrize("block", [4, 1 << 20])
def test_what_arrow_would_read_in_another_way(
    content: bytes, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_blocks, "BLOCK", block)
    path = tmp_path / "columns.tsv"
    path.write_bytes(content)
    assert by_block(path) == by_line(path)


def test_a_field_too_few_in_one_line_and_too_many_in_the_next_is_no_whole_block(tmp_path: Path) -> None:
    path = tmp_path / "columns.tsv"
    path.write_text("1\ta\n2\n3\tb\tc\n")
    assert by_block(path) == by_line(path)
    assert "line 2: 1 fields; expected 2" in by_block(path)


@pytest.mark.parametrize("block", [16, 1 << 20])
def test_a_line_above_the_longest(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_blocks, "BLOCK", block)
    path = tmp_path / "columns.tsv"
    path.write_text("1\ta\n2\t" + "x" * 100 + "\n")
    message = by_block(path, longest=50)
    assert message == by_line(path, longest=50)
    assert "columns.tsv: line 2:" in message and "at most 50" in message
    assert by_block(path, longest=102) == by_line(path, longest=102) != message


def test_a_truncated_gzip_gives_its_whole_blocks_and_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "columns.tsv.gz"
    whole = gzip.compress("".join(f"{i}\t{i * 7919}\n" for i in range(50_000)).encode())
    path.write_bytes(whole[:-1000])
    with pytest.raises(DataError, match=r"columns.tsv.gz: not a whole gzip file: it ends in the middle of a stream"):
        list(read_column_blocks(path, COLUMNS))
