"""Downloads over HTTP that continue where they were cut, are checked, and never replace a good file by a bad one.

The bytes are collected in ``.NAME.part`` beside the target. A second file, ``.NAME.part.json``, says which version they belong
to: the URL and the server's ``ETag`` or ``Last-Modified``. The rest is asked for with ``Range: bytes=N-`` and ``If-Range``
(RFC 9110, sections 13.1.5 and 14.2): a server that still has that version sends the rest (206), any other the whole (200), and
then the file is begun anew. Bytes of two versions are never joined where the server tells versions apart; where it does not,
the checksum finds it out, and the file is fetched once more from its beginning. A server that sends more than the file may have
(:func:`pretrieve.base.sizes.stated_limit`) is not listened to.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.disk import disk_error, refusal
from pretrieve.base.errors import DataError
from pretrieve.base.progress import Progress
from pretrieve.base.sizes import stated_limit, too_large
from pretrieve.raw.checksums import Checksum, Digests, digests_of

BLOCK = 1 << 18
#: Answers that another try may change; every other error is final.
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_MEGABYTE = 1_000_000


class _Cut(Exception):
    """A try ended early, and another may get further."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True)
class Download:
    """How to download: tries in a row without a new byte, seconds before the second (doubled each time, at most a minute),
    and seconds of silence after which a connection counts as cut."""

    attempts: int = 5
    wait: float = 1.0
    timeout: float = 60.0

    def __call__(
        self,
        url: str,
        target: Path,
        checksum: Checksum,
        size: int = 0,
        label: str = "",
        check: Callable[[Path], None] = lambda path: None,
    ) -> Digests:
        """Put the content of ``url`` at ``target`` and return its checksums. ``size`` in bytes (0: not known); ``check`` raises
        DataError for a whole file that is not wanted.

        Raises DataError when it cannot be fetched, is too large, or is not what it should be; what stood at ``target`` stays, and
        the bytes that came stay beside it for the next time, unless they are wrong.
        """
        if not re.match(r"https?://", url):
            raise DataError(f"{url}: expected an address that begins with http:// or https://.")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = _Part(target, url)
        resumed = part.size > 0
        try:
            self._collect(url, part, checksum, size, label or target.name)
            digests = digests_of(part.path, checksum)
            if not digests.right(size) and resumed:
                # Perhaps the end of one version after the beginning of another.
                part.forget()
                self._collect(url, part, checksum, size, label or target.name)
                digests = digests_of(part.path, checksum)
        except _Cut as error:
            raise DataError(
                f"{url}: cannot be fetched: {error}; {part.size:,} bytes are kept in {part.path}; the next try continues there."
            ) from None
        if not digests.right(size):
            part.forget()
            expected = f"{checksum}{f' ({size:,} bytes)' if size else ''}"
            raise DataError(
                f"{url}: has {digests.found} ({digests.bytes:,} bytes); expected {expected}. Is there a new version?"
            )
        try:
            check(part.path)
        except DataError:
            part.forget()
            raise
        os.replace(part.path, target)
        part.forget()
        return digests

    def _collect(self, url: str, part: _Part, checksum: Checksum, size: int, label: str) -> None:
        """Try until the part is whole, as far as the server says what whole is."""
        failures = 0
        with _Shown(label, size) as shown:
            while True:
                before = part.size
                try:
                    self._once(url, part, part.asking(bool(checksum)), size, shown)
                    return
                except _Cut as error:
                    failures = failures + 1 if part.size <= before else 1
                    if failures >= self.attempts:
                        raise _Cut(f"{error}, {failures} tries in a row") from None
                    pause = max(min(self.wait * 2 ** (failures - 1), 60.0), min(error.wait, 120.0))
                    shown.say(f"{error}; again in {pause:.0f} s")
                    time.sleep(pause)

    def _once(self, url: str, part: _Part, asking: dict[str, str], size: int, shown: _Shown) -> None:
        headers = {"User-Agent": "pretrieve", "Accept-Encoding": "identity", **asking}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=self.timeout) as answer:
                start = _start(answer, url)
                length = answer.headers.get("Content-Length")
                total = start + int(length) if length and length.isascii() and length.isdigit() else None
                limit = stated_limit(size)
                if total is not None and total > limit:
                    raise _too_much(url, part, total, limit, size)
                left = (total or size) - start
                if left > 0 and left > (free := shutil.disk_usage(part.path.parent).free):
                    raise DataError(f"{url}: {left:,} bytes to come; {part.path.parent} has {free:,} free: make room.")
                shown.at(start, total)
                with part.room(left), part.writing(start, answer.headers) as stream:
                    while block := answer.read(BLOCK):
                        stream.write(block)
                        shown.at(stream.tell(), total)
                        if stream.tell() > limit:
                            raise _too_much(url, part, stream.tell(), limit, size)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # all bytes are there already, or more than the file has by now
                if re.fullmatch(rf"bytes \*/{part.size}", error.headers.get("Content-Range") or ""):
                    return
                part.forget()
                raise _Cut("HTTP 416, the file is shorter than it was") from None
            if error.code not in _PASSING:
                raise DataError(
                    f"{url}: HTTP {error.code} ({error.reason}); expected the file. It may have moved: a copy in a mirror folder "
                    f"will do (docs/raw-files.md)."
                ) from None
            after = error.headers.get("Retry-After") or ""
            raise _Cut(f"HTTP {error.code} ({error.reason})", float(after) if after.isdigit() else 0.0) from None
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
            if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                raise DataError(
                    f"{url}: the server's certificate is refused ({error.reason.verify_message}); expected a valid one. Fetch "
                    f"the file by hand if you trust it, and put it into a mirror folder (docs/raw-files.md)."
                ) from None
            raise _Cut(str(getattr(error, "reason", "")) or str(error) or type(error).__name__) from None
        if total is not None and part.size < total:
            raise _Cut(f"the connection ended after {part.size:,} of {total:,} bytes")


