"""Downloads against a server on this machine that cuts connections, lies, and has good and bad days.

Seen to fail when: a cut connection counts as the end of the file; the rest is asked for without If-Range; a 200 is appended to
what is there; wrong bytes are kept beside the target; a 404 is tried again; a 503 is final; tries that brought bytes count as
failures; the part of another address is gone on from; without validator and checksum the rest alone is asked for.
"""

from __future__ import annotations

import hashlib
import random
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pretrieve.base.errors import DataError
from pretrieve.raw import download as module
from pretrieve.raw.checksums import Checksum
from pretrieve.raw.download import Download

CONTENT = random.Random(7).randbytes(300_000)
OTHER = random.Random(8).randbytes(300_000)
SHA256 = Checksum("sha256", hashlib.sha256(CONTENT).hexdigest())
MD5 = Checksum("md5", hashlib.md5(CONTENT).hexdigest())
ANY = Checksum("", "")
FAST = Download(attempts=3, wait=0.01, timeout=5.0)


class Server(ThreadingHTTPServer):
    """``days``: what is done with each request in turn; the last goes on for ever."""

    daemon_threads = True
    content = CONTENT
    etag: str | None = '"one"'
    modified: str | None = None
    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.days: list[Any] = ["whole"]
        self.asked: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(dict(self.headers))
        day = server.days.pop(0) if len(server.days) > 1 else server.days[0]
        if isinstance(day, tuple):  # another version from now on
            server.content, server.etag, day = day
        if isinstance(day, int) and day >= 400:
            self.send_response(day)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content, start = server.content, 0
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range") in (None, server.etag, server.modified)
        if match and server.ranges and same:
            start = int(match[1])
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if day != "no length":
            self.send_header("Content-Length", str(len(content) - start))
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.modified:
            self.send_header("Last-Modified", server.modified)
        self.end_headers()
        # A number below 400: the connection ends after so many thousand bytes.
        self.wfile.write(content[start : start + day * 1000] if isinstance(day, int) else content[start:])
        self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("checksum", [SHA256, MD5, ANY])
def test_a_whole_file(tmp_path: Path, server: Server, checksum: Checksum) -> None:
    found = FAST(server.url, tmp_path / "deep/file.bin", checksum, len(CONTENT))
    assert (tmp_path / "deep/file.bin").read_bytes() == CONTENT and names(tmp_path / "deep") == ["file.bin"]
    assert found.sha256 == SHA256.digest and found.bytes == len(CONTENT)
    assert "Range" not in server.asked[0] and server.asked[0]["Accept-Encoding"] == "identity"


