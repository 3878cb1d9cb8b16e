"""Tables of one's own corpus that are far larger, or have far more in them, than their files say.

Seen to fail when: what rows come to is not counted, or in batches of a thousand; Parquet's values are not caught; a message
lists all columns.
"""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.record_tables import table_documents
from pretrieve.raw.raw_text import Warnings

MILLION = 1 << 20


def read(path: Path, **columns: str) -> int:
    return sum(1 for _ in table_documents([path], columns, Warnings()))


def written(path: Path, text: pa.Array, **how) -> Path:
    pq.write_table(pa.table({"text": text}), path, **how)
    assert path.stat().st_size < MILLION
    return path


@pytest.mark.parametrize("kind", ["one text in all rows", "rows without a text", "packed"])
def test_a_small_parquet_file_does_not_fill_the_disk(tmp_path: Path, kind: str) -> None:
    """100 GB, two million documents and 100 MB, of files of some kB."""
    path = tmp_path / "a.parquet"
    if kind == "one text in all rows":
        indices = pa.array([0] * 100_000, pa.int32())
        written(path, pa.DictionaryArray.from_arrays(indices, pa.array(["x" * MILLION])), store_schema=False)
        assert pq.ParquetFile(path).metadata.row_group(0).total_byte_size < 2 * MILLION
    elif kind == "rows without a text":
        written(path, pa.nulls(2 * MILLION, pa.string()))
    else:
        written(path, pa.array(["x" * (50 * MILLION)] * 2), compression="zstd", use_dictionary=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"a\.parquet, unpacked: .* bytes or more; the limit is .*PRETRIEVE_SIZE_LIMIT"):
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB


#: What Parquet can write and Python has no value for: each ended a run with a traceback.
STRANGE = {
    "not UTF-8": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    ),
    "a year without a number": pa.array([2**53], pa.timestamp("ms")),
    "a date without a number": pa.array([-(2**31)], pa.date32()),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_values_that_python_does_not_have_are_said(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataError, match=r"a\.parquet: damaged after row 0 .*fetch or write it again"):
        read(written(tmp_path / "a.parquet", STRANGE[kind]))


def test_a_message_lists_some_of_a_million_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = ({f"{'x' * 99}{row} {number}": 1 for number in range(300)} for row in range(300))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for given, error in (({}, DataError), ({"text": "y"}, ConfigError)):
        with pytest.raises(error, match=r"and 89,960 more") as said:
            read(path, **given)
        assert len(str(said.value)) < 3000
