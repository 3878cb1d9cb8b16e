"""A folder with an odd name, no home, a read-only results folder, a clock that jumps: it works, or says why it does not.

Seen to fail when: all dates in the future are made the same; disk and dates are not looked at before a run; caches stay where
they are; Java starts in the plain locale.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_places import NO_HOME, ODD
from miniature import Workflow, clone
from same_results import without_costs

from pretrieve.base.disk import check_all_writable, check_writable
from pretrieve.base.errors import DataError
from pretrieve.workflow.file_dates import ALLOWANCE, redate
from pretrieve.workflow.job_environment import cache_places

DAY = 86_400
TABLE = "tables/pretraining_tasks/table3.csv"


# ------------------------------------------------------------------------------------------------------- name and home


def test_a_run_in_a_folder_with_an_odd_name_and_without_a_home_is_whole(undisturbed: Workflow):
    assert undisturbed.folder.name == ODD
    rows = without_costs(undisturbed.files(TABLE)[TABLE])
    assert sum(row["status"] == "scale-differs" for row in rows) == 30
    assert (undisturbed.folder / "results/demo/report.html").is_file()
    printed = (undisturbed.folder / "printed.txt").read_text()
    assert "Traceback" not in printed and "temporary cache directory" not in printed
    assert "Nothing to be done" in undisturbed.plan().text


def test_caches_are_in_the_checkout_only_without_a_home(undisturbed: Workflow, tmp_path: Path):
    assert any((undisturbed.folder / ".snakemake/cache").iterdir())
    checkout = tmp_path / "check out"
    own = {"XDG_CACHE_HOME": f"{checkout}/.snakemake/cache", "XDG_CONFIG_HOME": f"{checkout}/.snakemake/config"}
    assert cache_places(checkout, {"HOME": NO_HOME}) == own
    assert cache_places(checkout, {"HOME": str(tmp_path)}) == {}
    given = {"HOME": NO_HOME, "XDG_CACHE_HOME": str(tmp_path)}
    assert list(cache_places(checkout, given)) == ["XDG_CONFIG_HOME"], "what somebody has set is kept"


# ---------------------------------------------------------------------------------------------------------- read-only


@pytest.fixture
def read_only(tmp_path: Path):
    """``read_only(folder)``: nobody, not even root, can write there any more; undone at the end."""
    if os.geteuid():
        pytest.skip("only root can mount a folder read-only")
    mounted: list[Path] = []

    def close(folder: Path) -> None:
        bound = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, text=True)
        if bound.returncode:
            pytest.skip(f"nothing can be mounted here: {bound.stderr.strip()}")
        mounted.append(folder)
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)

    yield close
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_read_only_results_folder_is_said_before_any_job(untouched: Workflow, fault_folders: Path, read_only):
    workflow = clone(untouched, fault_folders / "closed")
    (workflow.folder / "results").mkdir()
    read_only(workflow.folder / "results")
    ended = workflow.run("--cores", "1")
    assert ended.code != 0 and "Traceback" not in ended.text and "Finished jobid" not in ended.text, ended.text
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("DataError: ")]
    assert "results/demo: cannot be written: the file system is read-only" in line
    assert "let results be a link to a folder that is" in line
    assert "table3" in workflow.run("-n", "--cores", "1").text, "looking is allowed"
    assert not list((workflow.folder / ".snakemake/locks").iterdir()), "nothing is left to be unlocked"


def test_a_folder_without_room_or_permission_is_named(small_disk: Path):
    check_writable([small_disk / "results/demo"])
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    with pytest.raises(DataError, match=r"results/demo: no space left on the disk"):
        check_writable([small_disk / "results/demo"])


def said_to_somebody_else(ask) -> str:
    """What a call in a process of another user ends with: root may write everywhere."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
        try:
            os.chdir("/")
            ask()
        except DataError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    return said


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that others may come to; pytest's own are closed to them."""
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_another_users_folder_is_named(shared: Path):
    """Also one within a folder of one's own; seen to pass before, and Snakemake to end a job."""
    place = shared / "results"
    place.mkdir(mode=0o755)
    assert "results: cannot be written: permission denied" in said_to_somebody_else(lambda: check_writable([place]))
    place.chmod(0o777)
    (place / "tables/a").mkdir(parents=True, mode=0o755)
    assert said_to_somebody_else(lambda: check_writable([place])) == ""
    assert "results/tables: cannot be written" in said_to_somebody_else(lambda: check_all_writable(place))


@pytest.mark.parametrize("what", ["dangling", "a file", "below a link"])
def test_what_is_no_folder_is_named(tmp_path: Path, what: str):
    """Seen to pass before, for the folder above it can be written."""
    place = tmp_path / "data"
    if what == "a file":
        place.touch()
    else:
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(
        DataError, match="data: is not a folder" if what == "a file" else "data: is a link to .*/nowhere, which is not"
    ):
        check_writable([place / "demo" if what == "below a link" else place])


