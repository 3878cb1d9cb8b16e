"""A Python package (a wheel) that a start or a raw file comes from: looked up and never run, its files taken by their checksums
alone, whatever its own list of files says.

Seen to fail when: a package's file is not compared with the list; a link is followed at first use; a package is imported to find
its folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.raw.hub import check_starts
from pretrieve.raw.sources import Source, fetch

GOOD = b'{"model_type": "bert"}'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    folder = site / "pretrieve_evil_wheel"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemExit('the package was run')")
    (folder / "config.json").write_bytes(GOOD)
    (tmp_path / "outside").write_bytes(b"secret")
    about = site / "pretrieve_evil_wheel-1.dist-info"
    about.mkdir()
    (about / "RECORD").write_text("../../outside,sha256=AAAA,6\n/etc/passwd,,\npretrieve_evil_wheel/config.json,,\n")
    monkeypatch.syspath_prepend(site)
    return folder


def source(digest: str = hashlib.sha256(GOOD).hexdigest(), size: int = len(GOOD), path: str = "config.json") -> Source:
    return Source("evil", "evil/config.json", "pretrieve_evil_wheel", path, digest, size, "-", "x")


def changed(change: Callable[[Path], object]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        (folder / "config.json").unlink()
        change(folder / "config.json")

    return run


WRONG: dict[str, tuple[Callable[[Path], None], Source, str]] = {
    "missing": (
        changed(lambda file: None),
        source(),
        "evil/config.json: missing, looked in the package pretrieve_evil_wheel",
    ),
    "another": (
        changed(lambda file: file.write_bytes(b"{}")),
        source(),
        "damaged or another version: .*expected sha256",
    ),
    "a link to another": (
        changed(lambda file: file.symlink_to("../../outside")),
        source(),
        "damaged or another version",
    ),
    "a link at first use": (
        changed(lambda file: file.symlink_to("../../outside")),
        source("first-use", 0),
        "package pretrieve_evil_wheel: evil: 'config.json' leads out of its folder by a link",
    ),
    "a pipe": (changed(os.mkfifo), source(), "evil/config.json: missing, looked in the package"),
    "a folder": (changed(os.mkdir), source(), "evil/config.json: missing, looked in the package"),
    "another size": (lambda folder: None, source(size=5), "damaged or another version: .*22 bytes.*expected sha256"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_package_that_is_not_what_the_list_says(tmp_path: Path, package: Path, kind: str) -> None:
    change, wanted, said = WRONG[kind]
    change(package)
    target = tmp_path / "data/sources/evil/config.json"
    with pytest.raises(DataError, match=said):
        fetch(wanted, target)
    assert not target.exists() and (tmp_path / "outside").read_bytes() == b"secret"


def test_a_package_as_it_should_be_is_not_run(tmp_path: Path, package: Path) -> None:
    target = tmp_path / "data/sources/evil/config.json"
    assert fetch(source(), target) == str(package / "config.json")
    assert target.read_bytes() == GOOD
    assert fetch(replace(source(), checksum="first-use"), target) == str(package / "config.json")


@pytest.mark.parametrize("name", ["nope", "../evil", "/etc", "a b", "", "x" * 5000, "a/../../b"])
def test_a_start_in_no_listed_package_is_said_before_any_job(name: str) -> None:
    with pytest.raises(ConfigError, match="config: .*package:"):
        check_starts(
            {"scale": "s", "scales": {"s": {}}, "encoders": {"mine": {"start": f"package:{name}"}}},
            {"a": {"file": "a/model.safetensors"}},
        )
