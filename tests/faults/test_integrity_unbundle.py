"""Slices that were damaged or changed on their way home, and a home without room for them.

Faults of 6e898d5: every case of :func:`test_a_job_with_other_arguments_is_not_taken`; 198 of 200 flipped bits; a full disk
was called damage; a killed call left its folder; a wrong dtype and seven of nine manifests ended in a traceback; an archive of
145 kB unpacked to 1 GB.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import chdir, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_slices import (
    ENCODER,
    METRICS,
    PROJECT,
    ROOT,
    RUN,
    changed,
    job,
    listing,
    make_home,
    make_slice,
    summed_again,
    two_jobs,
)

from pretrieve.base.errors import DataError, PretrieveError
from pretrieve.operations.bundle import unpack
from pretrieve.operations.bundle.archive import sums_of, write_archive
from pretrieve.operations.bundle.results import packed_jobs, write_slice
from pretrieve.operations.bundle.runner import run_slice
from pretrieve.operations.bundle.unpack import unbundle


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return make_slice(tmp_path / "there", two_jobs())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_home(tmp_path / "home", two_jobs(), monkeypatch)


def refused(home: Path, folder: Path, **more: Any) -> str:
    """What is said; nothing at home may have changed."""
    before = listing(home)
    with pytest.raises(PretrieveError) as caught:
        unbundle(folder, **more)
    assert listing(home) == before
    text = str(caught.value)
    assert "\n" not in text and len(text) < 1000
    return text


def test_a_whole_slice_comes_home(home: Path, there: Path) -> None:
    (home / ENCODER).mkdir(parents=True)
    (home / ENCODER / "heads.safetensors").write_bytes(b"of the encoder before")
    taken = unbundle(there.parent)
    assert len(taken.jobs) == 2 and taken.refused == {} and taken.files == 5
    for name in ("config.json", "pretrieve.json", "cost.json"):
        assert (home / ENCODER / name).read_bytes() == (there.parents[1] / ENCODER / name).read_bytes()
    assert (home / ENCODER / "model.safetensors").is_file() and (home / METRICS).is_file()
    assert not (home / ENCODER / "heads.safetensors").exists(), "what did not come is not this encoder's"
    assert (home / RUN).read_bytes() == (there.parents[1] / RUN).read_bytes()
    assert json.loads((home / ROOT / "bundles/0123456789ab-slice-001.json").read_text())["checksum"]
    assert not [path for path in (home / ROOT).iterdir() if path.name.startswith(".")]


def test_nothing_comes_home_beside_a_run_of_the_scale(home: Path, there: Path) -> None:
    """Snakemake would refuse to note what was placed, so that no later change of it would be seen."""
    lock = home / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"{ROOT}/claims.csv\n{METRICS}\n")
    said = refused(home, there)
    assert said.startswith(".snakemake/locks/0.output.lock: a run is at work on results/demo, or was killed")
    lock.write_text("results/demo-rehearsal/claims.csv\n")
    assert len(unbundle(there).jobs) == 2, "another scale's run is not in the way"


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("pretrain", {"store": "s", "options": "{}", "seed": "1", "out": "src/pretrieve"}),
        ("pretrain", {"store": "s", "options": "{}", "seed": "1", "out": "../docs"}),
        ("retrieve", {"task": "t", "retrievers": "s", "sizes": "full", "runs": RUN, "outputs": METRICS, "depth": "5"}),
    ],
)
@pytest.mark.parametrize("how", ["options", "options and id", "another job"])
def test_a_job_with_other_arguments_is_not_taken(
    home: Path, there: Path, program: str, options: dict[str, str], how: str
) -> None:
    """Whether the id stays that of a job that is asked for, is made to fit, or stands for a job of its own."""
    other = job(program, **options)

    def change(manifest: dict[str, Any]) -> None:
        key = next(key for key, entry in manifest["jobs"].items() if entry["job"]["call"]["program"] == program)
        if how != "another job":
            manifest["jobs"][key]["job"]["call"] = other.as_json()["call"]
        if how == "options and id":
            manifest["jobs"][other.id] = manifest["jobs"].pop(key)
            manifest["jobs"][other.id]["job"]["id"] = other.id
        if how == "another job":
            manifest["jobs"][other.id] = {"made": {}, "job": other.as_json()}

    changed(there, change)
    if how == "options":
        assert "its arguments have the id" in refused(home, there)
    else:
        with suppress(DataError):
            taken = unbundle(there)
            assert {one.id for one in taken.jobs} <= {one.id for one in two_jobs()} and len(taken.refused) == 1
    assert (home / "src/pretrieve/cli.py").read_text() == "print('good')\n" and (home / "docs/page.md").is_file()
    assert (home / RUN).exists() == (how == "another job")


def test_another_depth_is_not_what_the_plan_asks_for(
    tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "other", two_jobs(depth="50"), monkeypatch)
    taken = unbundle(there)
    assert [one.call.program for one in taken.jobs] == ["pretrain"] and not (home / RUN).exists()
    assert list(taken.refused.values()) == ["is not asked for with these arguments any more"]


def test_which_sizes_a_job_has_is_the_plans_word(tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice cannot say that its part of a job is all of it."""
    other = RUN.replace("full", "1pct"), METRICS.replace("full", "1pct")
    more = job("retrieve", task="t", retrievers="s", sizes="1pct", runs=other[0], outputs=other[1])
    changed(there, lambda manifest: manifest["bundle"]["groups"].update(more=[more.id]))
    home = make_home(tmp_path / "other", [*two_jobs(), more], monkeypatch)
    taken = unbundle(there)
    assert (
        list(taken.refused.values()) == ["waits for 1 other training-set sizes of its job"]
        and not (home / RUN).exists()
    )


