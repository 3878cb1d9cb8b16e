"""Checkpoints from the hub: which files, where from, and what was recorded at first use. No test reaches a network.

Seen to fail when: the hub is asked before the mirror; a pickle is copied beside safetensors; the record is written
anew, not compared, or lacks a file; a wrong file is put in place before it is compared; intact files are fetched
again; a recorded revision is not asked for again; damage is not noticed when a start is read; an index or
encoder_model/ is not copied; the origin is not the rule's output; a start of another form goes through.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of
from pretrieve.raw import hub
from pretrieve.raw.hub import (
    check_recorded,
    check_starts,
    fetch_checkpoint,
    files_of,
    place_of,
    vocabulary_files,
    wanted_files,
)

START = "hub:Luyu/condenser"


def weights(text: str) -> str:
    """A file of safetensors with one tensor, made of ASCII letters alone."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [len(text)], "data_offsets": [0, len(text)]}})
    return chr(len(header)) + 7 * "\0" + header + text


FILES = {
    "config.json": "{}",
    "model.safetensors": weights("weights"),
    "model.pt": "PK head",
    "tokenizer.json": '"words"',
    "vocab.txt": "w",
}
OTHERS = {
    "pytorch_model.bin": "PK pickle",
    "args.pt": "pickle",
    "README.md": "text",
    "tf_model.h5": "tf",
    "optimizer.bin": "x",
}


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    put(tmp_path / "mirror/hub/Luyu/condenser", FILES | OTHERS)
    return tmp_path / "mirror"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data/hub/Luyu--condenser"


def refused(repository: str, revision: str | None) -> tuple[Path, str | None]:
    raise AssertionError("the hub was asked")


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_from_the_mirror(mirror: Path, target: Path) -> None:
    assert fetch_checkpoint(START, target, mirror, refused) == str(mirror / "hub/Luyu/condenser")
    assert names_in(target) == {*FILES, "manifest.json"}
    record = json.loads((target / "manifest.json").read_text())
    assert (record["repository"], record["revision"]) == ("Luyu/condenser", None)
    assert set(record["files"]) == set(FILES)
    for name, entry in record["files"].items():
        assert entry == {"sha256": sha256_of(mirror / "hub/Luyu/condenser" / name), "bytes": len(FILES[name])}


def test_a_revision_has_a_folder_of_its_own(mirror: Path, tmp_path: Path) -> None:
    put(mirror / "hub/Luyu/condenser@v2", FILES | {"model.safetensors": weights("newer")})
    directory = tmp_path / place_of("hub:Luyu/condenser@v2")
    assert directory.name == "Luyu--condenser@v2"
    assert fetch_checkpoint("hub:Luyu/condenser@v2", directory, mirror, refused).endswith("condenser@v2")
    assert (directory / "model.safetensors").read_text() == weights("newer")
    assert json.loads((directory / "manifest.json").read_text())["revision"] == "v2"


def test_from_the_hub(tmp_path: Path, target: Path) -> None:
    """Where the mirror has no such folder; the exact revision is recorded, and asked for again later."""
    asked = []

    def download(repository: str, revision: str | None) -> tuple[Path, str | None]:
        asked.append((repository, revision))
        return put(tmp_path / "cache/5e1f", FILES), "5e1f"

    assert (
        fetch_checkpoint(START, target, tmp_path / "empty", download) == "huggingface.co/Luyu/condenser, revision 5e1f"
    )
    assert json.loads((target / "manifest.json").read_text())["revision"] == "5e1f"
    assert fetch_checkpoint(START, target, None, refused).startswith("kept: all 5 files")
    (target / "vocab.txt").unlink()
    fetch_checkpoint(START, target, None, download)
    assert asked == [("Luyu/condenser", None), ("Luyu/condenser", "5e1f")]
    assert (target / "vocab.txt").read_text() == "w"
    # Files that are the recorded ones may come from anywhere; the record stays what it was.
    (target / "vocab.txt").unlink()
    put(tmp_path / "mirror/hub/Luyu/condenser", FILES)
    assert fetch_checkpoint(START, target, tmp_path / "mirror", refused).startswith(str(tmp_path))
    assert json.loads((target / "manifest.json").read_text())["revision"] == "5e1f"