def _too_much(url: str, part: _Part, found: int, limit: int, size: int) -> DataError:
    part.forget()
    why = f"the {size:,} that it should have and a margin" if size else "since nobody states its size"
    return too_large(url, found, limit, why)


def _start(answer: Any, url: str) -> int:
    """The place of the answer's first byte in the file."""
    if answer.status != 206:
        return 0
    given = answer.headers.get("Content-Range", "")
    match = re.match(r"bytes (\d+)-", given)
    if match is None:
        raise DataError(f"{url}: answered 206 with Content-Range {given!r}; expected bytes START-END/SIZE.")
    return int(match[1])


class _Part:
    """The bytes that have come so far, and the version of the file that they belong to."""

    def __init__(self, target: Path, url: str) -> None:
        self.path = target.with_name(f".{target.name}.part")
        self._state = target.with_name(f".{target.name}.part.json")
        self._url = url
        try:
            self._version = json.loads(self._state.read_text(encoding="utf-8"))
            known = self._version["url"] == url
        except (OSError, ValueError, KeyError, TypeError):
            known = False
        if not known:
            self.forget()

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def asking(self, known: bool) -> dict[str, str]:
        """Headers that ask for the rest. Where the server does not tell versions apart, only a ``known`` checksum could find out
        that two were joined; without one all is asked for."""
        # A weak ETag does not promise equal bytes, and If-Range must not be sent with one.
        etag = self._version.get("etag") or ""
        validator = etag if etag.startswith('"') else self._version.get("modified")
        if not self.size or not (validator or known):
            return {}
        return {"Range": f"bytes={self.size}-", **({"If-Range": validator} if validator else {})}

    def writing(self, start: int, headers: Any) -> Any:
        """The file, open after its first ``start`` bytes; the version is written down first."""
        if start > self.size:
            raise _Cut(f"the server resumed at byte {start:,}, but {self.size:,} were received")
        version = {"url": self._url, "etag": headers.get("ETag"), "modified": headers.get("Last-Modified")}
        if start and version != self._version:
            self.forget()
            raise _Cut("the server resumed with another version")
        self._version = version
        self._state.write_text(json.dumps(self._version), encoding="utf-8")
        stream = open(self.path, "r+b" if self.path.exists() else "wb")  # noqa: SIM115 - the caller closes it
        stream.seek(start)
        stream.truncate()
        return stream

    @contextmanager
    def room(self, left: int) -> Iterator[None]:
        """Say it when the disk is full while ``left`` bytes come (0 or less: not known); those that came are kept."""
        try:
            yield
        except OSError as error:
            number = disk_error(error)
            if number is None:
                raise
            said = refusal(self.path, number, left if left > 0 else None, self.size)
            raise DataError(f"{said} ({self.size:,} bytes are kept, and the next try continues there.)") from None

    def forget(self) -> None:
        """Remove what there is."""
        self._version = {}
        self.path.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)


class _Shown:
    """Progress in MB, begun with what is there already."""

    def __init__(self, label: str, size: int) -> None:
        self._label, self._size = label, size
        self._progress: Progress | None = None

    def at(self, place: int, total: int | None) -> None:
        """``place`` bytes are there, of ``total``."""
        if self._progress is None:
            total = total or self._size
            total = -(-total // _MEGABYTE) if total else None
            self._progress = Progress(self._label, total, "MB", initial=place // _MEGABYTE)
        if new := place // _MEGABYTE - self._progress.count:
            self._progress.advance(new)

    def say(self, text: str) -> None:
        print(f"{self._label}: {text}", flush=True)

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._progress is not None:
            self._progress.__exit__(*raised)