def flipped(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def test_every_flipped_bit_is_noticed(home: Path, there: Path, tmp_path: Path) -> None:
    draw = random.Random(11)
    files = [file for file in sorted(there.iterdir()) for _ in range(50)]
    assert {file.name for file in files} == {
        *("manifest.json", "results-01.tar.xz", "weights-00001.safetensors", "weights.index.json")
    }
    for number, file in enumerate(files):
        copy = shutil.copytree(there, tmp_path / f"copy{number}/slice-001")
        flipped(copy / file.name, draw.randrange(8 * file.stat().st_size))
        assert file.name in refused(home, copy) or file.name == "manifest.json"
        shutil.rmtree(copy.parent)


def test_flips_that_the_manifest_would_not_show_are_found_by_xz(home: Path, there: Path) -> None:
    """Each bit of the check at the archive's end, which reading up to the last member never came to."""
    archive = there / "results-01.tar.xz"
    whole = archive.read_bytes()
    for bit in range(8 * (len(whole) - 40), 8 * len(whole), 5):
        archive.write_bytes(whole)
        flipped(archive, bit)
        summed_again(there, archive.name)
        assert "not a whole" in refused(home, there)


def test_copies_of_a_slice_are_one_and_those_of_two_runs_are_not_mixed(home: Path, there: Path) -> None:
    copy, out = there.with_name("slice-001 (1)"), there.parent
    shutil.copytree(there, copy)
    changed(copy, lambda manifest: next(iter(manifest["jobs"].values()))["made"].update(seconds=2.0))
    assert "slice-001 (1)" in (told := refused(home, out)) and "from another run" in told
    shutil.rmtree(copy)
    shutil.copytree(there, copy)
    (out / "out.zip").touch()
    assert "out.zip: no slice is there; expected a folder" in refused(home, out / "out.zip")
    assert len(unbundle(out).jobs) == 2


def test_the_runner_counts_its_own_slices_beside_copies_and_other_manifests(there: Path) -> None:
    jobs, out = two_jobs(), there.parent
    shutil.copytree(there, there.with_name("slice-001.old"))
    (out / "manifest.json").write_text("{}")  # a bundle's, where --out is the bundle's folder
    assert packed_jobs(out) == {job.id for job in jobs}
    records = {job.id: {"seconds": 1.0} for job in jobs}
    with chdir(there.parents[1]):
        assert write_slice(jobs, records, out, {}).name == "slice-002"


@pytest.mark.parametrize("what", ["part", "member", "index"])
def test_what_is_missing_or_another_is_named(home: Path, there: Path, what: str) -> None:
    if what == "part":
        (there / "weights-00001.safetensors").unlink()
        assert "weights-00001.safetensors: missing" in refused(home, there)
    elif what == "member":
        members = {f"{ENCODER}/cost.json": b"{}"}
        write_archive(there / "results-01.tar.xz", members)
        summed_again(there, "results-01.tar.xz")
        assert f"member '{ENCODER}/cost.json' has 2 bytes, but " in refused(home, there)
        changed(there, lambda manifest: manifest["members"]["results-01.tar.xz"].update(sums_of(members)))
        assert "is missing, and the manifest lists it" in refused(home, there)
        changed(there, lambda manifest: manifest["members"].update({"results-01.tar.xz": sums_of(members)}))
        assert re.search(
            "is missing, and (pretrain a/seed1|retrieve a.r-full/questions/seed1) is", refused(home, there)
        )
    else:
        (there / "weights.index.json").write_text('{"files": {}}')
        assert "weights.index.json: 13 bytes, not those of the manifest" in refused(home, there)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dtype": "complex64"}, "not an entry of an index of weights"),
        ({"dtype": "Tensor"}, "not an entry of an index of weights"),
        ({"dtype": "float64"}, "its pieces are torch.bfloat16; expected float64"),
        ({"dtype": "int64"}, "expected int64"),
        ({"shape": [40, 17]}, "has 640 numbers, expected shape [40, 17]"),
        ({"shape": [10**30]}, "expected shape"),
        ({"shape": [-40, -16]}, "not an entry of an index"),
        ({"shape": "40"}, "not an entry of an index"),
        ({"pieces": [["weights-00001.safetensors", "9"]]}, "has no piece 9"),
        ({"pieces": [["../weights-00001.safetensors", "1"]]}, "is not in the manifest"),
        ({"pieces": [["weights-00001.safetensors", "1"]] * 2}, "has no piece 1"),
        ({"pieces": [1]}, "not an entry of an index"),
        (None, "not an entry of an index"),
    ],
)
def test_an_index_that_is_none(home: Path, there: Path, change: dict[str, Any] | None, told: str) -> None:
    index = json.loads((there / "weights.index.json").read_text())
    tensors = index["files"][f"{ENCODER}/model.safetensors"]["tensors"]
    tensors["words"] = None if change is None else tensors["words"] | change
    (there / "weights.index.json").write_text(json.dumps(index))
    summed_again(there, "weights.index.json")
    assert told in refused(home, there)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[]", "top level"),
        (b"{}", "required property"),
        (b"[" * 100_000, "values nested too deeply"),
        (b'{"jobs": ' + b"9" * 5000 + b"}", "a number of 5,000 digits"),
    ],
)
def test_a_manifest_that_is_none(home: Path, there: Path, content: bytes, told: str) -> None:
    (there / "manifest.json").write_bytes(content)
    assert told in refused(home, there)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["jobs"], []),
        (["jobs"], {"x": 1}),
        (["jobs", "*", "job"], {}),
        (["jobs", "*", "job", "call"], "pretrain"),
        (["jobs", "*", "job", "call", "program"], "rm"),
        (["jobs", "*", "job", "call", "options"], {}),
        (["jobs", "*", "job", "call", "options"], {"out": [], "made-of": ["["]}),
        (["jobs", "*", "job", "code"], None),
        (["bundle"], None),
        (["bundle", "bundle"], "../../../../escaped"),
        (["bundle", "scale"], "../demo"),
        (["bundle", "data"], {"/etc": {"/etc/passwd": "x"}}),
        (["bundle", "tables"], "all"),
        (["bundle", "files"], ["../x"]),
        (["bundle", "groups"], {"x": ["y"]}),
        (["parts", "results-01.tar.xz", "bytes"], "9"),
        (["parts"], {"../results-01.tar.xz": {"sha256": "0" * 64, "bytes": 1}}),
        (["members"], {}),
        (["checksum"], 5),
    ],
)
def test_a_manifest_of_another_form(home: Path, there: Path, path: list[str], value: object) -> None:
    def change(manifest: dict[str, Any]) -> None:
        for key in path[:-1]:
            manifest = manifest[next(iter(manifest)) if key == "*" else key]
        manifest[path[-1]] = value

    changed(there, change, again=path != ["checksum"])
    assert str(there) in refused(home, there)


