"""A hub on this machine, as far as ``huggingface_hub`` asks it for a checkpoint; ``HF_ENDPOINT`` leads to it.

What is answered: https://huggingface.co/docs/hub/api, and huggingface_hub/file_download.py for the headers of a file.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

REVISION = "5e1f" * 10


class Hub(ThreadingHTTPServer):
    """``files``: name → content; ``sizes``: what is said of some instead of the truth."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes], revision: str = REVISION, sizes: dict[str, int] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.revision, self.sizes = files, revision, sizes or {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def listed(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "oid": hashlib.sha1(content).hexdigest(), "path": name, "rfilename": name}
            | {"size": self.sizes.get(name, len(content))}
            for name, content in self.files.items()
        ]


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.server, unquote(urlsplit(self.path).path)
        hub.asked.append(path)
        headers = {"X-Repo-Commit": hub.revision}
        if path.startswith("/api/models/"):
            tree = "/tree/" in path
            about = {"id": "evil/model", "modelId": "evil/model", "sha": hub.revision, "siblings": hub.listed()}
            body = json.dumps(hub.listed() if tree else about).encode()
            headers["Content-Type"] = "application/json"
        else:
            name = path.partition("/resolve/")[2].partition("/")[2]
            if name not in hub.files:
                self.send_error(404)
                return
            body = hub.files[name]
            headers["ETag"] = f'"{hashlib.sha1(body).hexdigest()}"'
        self.send_response(200)
        for key, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
