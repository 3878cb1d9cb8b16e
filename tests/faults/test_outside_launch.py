"""Locks of GPUs and the meeting of several nodes, where another user of the machine was there before.

Faults of 6e898d5: ``choosing`` was opened for writing through a link, which emptied the file behind it; a link to a folder
passed for a folder; port and id of a job followed from its number.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.training.gpu_lock import take
from pretrieve.training.launch import Place, meeting, start


@pytest.mark.parametrize("name", ["choosing", "0.0"])
def test_a_lock_is_no_link(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("thesis")
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / name).symlink_to(precious)
    with pytest.raises(ConfigError, match="GPU locks cannot be kept there"), take(1, ["0"], folder=folder):
        pass
    assert precious.read_text() == "thesis"


def test_the_folder_of_the_locks_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks").symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="it is a link or a file"), take(1, ["0"], folder=tmp_path / "locks"):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_pipe_of_a_locks_name_hangs_nothing(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    os.mkfifo(tmp_path / "locks/choosing")
    with take(1, ["0"], folder=tmp_path / "locks") as taken:
        assert taken == ["0"]


def test_where_nodes_meet_is_drawn() -> None:
    place = Place(1, 2, "gpu07")
    drawn = [meeting(place) for _ in range(50)]
    assert all(re.fullmatch(r"gpu07:(1[5-9]|2\d)\d{3}", one["PET_RDZV_ENDPOINT"]) for one in drawn)
    assert len({one["PET_RDZV_ENDPOINT"] for one in drawn}) > 40 and len({one["PET_RDZV_ID"] for one in drawn}) == 50
    assert all(len(one["PET_RDZV_ID"]) == 32 for one in drawn) and meeting(Place(4)) == {}


#: Starts what it is told on "two nodes", which are both this machine, and shows its words.
SRUN = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import subprocess, sys
words = sys.argv[1:]
words = words[next(i for i, word in enumerate(words) if not word.startswith("--")):]
open("{folder}/words", "w").write(" ".join(sys.argv))
sys.exit(max([one.wait() for one in [subprocess.Popen(words) for _ in range(2)]]))
"""
SHOW = "import os, pathlib, sys; pathlib.Path(sys.argv[1], os.environ['RANK']).write_text(os.environ['WORLD_SIZE'])"


def test_both_nodes_meet_by_what_was_drawn(tmp_path: Path) -> None:
    """The launcher draws, torchrun on each node reads it; no command line shows it."""
    (tmp_path / "srun").write_text(SRUN.format(python=sys.executable, folder=tmp_path))
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "show.py").write_text(SHOW)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    before, os.environ["PATH"] = os.environ["PATH"], path  # where Popen looks for srun
    try:
        assert start(["python", str(tmp_path / "show.py"), str(tmp_path)], Place(1, 2, "localhost"), environment) == 0
    finally:
        os.environ["PATH"] = before
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["2", "2"]
    assert not re.search(r"rdzv-(id|endpoint)|localhost", (tmp_path / "words").read_text())
