"""Archives: equal bytes for equal content, and what must not be unpacked.

Seen to fail when: the time of a file goes into its header; members stand in the order given; `tar.extract` without the filter.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.operations.bundle.archive import packed_size, read_archive, sums_of, write_archive


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    file = tmp_path / "ä file"
    file.write_bytes(b"x" * 10_000)
    first, second = tmp_path / "1.tar.xz", tmp_path / "2.tar.xz"
    size = write_archive(first, {"b/ä file": file, "a": b"content"})
    os.utime(file, (1, 1))
    file.chmod(0o600)
    members = {"a": b"content", "b/ä file": file}
    write_archive(second, members)
    assert first.read_bytes() == second.read_bytes() and size == first.stat().st_size
    assert read_archive(first, tmp_path / "out", sums_of(members)) == ["a", "b/ä file"]
    assert (tmp_path / "out/b/ä file").read_bytes() == file.read_bytes() and (
        tmp_path / "out/a"
    ).read_bytes() == b"content"


@pytest.mark.parametrize("kind", ["../out", "a/../../out", "/etc/out", "link"])
def test_what_leaves_the_directory_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        info = tarfile.TarInfo(kind)
        if kind == "link":
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info, io.BytesIO())
    with pytest.raises(DataError, match=r"bad.tar.xz: member .*(would leave its folder|not a plain file)"):
        read_archive(path, tmp_path / "here", sums_of({kind: b""}))
    assert not (tmp_path / "out").exists()


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "half.tar.xz"
    members = {"a": os.urandom(100_000)}
    write_archive(path, members)
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(DataError, match="half.tar.xz: not a whole xz file: it ends in the middle of a stream"):
        read_archive(path, tmp_path / "here", sums_of(members))


def test_a_second_copy_takes_no_room_however_far_away(tmp_path: Path) -> None:
    content, between = os.urandom(300_000), os.urandom(9 << 20)  # more than xz's own 8 MiB
    once = write_archive(tmp_path / "once.tar.xz", {"a": content, "b": between})
    members = {"a": content, "b": between, "c": content}
    twice = write_archive(tmp_path / "twice.tar.xz", members)
    assert twice - once < 3_000
    assert read_archive(tmp_path / "twice.tar.xz", tmp_path / "out", sums_of(members)) == ["a", "b", "c"]
    assert (tmp_path / "out/c").read_bytes() == content


def test_packed_size_is_near_the_real_one(tmp_path: Path) -> None:
    content = os.urandom(200_000) + bytes(500_000)
    (tmp_path / "f").write_bytes(content)
    real = write_archive(tmp_path / "a.tar.xz", {"f": content})
    assert packed_size(content) == pytest.approx(real, rel=0.05)
    assert packed_size(tmp_path / "f") == packed_size(content)
