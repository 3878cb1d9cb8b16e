"""A slice as the runner writes it, of jobs that nobody ran, and a checkout that it comes home to."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pretrieve.base.files import sha256_of, write_json
from pretrieve.operations.bundle import unpack
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.bundle.jobs import Call, Job
from pretrieve.operations.bundle.results import checksum, write_slice

PROJECT = Path(__file__).resolve().parents[2]
ROOT = "results/demo"
TASK, STORE, ENCODER = f"{ROOT}/tasks/questions", f"{ROOT}/corpora/c/tokens", f"{ROOT}/encoders/a/seed1"
RUN = f"{ROOT}/runs/a.r-full/questions/seed1.trec.gz"
METRICS = RUN.replace("/runs/", "/metrics/").replace(".trec.gz", ".json")


def job(program: str, **options: str) -> Job:
    call = Call(program, {name.replace("_", "-"): words.split() for name, words in options.items()})
    return Job(call.key, f"group-{program}", call, code="same")


def two_jobs(depth: str = "100") -> list[Job]:
    """A pre-training and a search."""
    search = {"task": TASK, "retrievers": f"{ROOT}/retrievers/x", "sizes": "full", "runs": RUN, "outputs": METRICS}
    return [
        job("pretrain", store=STORE, options="{}", seed="1", out=ENCODER),
        job("retrieve", **search, depth=depth, metrics="mrr@10"),
    ]


def make_slice(there: Path, jobs: list[Job], **about: Any) -> Path:
    """Files of jobs below ``there``, and the slice of them."""
    for file in ("config.json", "pretrieve.json", "cost.json"):
        write_json(there / ENCODER / file, {"file": file})
    tensors = {"words": torch.randn(40, 16, generator=torch.Generator().manual_seed(1)), "order": torch.arange(9)}
    save_file(tensors, there / ENCODER / "model.safetensors", metadata={"format": "pt"})
    (there / RUN).parent.mkdir(parents=True, exist_ok=True)
    (there / RUN).write_bytes(gzip.compress(b"q1 Q0 d1 1 0.5 dense\n", mtime=0))
    bundle = {"bundle": "0123456789ab", "scale": "demo", "tables": [], "config": [], "files": [METRICS], "data": {}}
    bundle["groups"] = {one.group: [one.id] for one in jobs}
    records = {one.id: {"seconds": 1.0, "started": "2026-01-01T00:00:00+00:00"} for one in jobs}
    with chdir(there):
        folder = write_slice(jobs, records, Path("out"), {"bundle": bundle | about, "machine": {"device": "CPU"}})
    assert folder is not None
    return there / folder


def changed(folder: Path, change: Callable[[dict[str, Any]], None], again: bool = True) -> None:
    """Change the manifest of a slice; ``again``: as somebody would who knows of its checksum."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    if again:
        manifest["checksum"] = checksum(manifest)
    file.write_text(json.dumps(manifest))


def summed_again(folder: Path, name: str) -> None:
    """After a file of the slice was changed, by somebody who knows of the checksums."""
    file = folder / name
    new = {"sha256": sha256_of(file), "bytes": file.stat().st_size}
    changed(folder, lambda manifest: manifest["parts"].update({name: new}))


def make_home(folder: Path, wanted: list[Job], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, entered, whose plan asks for ``wanted``; Snakemake and ranx are left out."""
    (folder / "src/pretrieve").mkdir(parents=True)
    (folder / "src/pretrieve/cli.py").write_text("print('good')\n")
    (folder / "docs").mkdir()
    (folder / "docs/page.md").write_text("page")
    (folder / ROOT).mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Asked, "plan", lambda self: SimpleNamespace(root=ROOT))
    monkeypatch.setattr(Asked, "cells", lambda self, plan: {})
    monkeypatch.setattr(unpack, "remaining", lambda asked, targets: wanted)
    monkeypatch.setattr(unpack, "touch", lambda asked, files: None)
    monkeypatch.setattr(unpack, "code_of", lambda call: "same")
    monkeypatch.setattr(unpack, "score", lambda call: write_json(call.one("outputs"), {"metrics": {}}))
    return folder


def listing(folder: Path) -> dict[str, object]:
    """Everything below a folder, with contents; links as what they say."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            found[str(path.relative_to(folder))] = (
                os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
            )
    return found
