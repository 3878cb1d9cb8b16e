"""One lock for each GPU of a machine, so that no two jobs take the same one.

A lock is the system's, on an empty file (flock): it ends with the process that holds it whatever way that dies, so a killed job
leaves no GPU locked. The files stand in the machine's folder for temporary files, by user, so all runs of
one user on one machine see the same locks, in whatever checkout; other users' jobs are not seen.

With ``share`` n a device has n locks, and n jobs may have it at the same time. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from pretrieve.base.errors import ConfigError

#: Seconds between two looks for free devices.
PATIENCE = 1.0


def visible_devices(environment: Mapping[str, str] = os.environ, folder: Path = Path("/dev")) -> list[str]:
    """The NVIDIA devices that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; none on a machine without."""
    if "CUDA_VISIBLE_DEVICES" in environment:
        names = map(str.strip, environment["CUDA_VISIBLE_DEVICES"].split(","))
        return [name for name in names if name not in ("", "-1")]
    numbers = (re.fullmatch(r"nvidia(\d+)", file.name) for file in folder.glob("nvidia*"))
    return sorted((match[1] for match in numbers if match), key=int)


@contextmanager
def take(count: int, devices: Sequence[str], share: int = 1, folder: Path | None = None) -> Iterator[list[str]]:
    """Hold ``count`` of ``devices`` (all of them, if there are fewer) until the block ends; waits until they are free.

    All or none are taken, so two jobs cannot wait for each other.

    Raises ConfigError when the folder of the locks is not this user's, is a link, or cannot be written.
    """
    count = min(count, len(devices))
    folder = folder or Path(tempfile.gettempdir()) / f"pretrieve-gpus-{os.getuid()}"
    with _told(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.lstat()  # in a folder that all may write to, another user may have put a link of this name
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError("it is a link or a file")
        if about.st_uid != os.getuid():
            raise PermissionError("it is another user's")
    said = False
    with ExitStack() as held:
        while not (taken := _try(count, devices, share, folder, held)):
            if not said:
                print(f"waiting for {count} of {len(devices)} GPUs ({folder})", file=sys.stderr)
                said = True
            time.sleep(PATIENCE)
        yield taken


def _try(count: int, devices: Sequence[str], share: int, folder: Path, held: ExitStack) -> list[str]:
    """Take ``count`` free devices, those with the fewest jobs first, or none."""
    with open(_open(folder / "choosing"), "rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # one job chooses at a time
        free = {device: _free_places(folder, device, share) for device in devices}
        candidates = sorted((device for device in devices if free[device]), key=lambda device: -len(free[device]))
        chosen = candidates[:count] if len(candidates) >= count else []
        for device in chosen:
            held.enter_context(free[device].pop())
        for place in (place for places in free.values() for place in places):
            place.close()
    return [device for device in devices if device in chosen]


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path}: GPU locks cannot be kept there ({error}); set TMPDIR to a folder of yours."
        ) from None


def _open(path: Path) -> int:
    """Open a lock, an empty file that is never written; a link of its name is not followed [open(2), O_NOFOLLOW]."""
    with _told(path):
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)


def _free_places(folder: Path, device: str, share: int) -> list[IO[bytes]]:
    """The locks of a device that nobody has, taken."""
    places = []
    for number in range(share):
        # Open as long as the lock holds.
        place = open(_open(folder / f"{device.replace('/', '_')}.{number}"), "rb")  # noqa: SIM115
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            place.close()
        else:
            places.append(place)
    return places
