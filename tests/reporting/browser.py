"""A headless Chromium, spoken to over a pipe by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/).

``--remote-debugging-pipe``: the browser reads commands from file descriptor 3 and writes answers and events to 4, each a JSON
text with a zero byte behind it. No port, no package.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
#: Seconds to wait for any one answer: a busy machine is slow.
PATIENCE = 120


class Browser:
    """One tab. ``problems``: console errors and uncaught exceptions; ``requests``: every address that was asked for."""

    def __init__(self, profile: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()  # what we write and they read; what they write and we read
        command = [
            *(
                "bash",
                "-c",
                f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}',
                "chromium",
                CHROMIUM,
                "--headless=new",
                "--no-sandbox",
            ),
            *(
                "--disable-gpu",
                "--no-first-run",
                f"--user-data-dir={profile}",
                "--remote-debugging-pipe",
                "about:blank",
            ),
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(ours[0], theirs[1]), **quiet)
        os.close(ours[0])
        os.close(theirs[1])
        self._out, self._in, self._buffer, self._number = ours[1], theirs[0], b"", 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"])[:500])
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message

    def open(self, address: str) -> None:
        """Load a page anew and wait until it is there."""
        self.call("Page.navigate", url="about:blank")  # else another part of the same page would load nothing
        self.call("Page.navigate", url=address)
        until = time.monotonic() + PATIENCE
        while self.run("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < until, "the page does not load"

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, in the page; after the events that it sets off."""
        waiting = f"new Promise(done => {{ const value = (() => {script})(); setTimeout(() => done(value), 60); }})"
        result = self.call("Runtime.evaluate", expression=waiting, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """A key on what has the focus; a single character is also typed."""
        code = {"ArrowDown": 40, "ArrowRight": 39, "ArrowUp": 38, "ArrowLeft": 37, "Escape": 27, "Enter": 13}.get(key)
        text = {} if code else {"text": key}
        more = {"windowsVirtualKeyCode": code} if code else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)
        self.run("0")

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """Size of the window in CSS pixels, and the system's colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        os.close(self._out)
        os.close(self._in)
