"""Every place that opens a path whose name comes from outside, and how to give it a name.

Each place is a function of the kind of a name and the names. It works in the current folder, where :data:`IN` is a folder with a
link that leads out (``way``), a pipe (``pipe``), and two files whose names differ in case.
"""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from made_slices import ENCODER, changed, make_slice, summed_again, two_jobs

from pretrieve.models.sentence_files import read_modules, read_router
from pretrieve.operations.bundle.archive import read_archive, sums_of
from pretrieve.operations.bundle.runner import run_slice
from pretrieve.operations.bundle.unpack import unbundle
from pretrieve.operations.bundle.weights import unpack_weights
from pretrieve.raw.archives import extract_member, read_through
from pretrieve.raw.checkpoint_files import find_checkpoint
from pretrieve.raw.hub import check_recorded, fetch_checkpoint
from pretrieve.raw.sources import fetch, read_sources
from pretrieve.retrieval.retriever import load

IN = Path("within")
EVIL = {"sha256": "0" * 64, "bytes": 4}


def make_folder(outside: Path) -> None:
    """What :data:`IN` has."""
    IN.mkdir()
    (IN / "way").symlink_to(outside)
    os.mkfifo(IN / "pipe")
    for name in ("Same", "same"):
        (IN / name).write_text("evil")


def packed(path: Path, kind: str, names: list[str]) -> Path:
    """A tar or zip, told by the suffix. A link or a device is the member itself."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("good", b"good")
            for name in names:
                info = zipfile.ZipInfo("x")
                # As it is: the constructor cuts at NUL. And so long that the format has no number for it is no name of a zip.
                info.filename = name[:60_000]
                mode = {"link": stat.S_IFLNK, "device": stat.S_IFIFO}.get(kind, stat.S_IFREG)
                info.external_attr = (mode | 0o644) << 16
                archive.writestr(info, b"../outside")
        return path
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz") as archive:
        for name in ["good", *names]:
            info = tarfile.TarInfo(name)
            info.size = 4
            if kind == "NUL":  # a header's own field ends there
                info.pax_headers = {"path": name}
            if name != "good" and kind in ("link", "device"):
                info.type, info.linkname = tarfile.SYMTYPE if kind == "link" else tarfile.CHRTYPE, "../outside"
            archive.addfile(info, io.BytesIO(b"evil"))
    return path


def archive_member(kind: str, names: list[str]) -> None:
    for suffix in ("zip", "tar.gz"):
        read_through(packed(Path(f"a.{suffix}"), kind, names))
        raise AssertionError(f"{suffix}: read through")


def one_member(kind: str, names: list[str]) -> None:
    extract_member(packed(Path("a.tar.gz"), kind, names), "good", Path("out/good"))


def list_of_raw_files(kind: str, names: list[str], column: str = "file") -> None:
    """The list, and where its names are looked up: a mirror, or a package."""
    header = "name\tfile\tpackage\tpath\tchecksum\tbytes\tlicence\tneeded_by\n"
    checksum = "first-use" if column == "file" else "0" * 64
    rows = ""
    for number, name in enumerate(names):
        file, package, path = (name, "", "") if column == "file" else (f"f{number}", str(IN), name)
        rows += f"{number}\t{file}\t{package}\t{path}\t{checksum}\t0\t-\tx\n"
    Path("sources.tsv").write_text(header + rows, encoding="utf-8")
    sources = read_sources(Path("sources.tsv"))
    for source in sources.values():
        fetch(source, Path("data/sources") / source.file, IN if column == "file" else None)


def path_in_a_package(kind: str, names: list[str]) -> None:
    list_of_raw_files(kind, names, "path")


def write_index(names: list[str]) -> None:
    (IN / "config.json").write_text("{}")
    weights = {f"tensor{number}": name for number, name in enumerate(names)}
    (IN / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weights}))


def index_of_a_checkpoint(kind: str, names: list[str]) -> None:
    write_index(names)
    find_checkpoint(IN)


def checkpoint_in_a_mirror(kind: str, names: list[str]) -> None:
    """All the way that replaced the checkout's Snakefile."""
    Path("mirror/hub/evil").mkdir(parents=True)
    Path("mirror/hub/evil/model").symlink_to(Path("../../..", IN))
    write_index(names)
    fetch_checkpoint("hub:evil/model", Path("data/hub/evil--model"), Path("mirror"))


def record_of_a_checkpoint(kind: str, names: list[str]) -> None:
    record = {"repository": "a/b", "revision": None, "files": dict.fromkeys(names, EVIL)}
    (IN / "manifest.json").write_text(json.dumps(record))
    check_recorded(IN)


def of_a_slice(change: Callable[[dict[str, Any], list[str]], None]) -> Callable[[str, list[str]], None]:
    """A place in a slice's manifest."""

    def run(kind: str, names: list[str]) -> None:
        folder = make_slice(Path("there"), two_jobs())
        changed(folder, lambda manifest: change(manifest, names))
        unbundle(folder)

    return run


@of_a_slice
def bundle_of_a_slice(manifest: dict[str, Any], names: list[str]) -> None:
    manifest["bundle"]["bundle"] = names[0]