def test_a_manifest_changed_by_chance(home: Path, there: Path) -> None:
    changed(there, lambda manifest: manifest["machine"].update(device="another"), again=False)
    assert "damaged: copy it again" in refused(home, there)


def test_words_for_snakemake_come_from_here(home: Path, there: Path) -> None:
    changed(there, lambda manifest: manifest["bundle"].update(config=["seeds=[1]", "--snakefile=/evil/Snakefile"]))
    assert "--config '--snakefile=/evil/Snakefile'; expected seeds=[…] alone" in refused(home, there)
    changed(there, lambda manifest: manifest["bundle"].update(config=["seeds=[1]", "mirror=/a", "mining_depth=7"]))
    assert "--config 'mining_depth=7'" in refused(home, there)
    assert len(unbundle(there, given=["mining_depth=7"]).jobs) == 2


def test_a_bomb_is_not_unpacked(home: Path, there: Path) -> None:
    """200 MB in some 30 kB; the manifest says so, and the limit holds."""
    name, size = f"{ENCODER}/config.json", 200_000_000
    (there / "results-01.tar.xz").unlink()
    with tarfile.open(there / "results-01.tar.xz", "w:xz", preset=1) as tar:
        info = tarfile.TarInfo(name)
        info.size = size
        with open("/dev/zero", "rb") as zeros:
            tar.addfile(info, zeros)
    entry = {name: {"sha256": "0" * 64, "bytes": size}}
    changed(there, lambda manifest: manifest["members"].update({"results-01.tar.xz": entry}))
    summed_again(there, "results-01.tar.xz")
    text = refused(home, there)
    assert "PRETRIEVE_SIZE_LIMIT" in text and "the limit is" in text