def test_cut_connections_are_gone_on_from(tmp_path: Path, server: Server) -> None:
    """More cuts than tries: a cut that brought bytes is no failure."""
    server.days = [50, 50, 40, 30, 20, "whole"]
    FAST(server.url, tmp_path / "file.bin", SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT and names(tmp_path) == ["file.bin"]
    assert [asked.get("Range") for asked in server.asked] == [
        None,
        *(f"bytes={n}000-" for n in (50, 100, 140, 170, 190)),
    ]
    assert {asked.get("If-Range") for asked in server.asked[1:]} == {'"one"'}


def test_a_killed_download_goes_on_next_time(tmp_path: Path, server: Server) -> None:
    server.days = [100, 0]
    with pytest.raises(DataError, match=r"100,000 bytes are kept in .*\.file\.bin\.part"):
        FAST(server.url, tmp_path / "file.bin", SHA256)
    assert names(tmp_path) == [".file.bin.part", ".file.bin.part.json"]
    server.days, server.asked = ["whole"], []
    FAST(server.url, tmp_path / "file.bin", SHA256)
    assert server.asked[0]["Range"] == "bytes=100000-" and (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_part_that_was_whole_already(tmp_path: Path, server: Server) -> None:
    server.days = ["no length"]
    part = tmp_path / ".file.bin.part"
    part.write_bytes(CONTENT)
    part.with_name(part.name + ".json").write_text(f'{{"url": "{server.url}", "etag": "\\"one\\"", "modified": null}}')
    FAST(server.url, tmp_path / "file.bin", SHA256)
    assert (
        len(server.asked) == 1 and (tmp_path / "file.bin").read_bytes() == CONTENT and names(tmp_path) == ["file.bin"]
    )


def test_a_server_without_ranges_begins_anew(tmp_path: Path, server: Server) -> None:
    server.ranges = False
    server.days = [100, 200, "whole"]
    FAST(server.url, tmp_path / "file.bin", ANY)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_two_versions_are_never_joined(tmp_path: Path, server: Server) -> None:
    server.days = [100, (OTHER, '"two"', "whole")]
    FAST(server.url, tmp_path / "file.bin", ANY)
    assert (tmp_path / "file.bin").read_bytes() == OTHER


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_validator(tmp_path: Path, server: Server, etag: str | None) -> None:
    """With a checksum the rest is asked for and checked, and all is fetched again if it does not fit; without one, all is."""
    server.etag = etag
    server.days = [100, "whole"]
    FAST(server.url, tmp_path / "known.bin", SHA256)
    assert server.asked[1]["Range"] == "bytes=100000-" and "If-Range" not in server.asked[1]
    server.days, server.asked = [100, "whole"], []
    FAST(server.url, tmp_path / "unknown.bin", ANY)
    assert "Range" not in server.asked[1]
    assert (tmp_path / "known.bin").read_bytes() == (tmp_path / "unknown.bin").read_bytes() == CONTENT
    part = tmp_path / ".file.bin.part"
    part.write_bytes(OTHER[:1000])
    part.with_name(part.name + ".json").write_text(f'{{"url": "{server.url}", "etag": null, "modified": null}}')
    server.asked = []
    FAST(server.url, tmp_path / "file.bin", SHA256)
    assert [asked.get("Range") for asked in server.asked] == ["bytes=1000-", None]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_last_modified_is_a_validator(tmp_path: Path, server: Server) -> None:
    server.etag, server.modified = None, "Wed, 21 Oct 2015 07:28:00 GMT"
    server.days = [100, "whole"]
    FAST(server.url, tmp_path / "file.bin", ANY)
    assert server.asked[1]["If-Range"] == server.modified and (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_part_of_another_address_is_no_part(tmp_path: Path, server: Server) -> None:
    part = tmp_path / ".file.bin.part"
    part.write_bytes(OTHER[:500])
    part.with_name(part.name + ".json").write_text(
        '{"url": "http://elsewhere/file.bin", "etag": "\\"one\\"", "modified": null}'
    )
    FAST(server.url, tmp_path / "file.bin", ANY)
    assert "Range" not in server.asked[0] and (tmp_path / "file.bin").read_bytes() == CONTENT


def test_wrong_bytes_replace_nothing(tmp_path: Path, server: Server) -> None:
    target = tmp_path / "file.bin"
    target.write_bytes(b"good")
    server.content = OTHER
    with pytest.raises(DataError) as caught:
        FAST(server.url, target, SHA256, len(CONTENT))
    for word in (server.url, str(SHA256), hashlib.sha256(OTHER).hexdigest(), "300,000 bytes"):
        assert word in str(caught.value)
    assert target.read_bytes() == b"good" and names(tmp_path) == ["file.bin"]
    with pytest.raises(DataError, match="expected a checksum that its first use decides"):
        FAST(server.url, target, ANY, 299_999)  # the size alone is wrong


def test_final_and_passing_answers(tmp_path: Path, server: Server) -> None:
    target = tmp_path / "file.bin"
    server.days = [404]
    with pytest.raises(DataError, match=r"HTTP 404 \(Not Found\); expected the file"):
        FAST(server.url, target, SHA256)
    assert len(server.asked) == 1 and names(tmp_path) == []
    server.days, server.asked = [503, 429, "whole"], []
    FAST(server.url, target, SHA256)
    assert len(server.asked) == 3 and target.read_bytes() == CONTENT
    server.days, server.asked = [503], []
    with pytest.raises(DataError, match=r"HTTP 503 \(Service Unavailable\), 3 tries in a row"):
        FAST(server.url, target, SHA256)
    assert len(server.asked) == 3 and target.read_bytes() == CONTENT


def test_waiting_grows(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    server.days = [500]
    with pytest.raises(DataError, match="5 tries"):
        replace(FAST, attempts=5, wait=2.0)(server.url, tmp_path / "file.bin", SHA256)
    assert waited == [2, 4, 8, 16]


def test_nobody_there_and_no_address(tmp_path: Path, server: Server) -> None:
    server.server_close()
    with pytest.raises(DataError, match="3 tries in a row"):
        FAST(server.url, tmp_path / "file.bin", SHA256)
    for url in ("file:///etc/passwd", "ftp://host/file", "host/file"):
        with pytest.raises(DataError, match="expected an address that begins with http"):
            FAST(url, tmp_path / "file.bin", ANY)


def test_no_room(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda place: type("usage", (), {"free": 1000}))
    with pytest.raises(DataError, match=r"300,000 bytes to come; .* has 1,000 free"):
        FAST(server.url, tmp_path / "file.bin", SHA256)


def test_progress(tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.content = random.Random(9).randbytes(2_500_000)
    FAST(server.url, tmp_path / "file.bin", ANY, label="sample")
    assert re.search(r"sample: 2/3 MB, [\d,.]+/s", capsys.readouterr().err)