@of_a_slice
def metrics_of_a_slice(manifest: dict[str, Any], names: list[str]) -> None:
    manifest["bundle"]["files"] = names


@of_a_slice
def results_of_a_slice(manifest: dict[str, Any], names: list[str]) -> None:
    for entry in manifest["jobs"].values():
        options = entry["job"]["call"]["options"]
        options |= {option: names for option in ("out", "runs", "outputs") if option in options}


@of_a_slice
def members_of_a_slice(manifest: dict[str, Any], names: list[str]) -> None:
    manifest["members"]["results-01.tar.xz"].update(dict.fromkeys(names, EVIL))


def parts_of_a_slice(kind: str, names: list[str]) -> None:
    """A link or a device has the name of a part, for no other name is taken."""
    folder = make_slice(Path("there"), two_jobs())
    part = folder / "weights-00002.safetensors"
    if kind == "link":
        part.symlink_to(Path("../../../..", names[0].replace("way", "outside")))
        names = [part.name]
    elif kind == "device":
        os.mkfifo(part)
        names = [part.name]
    changed(folder, lambda manifest: manifest["parts"].update(dict.fromkeys(names, EVIL)))
    unbundle(folder)


def archive_of_a_slice(kind: str, names: list[str]) -> None:
    expected = sums_of(dict.fromkeys(["good", *names], b"evil"))
    read_archive(packed(Path("a.tar.xz"), kind, names), IN, expected)


def models_of_a_slice(kind: str, names: list[str]) -> None:
    folder = make_slice(Path("there"), two_jobs())
    empty = {"metadata": None, "tensors": {}}
    (folder / "weights.index.json").write_text(json.dumps({"files": dict.fromkeys(names, empty)}))
    summed_again(folder, "weights.index.json")
    unbundle(folder)


def parts_of_weights(kind: str, names: list[str]) -> None:
    folder = make_slice(Path("there"), two_jobs())
    index = json.loads((folder / "weights.index.json").read_text())
    about = index["files"][f"{ENCODER}/model.safetensors"]
    about["tensors"] = {"words": about["tensors"]["words"] | {"pieces": [[name, "1"] for name in names]}}
    (IN / "weights.index.json").write_text(json.dumps(index))
    list(unpack_weights(IN))


def members_of_a_bundle(kind: str, names: list[str]) -> None:
    os.chdir(IN)
    Path("manifest.json").write_text(json.dumps({"members": dict.fromkeys(names, EVIL)}))
    run_slice(0.0, Path("out"), SimpleNamespace())


MODULE = "sentence_transformers.models.Pooling"


def modules_of_a_model(kind: str, names: list[str]) -> None:
    (IN / "modules.json").write_text(json.dumps([{"type": MODULE, "path": name} for name in names]))
    read_modules(IN)


def routes_of_a_model(kind: str, names: list[str]) -> None:
    (IN / "router_config.json").write_text(json.dumps({"types": dict.fromkeys(names, MODULE), "structure": {}}))
    read_router(IN)


def files_of_a_retriever(kind: str, names: list[str]) -> None:
    (IN / "pretrieve.json").write_text(json.dumps({"files": dict.fromkeys(names, "0" * 64)}))
    load(IN)


#: Place → how it is given names; CONTRIBUTING.md lists the same ones.
PLACES: dict[str, Callable[[str, list[str]], None]] = {
    "members of an archive, read through": archive_member,
    "members of an archive, one taken out": one_member,
    "list of raw files: `file`": list_of_raw_files,
    "list of raw files: `path` in a package": path_in_a_package,
    "index of a checkpoint": index_of_a_checkpoint,
    "checkpoint in a mirror": checkpoint_in_a_mirror,
    "record of a checkpoint": record_of_a_checkpoint,
    "slice: bundle": bundle_of_a_slice,
    "slice: metrics files": metrics_of_a_slice,
    "slice: what jobs write": results_of_a_slice,
    "slice: members": members_of_a_slice,
    "slice: parts": parts_of_a_slice,
    "slice: members of an archive": archive_of_a_slice,
    "slice: model files": models_of_a_slice,
    "slice: parts of weights": parts_of_weights,
    "bundle: members": members_of_a_bundle,
    "model of sentence-transformers: modules": modules_of_a_model,
    "model of sentence-transformers: routes": routes_of_a_model,
    "retriever: files": files_of_a_retriever,
}
#: Places whose names are those of files that are there, so that only some kinds of names can come, or a server's → their tests.
ELSEWHERE = {
    "files of a hub": "test_outside_hub.py",
    "raw file in a package, first use": "test_outside_packages.py",
    "model of sentence-transformers: all files": "test_outside_models.py",
    "folder of questions to evaluate on": "test_outside_models.py",
    "folder of texts or tables": "../corpora/test_any_corpus.py",
}
#: Told by another rule than that of names: an id that is no key, a form that admits no such name, no plain file.
OTHERWISE = {
    "slice: bundle",
    "slice: metrics files",
    "slice: what jobs write",
    "slice: parts",
    "slice: members",
    "slice: model files",
    "list of raw files: `path` in a package",
    "bundle: members",
    "slice: parts of weights, case",
}