def test_no_network(target: Path, tmp_path: Path) -> None:
    def download(repository: str, revision: str | None) -> tuple[Path, str | None]:
        raise ConnectionError("name resolution failed\nmore")

    with pytest.raises(DataError) as error:
        fetch_checkpoint(START, target, tmp_path, download)
    for words in (
        f"looked in {tmp_path}/hub/Luyu/condenser and at",
        "name resolution failed",
        "DIR/hub/Luyu/condenser (with a revision: NAME@REVISION)",
        "mirror=DIR",
    ):
        assert words in str(error.value)
    assert not target.exists()


def test_checked_ever_after(mirror: Path, target: Path) -> None:
    fetch_checkpoint(START, target, mirror, refused)
    check_recorded(target)
    before = (target / "manifest.json").read_bytes()
    source = mirror / "hub/Luyu/condenser/model.safetensors"
    for text, told in ((weights("Weights"), "sha256"), ("other weights", "13 bytes")):
        source.write_text(text)
        (target / "model.safetensors").write_text(FILES["model.safetensors"])
        assert fetch_checkpoint(START, target, mirror, refused).startswith("kept")  # what is here is still right
        (target / "model.safetensors").write_text("damaged")
        with pytest.raises(DataError, match=r"model.safetensors missing or changed since first use.*origin.txt"):
            check_recorded(target)
        with pytest.raises(DataError, match=rf"{told}.*expected, as recorded at first use.*delete") as error:
            fetch_checkpoint(START, target, mirror, refused)
        assert sha256_of(source) in str(error.value)
        assert (target / "model.safetensors").read_text() == "damaged"
    source.write_text(FILES["model.safetensors"])
    fetch_checkpoint(START, target, mirror, refused)
    check_recorded(target)
    assert (target / "manifest.json").read_bytes() == before
    assert not [name for name in names_in(target) if name.endswith(".part")]


def test_a_file_more_or_less_than_recorded(mirror: Path, target: Path) -> None:
    fetch_checkpoint(START, target, mirror, refused)
    (target / "vocab.txt").unlink()
    for change in (lambda f: (f / "vocab.txt").unlink(), lambda f: put(f, {"vocab.txt": "w", "merges.txt": "m"})):
        change(mirror / "hub/Luyu/condenser")
        with pytest.raises(DataError, match=r"recorded at first use.*config.json, model.pt, model.safetensors"):
            fetch_checkpoint(START, target, mirror, refused)


def test_a_damaged_record(target: Path, mirror: Path) -> None:
    fetch_checkpoint(START, target, mirror, refused)
    for text in ("{", "[]", '{"files": {"a": {}}}'):
        (target / "manifest.json").write_text(text)
        with pytest.raises(DataError, match="damaged record"):
            check_recorded(target)


def test_a_copy_of_a_copy_keeps_its_revision(tmp_path: Path, target: Path) -> None:
    fetch_checkpoint(START, target, None, lambda *_: (put(tmp_path / "c", FILES), "5e1f"))
    target.rename(tmp_path / "condenser")
    (tmp_path / "mirror/hub/Luyu").mkdir(parents=True)
    (tmp_path / "condenser").rename(tmp_path / "mirror/hub/Luyu/condenser")
    fetch_checkpoint(START, target, tmp_path / "mirror", refused)
    assert json.loads((target / "manifest.json").read_text())["revision"] == "5e1f"


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (
            {
                "model.safetensors.index.json": '{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}',
                "model-1.safetensors": weights("1"),
                "model-2.safetensors": weights("2"),
                "model-3.safetensors": "not in the index",
                "config.json": "{}",
                "spiece.model": "s",
            },
            [
                "config.json",
                "model-1.safetensors",
                "model-2.safetensors",
                "model.safetensors.index.json",
                "spiece.model",
            ],
        ),
        (
            {
                "encoder_model/config.json": "{}",
                "encoder_model/vocab.txt": "w",
                "encoder_model/tokenizer_config.json": "{}",
                "pytorch_model.bin": "PK",
                "trainer_state.json": "{}",
            },
            [
                "encoder_model/config.json",
                "encoder_model/tokenizer_config.json",
                "encoder_model/vocab.txt",
                "pytorch_model.bin",
            ],
        ),
        ({"SEED.pt": "PK", "vocab.txt": "w"}, ["SEED.pt", "vocab.txt"]),
        (
            {
                **dict.fromkeys(["pretrieve.json", "config.json", "curve.csv"], "{}"),
                **dict.fromkeys(["model.safetensors", "heads.safetensors"], weights("x")),
            },
            ["config.json", "heads.safetensors", "model.safetensors", "pretrieve.json"],
        ),
    ],
)
def test_files_that_are_kept(tmp_path: Path, files: dict[str, str], wanted: list[str]) -> None:
    assert wanted_files(put(tmp_path, files)) == wanted
    fetch_checkpoint("hub:a/b", tmp_path / "out", None, lambda *_: (tmp_path, "r"))
    assert names_in(tmp_path / "out") == {*wanted, "manifest.json"}


