"""With `--software-deployment-method apptainer`, jobs reach a container with the image, the folder and the whole command.

Apptainer itself is played by a program that writes down how it was called, and then runs the command outside of any container.

Seen to fail when: no image is declared; Snakemake's folder comes first in PATH; the first `python` of PATH reports the time.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

PLAYED = """#!/usr/bin/env bash
if [ "$1" = --version ]; then echo "apptainer version 1.3.4"; exit; fi
printf '%s\\n' "$@" > "$CALLS/$(ls "$CALLS" | wc -l)"
INSIDE=1 exec "${@: -3}"
"""
CORPUS = "results/demo/corpora/encyclopedia-demo/stats.json"


def test_every_job_runs_in_the_projects_image(cold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "calls").mkdir()
    played = tmp_path / "bin/apptainer"
    played.write_text(PLAYED)
    played.chmod(0o755)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    # The container's Python is not Snakemake's, and outside there is none in PATH.
    own = tmp_path / "bin/python"
    own.write_text(f'#!/bin/sh\n[ "$INSIDE" ] && echo >> "$CALLS.own" && exec {sys.executable} "$@"\n')
    own.chmod(0o755)
    wanted = ["--software-deployment-method", "apptainer", "--apptainer-args=--nv --bind /mirror", CORPUS]
    ended = cold.run_fork("--cores", "1", *wanted, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert ended.code == 0, ended.text
    assert (cold.folder / CORPUS).is_file() and (tmp_path / "calls.own").exists()
    calls = [file.read_text() for file in sorted((tmp_path / "calls").iterdir())]
    programs = ("fetch.py", "corpus.py")
    assert len(calls) >= 2 and all(any(name in call for call in calls) for name in programs)
    for call in calls:
        words = call.splitlines()
        assert words[0] == "exec" and words[words.index("--home") + 1] == str(cold.folder)
        place, own = words.index("containers/pretrieve.sif"), words.index("--nv")
        assert own < place and words[own : own + 3] == ["--nv", "--bind", "/mirror"]
        assert words[place + 1 : place + 3] == ["bash", "-c"]
        # The environment is a part of the command, and reaches the container.
        assert f"PYTHONPATH={shlex.quote(f'{cold.folder}/src')}" in call
