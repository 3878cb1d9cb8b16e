"""Raw files line by line: what is packed, damaged, mis-encoded or misshapen, against files made byte by byte.

Seen to fail when: bzip2 is opened by Python's own module; the end of a file within a stream passes; what follows the first
stream is dropped; a carriage return is looked for in the new block only; lines are cut with ``splitlines``; the byte order mark
is dropped from later lines; the number of a line restarts with a block; the length of a line is taken of its characters; half
a surrogate pair passes; a record over several lines has the number of its last line; blank lines are not counted; what a
damaged bzip2 block unpacks to is given out before its checksum is compared; the begin of a pipe is lost.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.raw import raw_bytes, raw_text
from pretrieve.raw.raw_bytes import open_raw
from pretrieve.raw.raw_text import Form, Line, Warnings, read_columns, read_json_lines, read_lines

TEXT = "".join(f"{number}\tnaïve Ω 𝄞 line {number}\n" for number in range(5000)).encode()
HALVES = TEXT[: len(TEXT) // 2], TEXT[len(TEXT) // 2 :]

PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "gzip of two members": b"".join(map(gzip.compress, HALVES)),
    "gzip, zeros behind": gzip.compress(TEXT) + bytes(600_000),
    "bzip2": bz2.compress(TEXT),
    "multistream bzip2": b"".join(map(bz2.compress, HALVES)),
    "streams without content": bz2.compress(b"") + bz2.compress(TEXT) + bz2.compress(b""),
}


def write(folder: Path, content: bytes | str, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(run: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        run()
    return str(caught.value)


@pytest.mark.parametrize("block", [7, 1000, raw_bytes.BLOCK])
@pytest.mark.parametrize("kind", PACKED)
def test_packing_is_told_by_content(tmp_path: Path, kind: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (raw_bytes, raw_text):
        monkeypatch.setattr(module, "BLOCK", block)
    path = write(tmp_path, PACKED[kind], "misleading.bz2.gz.txt")
    with open_raw(path) as stream:
        assert stream.read() == TEXT
    if block > 7:
        lines = list(read_lines(path))
        assert [line.text for line in lines] == TEXT.decode().split("\n")[:-1]
        assert [line.number for line in lines] == list(range(1, 5001))


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "multistream bzip2", "gzip of two members"])
@pytest.mark.parametrize("cut", [12, 2000, -1, -9])
def test_a_truncated_file_is_no_shorter_file(tmp_path: Path, kind: str, cut: int) -> None:
    path = write(tmp_path, PACKED[kind][:cut])
    text = message(lambda: list(read_lines(path)))
    assert str(path) in text and "ends in the middle of a stream" in text and "fetch it again" in text
    assert f"{path.stat().st_size:,} bytes" in text and re.search(r"after [\d,]+ unpacked bytes", text)


@pytest.mark.parametrize(
    ("content", "stream"),
    [
        (bz2.compress(HALVES[0]) + b"not a stream", 2),
        (bz2.compress(HALVES[0]) + b"\0" * 9 + bz2.compress(HALVES[1]), 2),
        (gzip.compress(HALVES[0]) + b"not a stream", 2),
        (gzip.compress(TEXT)[:-8] + bytes(8), 1),  # the checksum of what was unpacked
        (gzip.compress(TEXT)[:900] + b"\xff" * 40 + gzip.compress(TEXT)[940:], 1),
        (bz2.compress(TEXT)[:900] + b"\xff" * 40 + bz2.compress(TEXT)[940:], 1),
    ],
)
def test_a_damaged_stream_is_named(tmp_path: Path, content: bytes, stream: int) -> None:
    path = write(tmp_path, content)
    text = message(lambda: open_raw(path).read())
    assert f"{path}: not a whole" in text and f"stream {stream} is damaged" in text


@pytest.mark.parametrize("streams", [1, 3])
def test_a_flipped_byte_is_told_before_what_it_unpacks_to(tmp_path: Path, streams: int) -> None:
    """A line that is no JSON would be met long before the checksum behind it."""
    lines = [json.dumps({"_id": str(n), "text": f"{n * n} line {n**3}"}).encode() + b"\n" for n in range(90_000)]
    parts = [b"".join(lines[n::streams]) for n in range(streams)]
    packed = [bz2.compress(part) for part in parts]
    assert len(parts[-1]) > 1_000_000  # more than a block
    before, last = b"".join(packed[:-1]), packed[-1]
    for place in (len(last) // 5, len(last) // 3, len(last) // 2, len(last) - 2000, len(last) - 8):
        path = write(tmp_path, before + last[:place] + bytes([last[place] ^ 0x10]) + last[place + 1 :])
        seen = []
        text = message(lambda: seen.extend(number for number, _ in read_json_lines(path, ["_id", "text"])))  # noqa: B023
        assert f"{path}: not a whole bzip2 file: stream {streams} is damaged" in text
        assert len(seen) > (streams - 1) * 90_000 // streams - 20_000, "what is known to be whole is read"
        given = int(re.search(r"after ([\d,]+) unpacked bytes", text)[1].replace(",", ""))
        assert sum(map(len, parts[:-1])) <= given <= sum(map(len, parts))


def test_other_packings_and_missing_files(tmp_path: Path) -> None:
    assert "a zip file; expected plain, gzip or bzip2" in message(lambda: open_raw(write(tmp_path, b"PK\x03\x04....")))
    assert "a zstd file" in message(lambda: open_raw(write(tmp_path, b"\x28\xb5\x2f\xfd....")))
    # Hugging Face's copies; seen to be taken for a test set of GLUE
    said = message(lambda: open_raw(write(tmp_path, b"PAR1\x15\x04\x15\x14")))
    assert "a Parquet file; expected plain, gzip or bzip2: take the publisher's own file" in said
    assert "No such file" in message(lambda: open_raw(tmp_path / "missing"))
    assert "cannot be read" in message(lambda: open_raw(tmp_path))


def test_line_ends(tmp_path: Path) -> None:
    inside = "a\u2028b\x0cc\x85d\re"  # what str.splitlines cuts at
    path = write(tmp_path, f"\ufeffone\r\n\r\n{inside}\n\ufefftwo\nlast")
    expected = [Line(1, "one"), Line(2, ""), Line(3, inside), Line(4, "\ufefftwo"), Line(5, "last")]
    assert list(read_lines(path)) == expected
    assert list(read_lines(write(tmp_path, ""))) == [] and list(read_lines(write(tmp_path, "\n"))) == [Line(1, "")]


@pytest.mark.parametrize("block", range(1, 12))
def test_a_line_end_between_two_blocks(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_text, "BLOCK", block)
    path = write(tmp_path, "\ufeffäb\r\nc\r\n\r\n\ufeff𝄞\n\r\nend")
    assert [line.text for line in read_lines(path)] == ["äb", "c", "", "\ufeff𝄞", "", "end"]


def test_invalid_utf8_is_placed(tmp_path: Path) -> None:
    filler = "0123456789\n" * 60_000  # more than two blocks
    path = write(tmp_path, filler.encode() + "né".encode() + b"\xe9 x\nnext\n")
    text = message(lambda: list(read_lines(path)))
    assert f"{path}: line 60001, byte 4: 0xe9 is not UTF-8" in text
    assert "line 2, byte 1: 0xff" in message(lambda: list(read_lines(write(tmp_path, b"a\n\xff"))))
    assert (
        "line 1" in (text := message(lambda: list(read_lines(write(tmp_path, "a\n".encode("utf-16"))))))
        and "UTF-16" in text
    )


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    long = "é" * 5_000_000
    path = write(tmp_path, f"short\n{long}\nshort\n")
    assert [len(line.text) for line in read_lines(path)] == [5, 5_000_000, 5]
    text = message(lambda: list(read_lines(path, longest=9_999_999)))
    assert f"{path}: line 2: " in text and "expected at most 9,999,999" in text
    assert [line.number for line in read_lines(path, longest=10_000_000)] == [1, 2, 3]
    unended = write(tmp_path, f"a\n{long}")
    assert "line 2: at least 10,000,000 bytes" in message(lambda: list(read_lines(unended, longest=9_999_999)))


def test_progress_has_megabytes_and_a_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, b"x" * 99 + b"\n" + b"y\n" * 1_200_000)
    assert sum(1 for _ in read_lines(path, "collection")) == 1_200_001
    assert re.search(r"collection: 3/3 MB, [\d,.]+/s", capsys.readouterr().err)
    packed = write(tmp_path, gzip.compress(path.read_bytes()), "small.gz")  # some kB on the disk
    assert sum(1 for _ in read_lines(packed)) == 1_200_001
    assert capsys.readouterr().err == ""


def test_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, '{"_id": "1", "text": "\\ud834\\udd1e \\u00e9"}\n\n  \t\n{"_id": "2", "text": "", "x": 1}\n')
    assert list(read_json_lines(path, ["_id", "text"])) == [
        (1, {"_id": "1", "text": "𝄞 é"}),
        (4, {"_id": "2", "text": "", "x": 1}),
    ]
    assert capsys.readouterr().err == f"{path}: blank line: 2, the first: {path}, line 2\n"
    warnings = Warnings()
    assert len(list(read_json_lines(path, warnings=warnings))) == 2
    assert warnings.counts == {"blank line": 2} and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"_id": "1", "text": ', ["not JSON", "one JSON object a line"]),
        ("plain words", ["not JSON", "'plain words'"]),
        ("[" * 100_000, ["not JSON"]),
        ('["1"]', ["found list", "expected a JSON object", "'text'"]),
        ('{"_id": "1", "txet": "a"}', ["no key 'text'", "'_id', 'txet'"]),
        ('{"_id": "1", "text": "a \\uD834 b"}', ["\\ud834", "surrogate"]),
    ],
)
def test_a_line_that_is_no_record(tmp_path: Path, line: str, words: list[str]) -> None:
    path = write(tmp_path, '{"_id": "0", "text": ""}\n' + line + "\n")
    text = message(lambda: list(read_json_lines(path, ["_id", "text"])))
    assert f"{path}: line 2: " in text and all(word in text for word in words) and len(text) < 400


def test_columns(tmp_path: Path) -> None:
    path = write(tmp_path, 'id\ttext\n1\ta "quote\n2\t\n\n3\t x \r\n')
    warnings = Warnings()
    found = list(read_columns(path, ["id", "text"], Form(header=True), warnings=warnings))
    assert found == [(2, ["1", 'a "quote']), (3, ["2", ""]), (5, ["3", " x "])]
    assert warnings.summary() == f"blank line: 1, the first: {path}, line 4"
    assert list(read_columns(write(tmp_path, "\nx\n"), ["word"])) == [(1, [""]), (2, ["x"])]
    qrels = write(tmp_path, "1 Q0  d7\t2\n")
    assert list(read_columns(qrels, ["query", "zero", "document", "grade"], Form(None))) == [
        (1, ["1", "Q0", "d7", "2"])
    ]


@pytest.mark.parametrize("quoted", [False, True])
def test_missing_and_extra_columns(tmp_path: Path, quoted: bool) -> None:
    for line, fields in (("2", 1), ("2\tb\tc", 3)):
        path = write(tmp_path, f"1\ta\n{line}\n")
        text = message(lambda path=path: list(read_columns(path, ["id", "text"], Form(quoted=quoted))))
        assert f"{path}: line 2: {fields} fields; expected 2" in text and "'id', 'text'" in text
    path = write(tmp_path, "id\tbody\n1\ta\n")
    text = message(lambda: list(read_columns(path, ["id", "text"], Form(header=True, quoted=quoted))))
    assert "line 1: header 'id', 'body'; expected 'id', 'text'" in text
    path = write(tmp_path, f"[{'x' * 100_000}]\n")  # a whole JSON file in one line
    text = message(lambda: list(read_columns(path, ["id", "text"], Form(header=True, quoted=quoted))))
    assert len(text) < 1000 and "header '[xxx" in text and text.endswith("expected 'id', 'text'.")
    assert "no lines" in message(
        lambda: list(read_columns(write(tmp_path, ""), ["id"], Form(header=True, quoted=quoted)))
    )


def test_quoted_fields(tmp_path: Path) -> None:
    """Against the standard library's own writer, which DPR's files were written with."""
    import csv

    records = [["1", 'He said "no"', "a\tb"], ["2", "two\nlines", ""], ["3", "x" * 200_000, '"'], ["4", "", "end"]]
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(records)
    path = write(tmp_path, stream.getvalue())
    found = list(read_columns(path, ["id", "text", "title"], Form(quoted=True)))
    assert [fields for _, fields in found] == records
    assert [number for number, _ in found] == [1, 2, 4, 5]
    for bad in ('1\ta\tb\n2\t"never closed\tc\n3\td\te\n', '1\ta\tb\n2\t"closed" early\tc\n'):
        text = message(lambda bad=bad: list(read_columns(write(tmp_path, bad), ["a", "b", "c"], Form(quoted=True))))
        assert "line 2: the quotes in this record do not match" in text


def test_warnings_keep_the_first_example() -> None:
    warnings = Warnings()
    assert warnings.summary() == ""
    for place in range(1200):
        warnings.add("empty text", f"line {place + 1}")
    warnings.add("no title", "line 7")
    assert warnings.summary().split("\n") == ["empty text: 1,200, the first: line 1", "no title: 1, the first: line 7"]
    assert json.loads(json.dumps(warnings.counts)) == {"empty text": 1200, "no title": 1}


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queries.tsv"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)  # so that no reader waits for a writer
    os.write(descriptor, b"q1\tA boat?\n")
    assert message(lambda: open_raw(path)).startswith(f"{path}: is no file that can be read twice, such as a pipe;")
    os.close(descriptor)
