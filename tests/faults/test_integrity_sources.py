"""Raw files that are far larger than they should be, or another file than they should be when nobody knows their checksum.

Faults 8 and 11 of the hostile tests of 6e898d5: a sign-in page was recorded as an archive, and then the right archive was
refused; a sparse archive of 1.5 kB gave 2 GB, a server 2 GB for a source of 300 kB; a corpus of 2.9 MB took three minutes; a
mirror's good file on a full disk was called damaged.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.raw.archives import extract_member, read_through
from pretrieve.raw.download import Download
from pretrieve.raw.raw_bytes import open_raw
from pretrieve.raw.readable import check_readable
from pretrieve.raw.sources import Source, fetch

PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html>\n<html><body>Please sign in</body></html>"
MEMBER = b'{"_id": "1", "text": "x"}\n'
FAST = Download(attempts=1, wait=0.01, timeout=5.0)


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


class Server(ThreadingHTTPServer):
    """Sends ``content``, or zeros without an end where it has none; ``length``: what it says of it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: bytes | None = None
        self.length: int | None = None
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/set.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.send_response(200)
        length = self.server.length if self.server.content is None else len(self.server.content)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        try:
            if self.server.content is not None:
                self.wfile.write(self.server.content)
            while self.server.content is None and self.server.sent < 1 << 30:
                self.server.sent += self.wfile.write(bytes(1 << 16))
        except ConnectionError:
            pass
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def sources(url: str = "") -> dict[str, Source]:
    """An archive that nobody knows the checksum of, and a member of it."""
    holder = Source("archive", "set.zip", "", "", "first-use", 0, "-", "x", url=url)
    member = Source("corpus", "set/corpus.jsonl", "", "corpus.jsonl", "first-use", 0, "-", "x", archive="archive")
    return {"archive": holder, "corpus": member}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (PAGE, "a web page; expected the file set.zip"),
        (b"", "not a whole archive"),
        (zipped({"corpus.jsonl": MEMBER * 99})[:-30], "not a whole archive"),
        (zipped({"readme.txt": b"of another version"}), "no member corpus.jsonl"),
        (zipped({}), "no member corpus.jsonl"),
    ],
    ids=["page", "empty", "cut", "another", "nothing in it"],
)
@pytest.mark.parametrize("way", ["mirror", "publisher"])
def test_a_wrong_archive_is_never_the_first_use(
    tmp_path: Path, server: Server, wrong: bytes, told: str, way: str
) -> None:
    """And the right one is taken afterwards, without any advice to follow."""
    data, mirror, records = tmp_path / "data", tmp_path / "mirror", tmp_path / "data/checksums.tsv"
    mirror.mkdir()
    known = sources(server.url if way == "publisher" else "")
    right = zipped({"corpus.jsonl": MEMBER})
    for content in (wrong, right):
        if way == "mirror":
            (mirror / "set.zip").write_bytes(content)
        server.content = content
        arguments = (known["corpus"], data / "set/corpus.jsonl", mirror, known, records, FAST)
        if content is wrong:
            with pytest.raises(DataError) as caught:
                fetch(*arguments)
            assert told in str(caught.value) and "\n" not in str(caught.value)
            assert not records.exists() and not (data / "set.zip").exists() and not (data / "set/corpus.jsonl").exists()
        else:
            fetch(*arguments)
    recorded = dict(line.split("\t")[:2] for line in records.read_text().splitlines()[1:])
    assert recorded == {
        name: hashlib.sha256(content).hexdigest() for name, content in (("archive", right), ("corpus", MEMBER))
    }


