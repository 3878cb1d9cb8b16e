"""No name from outside decides which file of this machine is read or written: every place, every kind of name.

Faults of 6e898d5: of a slice all kinds in its jobs, its bundle's id and the parts of weights; of an index of weights all
but the missing ones; links and devices in a mirror; NUL as a ValueError.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from pathlib import Path

import pytest
from made_slices import listing, make_home, two_jobs
from outside_places import ELSEWHERE, OTHERWISE, PLACES, make_folder

from pretrieve.base.errors import DataError, PretrieveError
from pretrieve.base.inside import inside

KINDS = {
    "..": "would leave its folder",
    "absolute": "would leave its folder",
    "link": "by a link|is a link or a device|not a plain file|\\(Permission denied\\)",
    "device": "a device|not a plain file|missing",
    "NUL": "has a control character",
    "long": "is too long",
    "case": "in case alone",
}


def names_of(kind: str, outside: Path) -> list[str]:
    return {
        "..": ["../../outside/precious"],
        "absolute": [str(outside / "precious")],
        "link": ["way/precious"],
        "device": ["pipe"],
        "NUL": ["a\0b"],
        "long": ["x" * 5000],
        "case": ["Same", "same"],
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_every_place_refuses_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("thesis")
    home = make_home(tmp_path / "home", two_jobs(), monkeypatch)
    (home / "Snakefile").write_text("rule all:\n")
    make_folder(outside)
    monkeypatch.syspath_prepend(home)
    sys.modules.pop("within", None)
    kept = listing(tmp_path)
    with pytest.raises(PretrieveError) as caught:
        PLACES[place](kind, names_of(kind, outside))
    text = str(caught.value)
    assert "\n" not in text and "\0" not in text and len(text) < 1200
    if not {place, f"{place}, {kind}"} & OTHERWISE:
        assert re.search(KINDS[kind], text), text
    now = listing(tmp_path)
    assert {name: now.get(name) for name in kept} == kept, "what was there is as it was"
    assert {Path(name).parts[0] for name in now} == {"home", "outside"} and len(listing(outside)) == 1
    assert not [name for name in now if name not in kept and name.startswith(("home/src", "home/docs", "home/results"))]


ROOT = Path(__file__).resolve().parents[2]


def listed_places() -> dict[str, str]:
    """Place → function, of the table in CONTRIBUTING.md."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = page.partition("| place | where the name is from | function |\n|---|---|---|\n")[2].partition("\n\n")[0]
    return {cells[0]: cells[2].strip("`") for cells in (line.strip("| ").split(" | ") for line in lines.split("\n"))}


def test_the_page_lists_every_place() -> None:
    places = listed_places()
    assert places.keys() == PLACES.keys() | ELSEWHERE.keys()
    for file in ELSEWHERE.values():
        assert (ROOT / "tests/faults" / file).is_file()
    for function in places.values():
        module, _, name = function.rpartition(".")
        assert hasattr(importlib.import_module(f"pretrieve.{module}"), name), function
    # What calls one of those that resolve names is on the page.
    called = {
        str(file.relative_to(ROOT / "src/pretrieve").with_suffix("")).replace("/", ".")
        for file in (ROOT / "src/pretrieve").rglob("*.py")
        if {"inside", "plain_name", "leads_out", "refuse_outside"}
        & {getattr(node.func, "id", "") for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)}
    }
    assert called - {"base.inside"} == {function.rpartition(".")[0] for function in places.values()}


GOOD = ["a", "a/b", "./a", "a.b/..c", "ä/日本", "x" * 255, "a\\b", "a b", "-rf", "..."]


@pytest.mark.parametrize("name", GOOD)
def test_names_that_are_names(tmp_path: Path, name: str) -> None:
    assert inside(tmp_path, name, "test:") == tmp_path / name


@pytest.mark.parametrize(
    "name", [None, 5, b"a", "", ".", "./", "a/..", "..", "\\a", "C:a", "a\nb", "\udcff", "x/" * 2100]
)
def test_names_that_are_none(tmp_path: Path, name: object) -> None:
    with pytest.raises(DataError, match="^test: "):
        inside(tmp_path, name, "test:")


def test_links_may_lead_about_within_the_room(tmp_path: Path) -> None:
    """As in the cache of huggingface_hub, and where a whole folder is a link to a larger disk."""
    room = tmp_path / "models--a--b"
    (room / "blobs").mkdir(parents=True)
    (room / "blobs/1").touch()
    (room / "snapshots/r").mkdir(parents=True)
    (room / "snapshots/r/config.json").symlink_to("../../blobs/1")
    (tmp_path / "link").symlink_to(room)
    for folder in (room, tmp_path / "link"):
        snapshot = folder / "snapshots/r"
        assert inside(snapshot, "config.json", "test:", room).is_file()
        with pytest.raises(DataError, match="by a link, to "):
            inside(snapshot, "config.json", "test:")
    (room / "loop").symlink_to("loop")
    (room / "gone").symlink_to("nothing")
    for name in ("loop", "gone"):
        with pytest.raises(DataError, match="cannot be looked at|is a link to nothing"):
            inside(room, name, "test:")
    assert os.listdir(room / "blobs") == ["1"]
