"""A checkout and its environment in a folder with blanks, letters beyond ASCII and what a shell reads, in the plainest locale.

Nothing is installed: ``make venv`` runs with a Python that writes down how it was called, and the environment is an empty one.

Seen to fail when: the environment names the checkout by its full path, which Python 3.11 reads by the locale; a value of the
Makefile is not quoted; a script's first line has a blank in its path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from fault_places import ODD

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
}

FAKE = """#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
[ "$2" = venv ] || exit 0
mkdir -p .venv/bin .venv/lib/python3.11/site-packages
cp "$0" .venv/bin/python
cp "$0" .venv/bin/pretrieve
pwd > .venv/lib/python3.11/site-packages/__editable__.pretrieve-0.1.0.pth
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Enough of one, in an odd folder."""
    folder = tmp_path / ODD
    folder.mkdir()
    for name in ("envs", "Makefile"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


def test_make_venv(checkout: Path, tmp_path: Path) -> None:
    python = tmp_path / "ein Python (ü)" / "python3.11"
    python.parent.mkdir()
    python.write_text(FAKE)
    python.chmod(0o755)
    calls = tmp_path / "calls"
    words = ["make", "-s", "venv", f"PYTHON={python}"]
    ended = subprocess.run(words, cwd=checkout, env=PLAIN | {"CALLS": str(calls)}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    begun = calls.read_text().splitlines()
    assert begun[0] == "-m venv --clear .venv" and begun[-1] == "warm-up" and "--editable ." in begun[-2]
    (path,) = (checkout / ".venv").rglob("__editable__*.pth")
    assert path.read_text() == "../../../../src\n"
    assert list((checkout / ".venv").glob(".installed-*"))


def test_the_environment_finds_the_checkout(checkout: Path) -> None:
    """With the line that ``make venv`` writes."""
    (checkout / "src/pretrieve").mkdir(parents=True)
    (checkout / "src/pretrieve/__init__.py").write_text("HERE = __file__\n")
    venv.create(checkout / ".venv", symlinks=True, with_pip=False)
    (packages,) = (checkout / ".venv/lib").glob("python3*/site-packages")
    (packages / "__editable__.pretrieve-0.1.0.pth").write_text("../../../../src\n")
    ask = "import os, pretrieve; os.write(1, os.fsencode(os.path.realpath(pretrieve.HERE)))"
    python = checkout / ".venv/bin/python"
    ended = subprocess.run([python, "-c", ask], cwd="/", env=PLAIN, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert os.fsdecode(ended.stdout) == str(checkout / "src/pretrieve/__init__.py")


def test_an_installed_script_starts(checkout: Path) -> None:
    """As pip writes it: the first line of a script can have no blank, so that a shell begins it."""
    scripts = pytest.importorskip("pip._vendor.distlib.scripts")
    maker = scripts.ScriptMaker(None, str(checkout))
    maker.executable, maker.variants = f'"{checkout / "a python"}"', {""}
    (checkout / "a python").symlink_to(sys.executable)
    (path,) = maker.make("pretrieve = pretrieve.__main__:main")
    assert Path(path).read_bytes().startswith(b"#!/bin/sh\n'''exec' ")
    env = PLAIN | {"PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run([path, "--help"], cwd=checkout, env=env, capture_output=True)
    assert ended.returncode == 0 and b"pretrieve" in ended.stdout, ended.stderr
