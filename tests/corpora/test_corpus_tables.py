"""Parquet writers and readers.

Seen to fail when: the last, part-filled row group is not written; the target is written in place; a failed block leaves its
``.part`` file; a damaged page ends :func:`read_rows` with an error of Arrow's.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import SCHEMAS, TableWriter, read_rows, read_table

SCHEMA = SCHEMAS["sections"]


def test_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "t.parquet"
    with TableWriter(path, SCHEMA, row_group=4) as writer:
        assert [writer.append((i, i // 2, 1, f"h{i}")) for i in range(10)] == list(range(10))
        assert not path.exists()
    assert pq.ParquetFile(path).metadata.num_row_groups == 3
    assert read_table(path, ["heading"])["heading"].to_pylist() == [f"h{i}" for i in range(10)]
    assert [p.name for p in path.parent.iterdir()] == ["t.parquet"]


def test_failed_block_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with TableWriter(path, SCHEMA) as writer:
        writer.append((0, 0, 1, "old"))
    with pytest.raises(KeyError), TableWriter(path, SCHEMA) as writer:
        writer.append((0, 0, 1, "new"))
        raise KeyError
    assert read_table(path)["heading"].to_pylist() == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "none.parquet")
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 but not really")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_table(path)
    with TableWriter(path, SCHEMA) as writer:
        writer.append((0, 0, 1, "x"))
    with pytest.raises(DataError, match=r"without a column that is needed \(.*nothing.*snakemake again.$"):
        read_table(path, ["heading", "nothing"])


def test_damaged_page(tmp_path: Path) -> None:
    """The end of the file, which says where everything is, is whole; what stands before it is not."""
    path = tmp_path / "t.parquet"
    with TableWriter(path, SCHEMA) as writer:
        for number in range(1000):
            writer.append((number, number, 1, f"{number * 7919 % 1009}"))
    content = bytearray(path.read_bytes())
    content[40:240] = bytes(200)
    path.write_bytes(content)
    for read in (read_table, read_rows):
        with pytest.raises(DataError, match=r"t\.parquet: not a readable Parquet file"):
            list(read(path, SCHEMA.names))