def test_what_was_recorded_wrongly_has_a_way_out(tmp_path: Path) -> None:
    """A record of an earlier version of this project, which took any file."""
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/set.zip").write_bytes(zipped({"corpus.jsonl": MEMBER}))
    records = tmp_path / "checksums.tsv"
    records.write_text("name\tsha256\tbytes\torigin\narchive\t" + hashlib.sha256(PAGE).hexdigest() + "\t9\tx\n")
    with pytest.raises(DataError, match=r"take the line of archive out of .*checksums\.tsv"):
        fetch(sources()["archive"], tmp_path / "set.zip", tmp_path / "mirror", records=records)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("a.tsv", b"1\tx\n", PAGE),
        ("a.csv", "é,1\n".encode(), b"\xff,1\n"),
        ("a.jsonl.gz", gzip.compress(MEMBER), gzip.compress(MEMBER)[:-1]),
        ("a.jsonl.gz", gzip.compress(MEMBER), MEMBER),
        ("a.json", b"{}", b"{"),
        ("a.tar.gz", gzip.compress(bytes(10240)), gzip.compress(bytes(512))),
        ("pytorch_model-1.bin", b"PK\x03\x04", b"version https://git-lfs.github.com/spec/v1\n"),
        ("model.safetensors", b"\2\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\1{}"),
        ("page.html", PAGE, None),
        ("any.kind", b"\0\1", PAGE),
    ],
    ids=[f"file {number}" for number in range(10)],  # a packed text has its time in it
)
def test_what_is_read_before_it_is_recorded(tmp_path: Path, name: str, good: bytes, bad: bytes | None) -> None:
    file = tmp_path / "file"
    file.write_bytes(good)
    if name == "a.tar.gz":
        with tarfile.open(file, "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("empty"))
    check_readable(file, name)
    if bad is not None:
        file.write_bytes(bad)
        with pytest.raises(DataError, match="file"):
            check_readable(file, name)


def sparse(path: Path, size: int) -> Path:
    """GNU's format for a file of zeros that takes no room: a number in the header stands for them."""
    info = tarfile.TarInfo("set/zeros")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % size  # realsize
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(bytes(header) + bytes(1024))
    return path


def test_a_sparse_archive_is_as_large_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = sparse(tmp_path / "a.tar", 2 << 30)
    with tarfile.open(archive) as opened:
        assert [info.size for info in opened] == [2 << 30] and archive.stat().st_size == 1536
    for run in (
        lambda: read_through(archive),
        lambda: extract_member(archive, "set/zeros", tmp_path / "file"),
    ):
        with pytest.raises(
            DataError, match=r"2,147,483,648 bytes or more; the limit is 67,262,464.*PRETRIEVE_SIZE_LIMIT"
        ):
            run()
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]
    small = sparse(tmp_path / "small.tar", 65 << 20)
    with pytest.raises(DataError, match="the limit is"):
        extract_member(small, "set/zeros", tmp_path / "file")
    monkeypatch.setenv("PRETRIEVE_SIZE_LIMIT", "1.1")
    extract_member(small, "set/zeros", tmp_path / "file")
    assert (tmp_path / "file").stat().st_size == 65 << 20


@pytest.mark.parametrize("text", ["0", "-1", "many", "nan", "inf"])
def test_the_option_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PRETRIEVE_SIZE_LIMIT", text)
    with pytest.raises(ConfigError, match=rf"PRETRIEVE_SIZE_LIMIT='{text}': expected a number above 0"):
        extract_member(sparse(tmp_path / "a.tar", 5), "set/zeros", tmp_path / "file")


def test_a_zip_and_a_corpus_that_unpack_to_far_too_much(tmp_path: Path) -> None:
    zeros = bytes(200 << 20)
    (tmp_path / "a.zip").write_bytes(zipped({"a": zeros}))
    with pytest.raises(DataError, match="the limit is"):
        extract_member(tmp_path / "a.zip", "a", tmp_path / "file")
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(zeros))
    with (
        pytest.raises(DataError, match=r"corpus.jsonl.gz, unpacked: .* PRETRIEVE_SIZE_LIMIT"),
        open_raw(tmp_path / "corpus.jsonl.gz") as stream,
    ):
        while stream.read(1 << 20):
            pass
    assert not (tmp_path / "file").exists()


def test_a_member_that_is_larger_than_the_list_says(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"a": bytes(3 << 20)}))
    with pytest.raises(DataError, match=r"a: 3,145,728 bytes or more; the limit is 1,048,676, its size in the list"):
        extract_member(tmp_path / "a.zip", "a", tmp_path / "file", 100)


@pytest.mark.parametrize("length", [None, 1 << 40])
def test_a_server_that_never_ends(tmp_path: Path, server: Server, length: int | None) -> None:
    """With and without a size in its answer: no more than a margin is taken, and none of it is kept."""
    server.length = length
    source = replace(sources(server.url)["archive"], bytes=300_000)
    with pytest.raises(DataError, match=r"the limit is 1,348,576, the 300,000 that it should have and a margin"):
        fetch(source, tmp_path / "set.zip", None, {}, tmp_path / "checksums.tsv", FAST)
    assert server.sent < 64 << 20 and list(tmp_path.iterdir()) == []


def test_a_mirrors_file_that_is_too_large_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/set.zip.gz").write_bytes(gzip.compress(bytes(5 << 20)))
    right = zipped({"corpus.jsonl": MEMBER})
    source = replace(sources()["archive"], checksum=hashlib.sha256(right).hexdigest(), bytes=len(right))
    with pytest.raises(DataError, match="its size in the list and a margin"):
        fetch(source, tmp_path / "set.zip", tmp_path / "mirror")


def test_a_full_disk_is_not_the_mirrors_fault(small_disk: Path, tmp_path: Path) -> None:
    content = bytes(range(256)) * (20 << 10)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/set.bin").write_bytes(content)
    source = Source("a", "set.bin", "", "", hashlib.sha256(content).hexdigest(), len(content), "-", "x")
    with pytest.raises(DataError) as caught:
        fetch(source, small_disk / "set.bin", tmp_path / "mirror")
    assert "no space left on the disk" in str(caught.value) and "another version" not in str(caught.value)
    assert list(small_disk.iterdir()) == []
