"""Odd places and surroundings for a run."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from miniature import environment

#: Blanks, quotes, letters of three scripts, and what means something to a shell.
ODD = "ein Ordner, größer & 'anders' (日本) #1"
#: Nobody can make a folder there, not even root.
NO_HOME = "/dev/null/home"
#: Bytes of the small disk.
DISK = 4 << 20


def give_environment(folder: Path) -> None:
    """Let ``make`` take this Python's environment for the one that it would set up."""
    (folder / ".venv").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / part).symlink_to(Path(sys.prefix) / part)
    locks = b"".join((folder / "envs" / name).read_bytes() for name in ("requirements.lock", "torch.txt"))
    lock = hashlib.sha256(locks).hexdigest()
    (folder / f".venv/.installed-{lock[:16]}").touch()


def homeless() -> dict[str, str]:
    """The environment of somebody without a home, and with the plainest locale."""
    kept = {name: value for name, value in environment().items() if not name.startswith(("XDG_", "LC_", "LANG"))}
    return kept | {"HOME": NO_HOME, "LC_ALL": "C"}