def test_a_full_disk_is_called_one(
    small_disk: Path, there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known before, by the sizes in the manifest, and also where they are not enough to know."""
    home = make_home(tmp_path / "home", two_jobs(), monkeypatch)
    shutil.rmtree(home / ROOT)
    (small_disk / "demo").mkdir()
    (home / ROOT).symlink_to(small_disk / "demo")
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    text = refused(home, there)
    assert (
        re.search(r"unbundle\.\d+\.part: no space left on the disk: it needs [\d,]+ bytes", text)
        and "Make room" in text
    )
    much = SimpleNamespace(disk_usage=lambda place: SimpleNamespace(free=1 << 40), rmtree=shutil.rmtree)
    monkeypatch.setattr("pretrieve.operations.bundle.arrived.shutil", much)
    text = refused(home, there)
    assert "no space left on the disk" in text and not list((small_disk / "demo").iterdir())
    assert "damaged" not in text.replace(str(tmp_path), "").replace(str(small_disk), "")
    (small_disk / "ballast").unlink()
    assert len(unbundle(there).jobs) == 2


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = {paths!r}
import pytest
from made_slices import make_home, two_jobs
from pretrieve.operations.bundle import unpack
make_home(Path({home!r}), two_jobs(), pytest.MonkeyPatch())
unpack._install = lambda *arguments: os.kill(os.getpid(), 9)
unpack.unbundle(Path({there!r}))
"""


def test_what_a_killed_call_left_goes_with_the_next(
    tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    paths = [str(PROJECT / "src"), str(Path(__file__).parent)]
    program = KILLED.format(paths=paths, home=str(home), there=str(there))
    assert subprocess.run([sys.executable, "-c", program], timeout=300).returncode == -signal.SIGKILL
    left = [path for path in (home / ROOT).iterdir() if path.name.startswith(".unbundle")]
    assert len(left) == 1 and list(left[0].rglob("*.json")), "it was killed with all of the slice unpacked"
    for folder in ("src", "docs"):
        shutil.rmtree(home / folder)
    (home / ROOT).rename(tmp_path / "kept")
    make_home(home, two_jobs(), monkeypatch)
    (home / ROOT).rmdir()
    (tmp_path / "kept").rename(home / ROOT)
    assert len(unbundle(there).jobs) == 2
    assert not [path for path in (home / ROOT).iterdir() if path.name.startswith(".")]


def test_models_are_noted_before_the_scoring_that_takes_long(
    home: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(unpack, "touch", lambda asked, files: done.append(files[0]))
    monkeypatch.setattr(unpack, "score", lambda call: done.append("scored"))
    unbundle(there)
    assert done == [f"{ENCODER}/config.json", "scored", RUN]


def test_a_bundle_that_was_damaged_on_its_way_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one whose manifest names a file outside of it: nothing runs."""
    monkeypatch.chdir(tmp_path)
    members = {"jobs.json": b"[]", f"{ROOT}/tasks/q/stats.json": b"{}"}
    for name, content in members.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    for sums, told in (
        (sums_of(members | {f"{ROOT}/tasks/q/stats.json": b"[]"}), "stats.json: 2 bytes, not those"),
        (sums_of(members | {"src/x.py": b""}), "src/x.py: missing"),
        ({"../../etc/passwd": {"sha256": "0" * 64, "bytes": 1}}, "would leave its folder"),
    ):
        Path("manifest.json").write_text(json.dumps({"members": sums}))
        with pytest.raises(DataError, match=told):
            run_slice(0.0, Path("out"), SimpleNamespace())