@pytest.mark.parametrize(
    "start", ["hub:condenser", "hub:a/b/c", "hub:a/b@", "hub:../b", "hub:a/..", "hub:a/b c", "hub:"]
)
def test_names_of_another_form(start: str) -> None:
    with pytest.raises(ConfigError, match=r"expected hub:OWNER/NAME or hub:OWNER/NAME@REVISION"):
        place_of(start)


def config(start: str | None, vocabulary: str | None = None) -> dict:
    scale = {"vocabulary_file": vocabulary} if vocabulary else {}
    encoders = {"first": {"start": "other"}, "mine": {"start": start} if start else {}}
    return {"scale": "s", "scales": {"s": scale}, "encoders": encoders}


def test_starts_are_checked_before_any_job(tmp_path: Path) -> None:
    folder = put(tmp_path / "model", FILES)
    sources = {name: {"file": f"encoder/{name}"} for name in hub.PACKAGE_FILES}
    for good in (None, "hub:a/b", "package:encoder", f"dir:{folder}", f"dir:{folder}/model.pt"):
        check_starts(config(good), sources)
    for vocabulary in (str(folder / "vocab.txt"), "hub:a/b", "package:encoder"):
        check_starts(config(None, vocabulary), sources)
    for wrong, told in [
        (config("hub:b"), r"encoders\.mine\.start: start 'hub:b': expected hub:OWNER/NAME"),
        (config(f"dir:{tmp_path}/none"), r"encoders\.mine\.start: .*/none: no such directory or file"),
        (config(f"dir:{tmp_path}"), r"encoders\.mine\.start: .*no checkpoint; expected model\.safetensors"),
        (config(None, "hub:b"), r"scales\.s\.vocabulary_file: start 'hub:b'"),
        (config(None, "none.txt"), r"scales\.s\.vocabulary_file: 'none\.txt': no such file"),
        (config("package:encodr"), r"encoders\.mine\.start: 'package:encodr': no such .* did you mean 'encoder'"),
        (config(None, "package:x"), r"scales\.s\.vocabulary_file: 'package:x': no such .* it has encoder"),
    ]:
        with pytest.raises(ConfigError, match=f"^config: {told}"):
            check_starts(wrong, sources)
    del sources["tokenizer.json"]
    with pytest.raises(ConfigError, match="'package:encoder': no such checkpoint"):
        check_starts(config("package:encoder"), sources)


def test_what_a_job_depends_on(tmp_path: Path) -> None:
    folder = put(tmp_path / "model", FILES | OTHERS)
    assert files_of("hub:Luyu/condenser@v2") == ["data/hub/Luyu--condenser@v2/origin.txt"]
    assert files_of("package:a-b") == [f"data/sources/a-b/{name}" for name in hub.PACKAGE_FILES]
    assert vocabulary_files("package:a-b") == ["data/sources/a-b/tokenizer.json"]
    assert vocabulary_files("hub:a/b") == files_of("hub:a/b")
    found = files_of(f"dir:{folder}")
    assert found[0] == f"{folder}/model.safetensors"
    assert {Path(name).name for name in found} == {"model.safetensors", "config.json", "model.pt", "tokenizer.json"}


def test_the_program(mirror: Path, target: Path, program) -> None:
    words = ("workflow_scripts/fetch_checkpoint.py", "--start", START, "--out", target / hub.ORIGIN)
    done = program(*words, PRETRIEVE_MIRROR=str(mirror))
    assert done.returncode == 0, done.stderr
    assert (target / "origin.txt").read_text() == f"{START}: {mirror}/hub/Luyu/condenser\n"
    assert names_in(target) == {*FILES, "manifest.json", "origin.txt"}
    (target / "config.json").write_text("[]")
    put(mirror / "hub/Luyu/condenser", {"config.json": "[ ]"})
    done = program(*words, PRETRIEVE_MIRROR=str(mirror))
    assert done.returncode == 1 and done.stderr.startswith("DataError: ") and "Traceback" not in done.stderr
