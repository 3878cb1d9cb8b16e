"""Members of tar and zip archives, good and evil, made byte by byte.

Seen to fail when: names with .. pass; absolute names pass; a link passes in a tar, or in a zip; a pattern that fits two names
passes; a packed tar is not read to its end; a tar may end at any member; the target is written in place.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.raw.archives import extract_member, read_through

FILES = {
    "set/corpus.jsonl": b'{"_id": "1"}\n' * 4000,
    "set/qrels/test.tsv": b"q\td\t1\n",
    "set/empty": b"",
    "LICENSE": b"CC0",
}


def make_tar(
    path: Path, members: dict[str, bytes], mode: str = "w:gz", extra: list[tarfile.TarInfo] | None = None
) -> Path:
    with tarfile.open(path, mode) as archive:
        folder = tarfile.TarInfo("set")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for info in extra or []:
            archive.addfile(info)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("set")
        for name, content in members.items():
            archive.writestr(name, content)
    return path


MAKERS: dict[str, Callable[[Path, dict[str, bytes]], Path]] = {
    "tar": lambda path, members: make_tar(path, members, "w:"),
    "tar.gz": make_tar,
    "tar.bz2": lambda path, members: make_tar(path, members, "w:bz2"),
    "zip": make_zip,
}


def message(run: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        run()
    return str(caught.value)


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[dict[str, bytes]], Path]:
    return lambda members: MAKERS[request.param](tmp_path / "archive.bin", members)


def test_one_member(tmp_path: Path, make) -> None:
    for archive in (make({f"./{name}": content for name, content in FILES.items()}), make(FILES)):
        for name, content in FILES.items():
            extract_member(archive, name, tmp_path / "out/file")
            assert (tmp_path / "out/file").read_bytes() == content
    extract_member(archive, "*/test.tsv", tmp_path / "out/file")
    assert (tmp_path / "out/file").read_bytes() == FILES["set/qrels/test.tsv"]


@pytest.mark.parametrize("name", ["../evil", "set/../../evil", "/etc/evil", "..\\evil", "C:\\evil", "set/.."])
def test_a_member_that_leaves_its_directory(tmp_path: Path, make, name: str) -> None:
    archive = make({**FILES, name: b"evil"})
    for run in (
        lambda: extract_member(archive, "set/empty", tmp_path / "one/file"),
        lambda: read_through(archive),
    ):
        text = message(run)
        assert str(archive) in text and "would leave its folder" in text and name.replace("\\", "\\\\") in text
    assert not list(tmp_path.rglob("evil")) and not list(tmp_path.rglob("file"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive.bin", "one"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("set/link")
    info.type, info.linkname = kind, "../../etc/passwd"
    archive = make_tar(tmp_path / "a.tar.gz", FILES, extra=[info])
    text = message(lambda: extract_member(archive, "set/empty", tmp_path / "file"))
    assert "set/link is a link or a device" in text and "../../etc/passwd" in text
    assert not (tmp_path / "file").exists()


def test_a_link_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("set/link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert "set/link is a link" in message(lambda: read_through(tmp_path / "a.zip"))


def test_no_member_or_several(tmp_path: Path, make) -> None:
    archive = make(FILES)
    text = message(lambda: extract_member(archive, "set/corpus.json", tmp_path / "file"))
    assert "no member set/corpus.json; it has 4: set/corpus.jsonl" in text
    assert "*e* stands for" in message(lambda: extract_member(archive, "*e*", tmp_path / "file"))
    assert not (tmp_path / "file").exists()


def test_a_member_that_stands_twice(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for content in (b"one", b"two"):
            info = tarfile.TarInfo("set/file")
            info.size = 3
            archive.addfile(info, io.BytesIO(content))
    assert "set/file twice" in message(lambda: extract_member(tmp_path / "a.tar", "set/file", tmp_path / "file"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "zip"])
def test_a_cut_archive(tmp_path: Path, kind: str, share: float) -> None:
    """Also where the wanted member is whole in front of the cut: the archive is not what its publisher made."""
    archive = MAKERS[kind](tmp_path / "archive", {"first": b"whole", **FILES})
    content = archive.read_bytes()
    archive.write_bytes(content[: max(3, int(len(content) * share))])
    (tmp_path / "file").write_bytes(b"old")
    text = message(lambda: extract_member(archive, "first", tmp_path / "file"))
    assert str(archive) in text and "not a whole" in text and "etch it again" in text
    assert (tmp_path / "file").read_bytes() == b"old"
    message(lambda: read_through(archive))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "file"]


def headers(archive: bytes) -> list[int]:
    """Where the members of a plain tar begin, and where its end does."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        infos = source.getmembers()
    return [*(info.offset for info in infos), infos[-1].offset_data + -(-infos[-1].size // 512) * 512]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("end", "told"),
    [
        (b"", "it stops without a tar file's end"),
        (bytes(512), "one block of zeros where a tar file's end has two"),
        (bytes(700), "one block of zeros"),
        (b"\0" * 512 + b"x" * 512, "one block of zeros"),
        (b"x" * 100, "no header of a member at byte"),
        (b"x" * 10240, "no header of a member at byte"),
    ],
)
def test_a_tar_without_its_end(tmp_path: Path, end: bytes, told: str, pack: Callable[[bytes], bytes]) -> None:
    archive = tmp_path / "archive"
    whole = make_tar(archive, {"first": b"whole", **FILES}, "w:").read_bytes()
    for place in headers(whole)[1:]:
        archive.write_bytes(pack(whole[:place] + end))
        for run in (
            lambda: extract_member(archive, "first", tmp_path / "file"),
            lambda: read_through(archive),
        ):
            text = message(run)
            assert f"{archive}: not a whole archive" in text and told in text and "fetch it again" in text
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]
    archive.write_bytes(pack(whole[:place] + bytes(1024)))  # what fills up the last record is not needed
    read_through(archive)


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_an_empty_tar(tmp_path: Path, kind: int) -> None:
    name = "set/" + "é" * 120
    with tarfile.open(tmp_path / "a.tar", "w", format=kind) as archive:
        info = tarfile.TarInfo(name)
        info.size = 3
        archive.addfile(info, io.BytesIO(b"one"))
    extract_member(tmp_path / "a.tar", name, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"one"
    (tmp_path / "a.tar").write_bytes(bytes(10240))
    assert "no member at all" in message(lambda: read_through(tmp_path / "a.tar"))


def test_a_damaged_zip(tmp_path: Path) -> None:
    """``zipfile`` raises six kinds of exceptions."""
    whole = make_zip(tmp_path / "a.zip", {"set/é": b"x" * 40, "b": b"y"}).read_bytes()
    table = whole.index(b"PK\x01\x02")
    told = 0
    for place in range(table, len(whole)):
        for byte in (0, 0x80, 0xFF):
            (tmp_path / "a.zip").write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                read_through(tmp_path / "a.zip")
            except DataError as error:
                told += str(error).startswith(f"{tmp_path / 'a.zip'}: ")
    assert told > 50


def test_a_name_that_no_folder_has(tmp_path: Path, make) -> None:
    archive = make({**FILES, "x" * 300: b"x"})
    assert "is too long" in message(lambda: read_through(archive))
    assert [path.name for path in tmp_path.iterdir()] == ["archive.bin"]


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>sign in</html>")
    assert "not a whole archive" in message(lambda: extract_member(tmp_path / "page.html", "a", tmp_path / "file"))
    (tmp_path / "page.gz").write_bytes(gzip.compress(b"text"))
    assert "not a whole archive" in message(lambda: extract_member(tmp_path / "page.gz", "a", tmp_path / "file"))
    assert "no such file" in message(lambda: extract_member(tmp_path / "none.zip", "a", tmp_path / "file"))