def test_a_mirror_that_is_no_folder_is_said_before_any_job(untouched: Workflow, fault_folders: Path):
    """Seen to be said by the first job that wanted a file of it, which can come after hours."""
    workflow = clone(untouched, fault_folders / "mirrorless")
    ended = workflow.run("--cores", "1", "--config", "mirror=/dev/null")
    assert ended.code != 0 and "Traceback" not in ended.text and "Finished jobid" not in ended.text, ended.text
    assert "ConfigError: config: mirror, --mirror or PRETRIEVE_MIRROR: /dev/null is no folder; expected" in ended.stderr


def test_a_dangling_data_folder_is_said_before_any_job(untouched: Workflow, fault_folders: Path):
    workflow = clone(untouched, fault_folders / "dangling")
    if (workflow.folder / "data").exists():
        shutil.rmtree(workflow.folder / "data")
    (workflow.folder / "data").symlink_to("nowhere")
    assert "data: is a link to nowhere, which is not there" in workflow.run("--cores", "1").stderr


# ------------------------------------------------------------------------------------------------- a clock that jumps


def date(path: Path, ahead: float) -> None:
    moment = time.time() + ahead
    os.utime(path, (moment, moment))


def test_a_clock_that_was_put_back_makes_nothing_again(undisturbed: Workflow, fault_folders: Path):
    """Half of a finished run is from tomorrow: what was trained from it looks old, and what is made of it now would be older."""
    workflow = clone(undisturbed, fault_folders / "tomorrow")
    root = workflow.folder / "results/demo"
    for number, path in enumerate(sorted((root / "corpora").rglob("*.*")) + sorted((root / "metrics").rglob("*.json"))):
        date(path, DAY + number)
    (root / TABLE).unlink()
    before = workflow.files("encoders/**/*.safetensors")

    ended = workflow.run("--cores", "1")

    assert ended.code == 0, ended.text
    assert "had a date in the future: the clock was put back" in ended.stderr
    assert ended.jobs == {"table": 1}, "the table that was missing, and its readers"
    assert workflow.files("encoders/**/*.safetensors") == before
    assert without_costs(workflow.files(TABLE)[TABLE]) == without_costs(undisturbed.files(TABLE)[TABLE])
    assert "Nothing to be done" in workflow.plan().text


def test_a_clock_that_is_put_back_during_a_run_leaves_it_a_success(undisturbed: Workflow, fault_folders: Path):
    workflow = clone(undisturbed, fault_folders / "put_back")
    (workflow.folder / "put_back.smk").write_text(f'include: "Snakefile"\n\n\nSTARTED += {DAY}\n')
    (workflow.folder / "results/demo" / TABLE).unlink()

    ended = workflow.run("--snakefile", "put_back.smk", "--cores", "1", f"results/demo/{TABLE}")

    assert ended.code == 0, ended.text
    assert "All is made, but its times cannot be told: see above." in ended.stderr


def test_a_file_that_is_moved_while_dates_are_looked_at_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``snakemake -n`` beside a run, whose files get their names when they are whole."""
    for name in (".whole.1.part", "tomorrow"):
        (tmp_path / name).touch()
        date(tmp_path / name, DAY)
    scandir = os.scandir

    def moved(folder):
        entries = list(scandir(folder))
        (tmp_path / ".whole.1.part").unlink()
        return entries

    monkeypatch.setattr(os, "scandir", moved)
    assert redate([tmp_path]) == [tmp_path / "tomorrow"]


def test_dates_in_the_future_keep_their_order(tmp_path: Path):
    names = ["old", "recent", "first", "second", "same as second", "third"]
    ahead = [-DAY, -60, DAY, DAY + 1, DAY + 1, 400 * DAY]
    now = time.time()
    (tmp_path / "a/b").mkdir(parents=True)
    paths = [tmp_path / ("a/b" if number % 2 else "a") / name for number, name in enumerate(names)]
    for path, seconds in zip(paths, ahead, strict=True):
        path.touch()
        os.utime(path, (now + seconds, now + seconds))
    kept = [path.stat().st_mtime_ns for path in paths[:2]]
    assert [path.name for path in redate([tmp_path, tmp_path / "none"])] == [
        "first",
        "second",
        "same as second",
        "third",
    ]
    dates = [path.stat().st_mtime_ns for path in paths]
    assert dates[:2] == kept
    assert dates[1] < dates[2] < dates[3] == dates[4] < dates[5] <= time.time_ns()
    assert redate([tmp_path]) == [], "once is enough"
    os.utime(paths[0], (time.time() + ALLOWANCE / 2,) * 2)
    assert redate([tmp_path]) == [], "another machine's clock may be a little ahead"
