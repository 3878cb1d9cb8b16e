"""Locks of GPUs: whole sets, for as long as their holder lives.

Seen to fail when: locks are files whose presence counts; a job keeps what it has while it waits for more; devices are taken in
their order, however many jobs they have; a device is given twice to one job.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.training import gpu_lock
from pretrieve.training.gpu_lock import take, visible_devices

DEVICES = ["0", "1", "2", "3"]
#: Takes argv[2] of the devices in the folder argv[1], says which, and keeps them until its input ends.
HOLDER = """
import sys
from pathlib import Path
from pretrieve.training.gpu_lock import take
with take(int(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4]), Path(sys.argv[1])) as taken:
    print(",".join(taken), flush=True)
    sys.stdin.read()
"""


class Holder:
    """A job in a process of its own."""

    def __init__(self, folder: Path, count: int, devices: list[str] = DEVICES, share: int = 1) -> None:
        words = [sys.executable, "-c", HOLDER, str(folder), str(count), ",".join(devices), str(share)]
        environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        self.process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def taken(self) -> list[str]:
        """Waits until it has its devices."""
        return self.process.stdout.readline().strip().split(",")

    def waits(self) -> str:
        """Waits until it says that it waits."""
        return self.process.stderr.readline()

    def end(self, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        self.process.communicate(timeout=30)


@pytest.fixture
def hold(tmp_path: Path):
    with ExitStack() as stack:

        def make(*arguments, **options) -> Holder:
            holder = Holder(tmp_path / "locks", *arguments, **options)
            stack.callback(holder.end, True)
            return holder

        yield make


def test_jobs_have_devices_of_their_own_and_give_them_back(hold) -> None:
    first, second = hold(1), hold(2)
    one, two = first.taken(), second.taken()
    assert len(one) == 1 and len(two) == 2 and not {*one} & {*two}
    third = hold(2)
    assert "waiting for 2 of 4 GPUs" in third.waits(), "one is free, and two are asked for"
    last = hold(1).taken()
    assert not {*last} & {*one, *two}, "who waits keeps nothing from others"
    second.end()
    assert third.taken() == two


def test_a_killed_job_leaves_no_lock(hold) -> None:
    first = hold(4)
    assert first.taken() == DEVICES
    second = hold(4)
    second.waits()
    first.end(kill=True)
    assert second.taken() == DEVICES


def test_sharing_only_when_it_is_asked_for_and_the_emptiest_first(hold) -> None:
    jobs, order = [], []
    for _ in range(4):
        jobs.append(hold(1, ["0", "1"], share=2))
        order.append(jobs[-1].taken())
    assert order == [["0"], ["1"], ["0"], ["1"]]
    late = hold(1, ["0", "1"], share=2)
    assert "waiting" in late.waits()
    jobs[0].end()
    assert late.taken() == ["0"]
    for job in (late, jobs[1], jobs[3]):
        job.end()
    assert hold(1, ["0", "1"], share=2).taken() == ["1"], "device 0 has a job in its second place, 1 has none"


def test_a_job_of_two_devices_has_two_different_ones(hold) -> None:
    assert hold(2, ["0", "1"], share=4).taken() == ["0", "1"]
    assert hold(9, ["0", "1"], share=4).taken() == ["0", "1"], "and never more than there are"


def test_which_devices_there_are(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert visible_devices({}, tmp_path) == ["0", "1", "2", "10"]
    assert visible_devices({"CUDA_VISIBLE_DEVICES": "2, GPU-7f"}, tmp_path) == ["2", "GPU-7f"]
    assert visible_devices({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == []
    assert visible_devices({"CUDA_VISIBLE_DEVICES": "-1"}, tmp_path) == []
    assert visible_devices({}, tmp_path / "nothing") == []


def test_a_folder_that_cannot_be_one_is_named(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: GPU locks cannot be kept there .*set TMPDIR"):
        take(1, ["0"], folder=tmp_path / "file").__enter__()
    monkeypatch.setattr(gpu_lock.os, "getuid", lambda: 12345)
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigError, match="it is another user's"):
        take(1, ["0"], folder=tmp_path / "other").__enter__()
