"""What a table needs of raw files, and the page that lists them.

Seen to fail when: a damaged file counts as in place; an archive that is in place is not seen for its members; GB of what is in
place are counted as coming; the files of a training task are left out.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.commands.raw_files_page import licence_list, with_table
from pretrieve.operations import raw_files as wanted
from pretrieve.raw.sources import Source, fetch, read_sources
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).parents[2]
LIST = ROOT / "resources/sources.tsv"


def source(name: str, content: bytes = b"", **more: str) -> Source:
    checksum = "sha256:" + hashlib.sha256(content).hexdigest()
    return Source(name, f"set/{name}", "", "", checksum, len(content), "CC0", more.pop("needed_by", ""), **more)


SOURCES = {
    one.name: one
    for one in (
        source("here", b"12345"),
        source("damaged", b"abc", url="https://publisher/damaged"),
        source("mirrored", b"m" * 2000),
        source("online", b"o" * 3_000_000, url="https://publisher/online"),
        source("archive", b"a" * 5_000_000, url="https://publisher/archive"),
        Source("one", "set/one", "", "one", "first-use", 0, "CC0", "", archive="archive"),
        Source("two", "set/two", "", "two", "first-use", 0, "CC0", "", archive="archive"),
        source("nowhere", b"n"),
    )
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    data, mirror = tmp_path / "data", tmp_path / "mirror"
    for folder in (data, mirror):
        (folder / "set").mkdir(parents=True)
    (data / "set/here").write_bytes(b"12345")
    (data / "set/damaged").write_bytes(b"abd")
    (mirror / "set/mirrored").write_bytes(b"m" * 2000)
    return data, mirror


def test_states(places: tuple[Path, Path]) -> None:
    data, mirror = places
    found = wanted.survey(["here", "damaged", "mirrored", "two", "online", "one"], SOURCES, mirror, data)
    assert [(one.source.name, one.state, one.bytes) for one in found] == [
        ("here", "there", 5),
        ("damaged", "download", 3),
        ("mirrored", "mirror", 2000),
        ("archive", "download", 5_000_000),
        ("two", "download", 0),
        ("online", "download", 3_000_000),
        ("one", "download", 0),
    ]
    text = wanted.report(found)
    assert "  5 files     0.008 GB: to download" in text and "  1 file      0.000 GB: in place" in text
    assert "set/archive, for 2 files in it  (CC0)  https://publisher/archive" in text and "set/one " not in text
    wanted.check_room(found, data)
    (data / "set/archive").write_bytes(b"a" * 5_000_000)
    assert [one.state for one in wanted.survey(["one"], SOURCES, mirror, data)] == ["there", "unpack"]


def test_first_use_is_in_place_only_as_recorded(places: tuple[Path, Path]) -> None:
    data, mirror = places
    unknown = Source("unknown", "set/unknown", "", "", "first-use", 0, "CC0", "")
    (mirror / "set/unknown").write_bytes(b"u")
    fetch(unknown, data / unknown.file, mirror, records=data / "checksums.tsv")
    (mirror / "set/unknown").unlink()
    assert wanted.survey(["unknown"], {"unknown": unknown}, mirror, data)[0].state == "there"
    (data / "set/unknown").write_bytes(b"v")
    assert wanted.survey(["unknown"], {"unknown": unknown}, mirror, data)[0].state == "missing"


def test_nothing_is_fetched_when_something_is_missing(places: tuple[Path, Path]) -> None:
    data, mirror = places
    found = wanted.survey(["online", "nowhere"], SOURCES, mirror, data)
    with pytest.raises(DataError, match=r"1 file not available: set/nowhere; put them into a mirror folder"):
        wanted.check_room(found, data)
    with pytest.raises(DataError, match="source 'onlin': not in .*did you mean 'online'"):
        wanted.survey(["onlin"], SOURCES, mirror, data)


def test_a_file_in_the_mirror_that_will_not_do_is_named(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, mirror = places
    file = mirror / "set/nowhere"
    file.write_bytes(b"nn")
    found = wanted.survey(["nowhere"], SOURCES, mirror, data)
    assert f"{file} has not the expected 1 bytes" in wanted.report(found)
    with pytest.raises(DataError, match=f"1 file not available: set/nowhere .{file} has not the expected 1 bytes"):
        wanted.check_room(found, data)
    file.rename(packed := mirror / "set/nowhere.gz")  # no gzip file, as one that was cut off
    text = wanted.report(wanted.survey(["nowhere"], SOURCES, mirror, data))
    assert f"{packed} has not the expected 1 bytes, unpacked" in text

    def refused(candidate: object, size: int) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pretrieve.raw.mirror.Candidate.may_have", refused)
    text = wanted.report(wanted.survey(["nowhere"], SOURCES, mirror, data))
    assert f"{packed} cannot be read: Permission denied" in text


def test_no_room(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    data, mirror = places
    monkeypatch.setattr(wanted.shutil, "disk_usage", lambda place: type("usage", (), {"free": 3_000_002}))
    wanted.check_room(wanted.survey(["online", "here"], SOURCES, mirror, data), data)
    with pytest.raises(DataError, match=r"0\.0 GB to fetch, but 0\.0 GB are free"):
        wanted.check_room(wanted.survey(["online", "one"], SOURCES, mirror, data), data)


@pytest.fixture(scope="module")
def loaded() -> Plan:
    return Plan.load(read_config(ROOT / "config.yaml"), ROOT / "references", LIST)


@pytest.fixture
def plan(loaded: Plan) -> Plan:
    """A plan of its own configuration, which a test may change."""
    return replace(loaded, config=deepcopy(loaded.config))


def test_files_of_a_table(plan: Plan) -> None:
    names, own = wanted.table_files(plan, "pretraining_tasks/table3")
    assert names == ["enwiki-fragment", "encyclopaedia-leads"]
    assert own == [f"resources/questions/{part}.json" for part in ("dev", "test", "train")]
    assert "fanoutqa-dev" in wanted.table_files(plan, "pretrieve/transfer")[0]
    assert wanted.table_starts(plan, "pretraining_tasks/table3") == []


def test_names_of_sources_in_the_configuration(plan: Plan) -> None:
    """Also those of a corpus of parts, and of the task that a data set is trained on."""
    config = plan.config
    config["datasets"]["questions"]["files"] = {"train": "squad-train", "dev": "squad-dev", "test": "own.json"}
    config["corpora"]["part"] = {
        "reader": "wikispeedia",
        "files": {"articles": "wikispeedia-articles", "links": "my/links.tsv"},
    }
    config["corpora"]["whole"] = {"parts": ["encyclopedia-demo", "part"]}
    config["scales"]["demo"]["corpus"] = "whole"
    names, own = wanted.table_files(plan, "pretraining_tasks/table3")
    assert set(names) == {"squad-train", "squad-dev", "wikispeedia-articles", "enwiki-fragment", "encyclopaedia-leads"}
    assert own == ["my/links.tsv", "own.json"]
    config["datasets"]["fanoutqa"]["trained_on"] = "questions"
    assert "squad-train" in wanted.table_files(plan, "pretrieve/transfer")[0]


def test_published_starts_of_a_table(plan: Plan) -> None:
    encoders = plan.config["encoders"]
    encoders["base"] = {**encoders["base"], "start": "hub:google/base"}
    assert wanted.table_starts(plan, "condenser/table5") == ["hub:google/base"]  # condenser goes on from base
    assert wanted.checkpoint_state("hub:google/base", None) == "to download from huggingface.co"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "pretrieve", "fetch-table", "--dry-run", *arguments]
    return subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, env={"PYTHONPATH": "src", "PATH": ""}, check=False
    )


def test_the_program(tmp_path: Path) -> None:
    ended = run("--table", "condenser/table5", "--scale", "paper", "--mirror", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert (
        "condenser/table5 at scale paper:" in ended.stdout and "GB and 1 of unknown size: to download" in ended.stdout
    )
    assert "rocketqa/marco.tar.gz, for 2 files in it" in ended.stdout
    ended = run("--table", "condenser/table5", "--mirror", str(tmp_path / "typo"))
    assert ended.returncode != 0 and f"{tmp_path}/typo is no folder" in ended.stderr, "else all would be downloaded"
    ended = run("--table", "condenser/tabel5")
    assert (
        ended.returncode != 0 and "did you mean 'condenser/table5'" in ended.stderr and "Traceback" not in ended.stderr
    )


def test_the_page_is_as_old_as_the_list() -> None:
    page = (ROOT / "docs/raw-files.md").read_text(encoding="utf-8")
    table = licence_list(read_sources(LIST).values())
    assert with_table(page, table) == page, "run: pretrieve raw-files-page"
    assert (
        "`msmarco/` " in table
        and "* **CC BY-SA 4.0**: " in table
        and "`enwiki/` archive.org (1 file, 15.7 GB, md5)" in table
    )
    assert "`squad/` rajpurkar.github.io (2 files)" in table
    with pytest.raises(DataError, match="marks of the table"):
        with_table("no marks", table)
