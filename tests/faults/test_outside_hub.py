"""A server of checkpoints that names files outside, a revision that is none, or far too much. No network but this machine's own.

Faults of 6e898d5: an index could name the checkout's Snakefile; whatever the server sent under the name of weights was
recorded as right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import REVISION, Hub, serving
from made_slices import PROJECT, listing

HEADER = json.dumps({"x": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + b"abc"
FILES = {
    "config.json": b"{}",
    "vocab.txt": b"a\n",
    "README.md": b"x",
    "model.safetensors": WEIGHTS,
    "tf_model.h5": b"h",
}
OLD = {"config.json": b"{}", "vocab.txt": b"a\n", "pytorch_model.bin": b"PK\x03\x04", "args.pt": b"PK"}


def fetch(folder: Path, hub: Hub, offline: bool = False) -> subprocess.CompletedProcess[str]:
    """``workflow_scripts/fetch_checkpoint.py`` in ``folder``, which is its checkout, home and cache."""
    (folder / "checkout").mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "HF_HOME": str(folder / "cache")}
    environment |= {"HF_ENDPOINT": hub.url, "PYTHONPATH": str(PROJECT / "src"), "HF_HUB_OFFLINE": str(int(offline))}
    command = [sys.executable, PROJECT / "workflow_scripts/fetch_checkpoint.py", "--start", "hub:evil/model"]
    return subprocess.run(
        [*command, "--out", "data/hub/evil--model/origin.txt"],
        cwd=folder / "checkout",
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("files", [FILES, OLD], ids=["safetensors", "pickle"])
def test_what_is_asked_of_a_hub(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Pickles only where there are no safetensors, nothing else than a checkpoint, and without a network what the cache has."""
    with serving(Hub(files)) as hub:
        done = fetch(tmp_path, hub)
        assert done.returncode == 0, done.stderr
    copy = tmp_path / "checkout/data/hub/evil--model"
    kept = {name for name in files if name not in ("README.md", "tf_model.h5", "args.pt")}
    assert {path.name for path in copy.iterdir()} == {*kept, "manifest.json", "origin.txt"}
    assert all((copy / name).read_bytes() == files[name] for name in kept)
    assert json.loads((copy / "manifest.json").read_text())["revision"] == REVISION
    asked = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert asked == kept, "nothing else is downloaded"
    (copy / "manifest.json").unlink()
    done = fetch(tmp_path, hub, offline=True)
    assert done.returncode == 0, done.stderr


HTML = b"<!DOCTYPE html><html>sign in</html>"


@pytest.mark.parametrize(
    ("hub", "told"),
    [
        (Hub(FILES | {"model/../../../../x.safetensors": WEIGHTS}), "would leave its folder"),
        (Hub(FILES | {"model\0.safetensors": WEIGHTS}), "has a control character"),
        (Hub(FILES | {f"model{'x' * 300}.safetensors": WEIGHTS}), "is too long"),
        (Hub(FILES | {"modela.safetensors": WEIGHTS, "modelA.safetensors": WEIGHTS}), "in case alone"),
        (Hub(FILES, revision="../../../../../escaped"), "expected 40 hexadecimal digits"),
        (Hub(FILES, sizes={"model.safetensors": 1 << 50}), "PRETRIEVE_SIZE_LIMIT"),
        (Hub(FILES | {"model.safetensors": HTML}), "a web page; expected the file model.safetensors"),
        (Hub(FILES | {"model.safetensors": WEIGHTS[:-1]}), "not a whole file of safetensors"),
        (Hub(FILES | {"config.json": b"{"}), "not valid JSON"),
    ],
    ids=["..", "NUL", "long", "case", "revision", "size", "page", "cut", "json"],
)
def test_a_hub_that_means_harm(tmp_path: Path, hub: Hub, told: str) -> None:
    with serving(hub):
        done = fetch(tmp_path, hub)
    assert done.returncode == 1 and done.stderr.count("Traceback") == 0 and told in done.stderr, done.stderr
    outside = [name for name in listing(tmp_path) if not name.startswith(("cache", "checkout"))]
    assert outside == [] and not list((tmp_path / "checkout").rglob("manifest.json"))
    assert "escaped" not in "".join(listing(tmp_path))
