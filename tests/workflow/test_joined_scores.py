"""Scores kept in one folder and taken in another that has nothing yet: Snakemake has only tables left to make, and another
seed trains alone.

Seen to fail when: scores are kept that Snakemake would make again; what code a job has is no part of the comparison; data are
compared by their names alone; the files beside a run are not packed; the metrics files are not touched; systems of figures or
runs of case studies stay behind; a score of other code is kept as one of today's;
Snakemake is asked for all scores at once.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from miniature import Workflow, clone
from test_bundle_end_to_end import program
from tiny_science import ENCODERS, change_config

from pretrieve.base.code_folder import CODE
from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json, write_text
from pretrieve.operations import scores
from pretrieve.operations.bundle.archive import sums_of, write_archive
from pretrieve.operations.bundle.contents import Asked, remaining
from pretrieve.operations.bundle.jobs import Call, Job
from pretrieve.operations.publish.pages import SCORES
from pretrieve.operations.scores import (
    MANIFEST,
    apart,
    fingerprint,
    keep,
    origins,
    read_scores,
    records,
    scored,
    take,
    taken,
)
from pretrieve.reporting.tables.filling import read_lines
from pretrieve.reporting.tables.manifest import cpu_model

ROOT, TABLE = "results/demo", "results/demo/tables/pretraining_tasks/table3.csv"
ONE, BOTH = ("--config", "seeds=[1]"), ("--config", "seeds=[1,2]")


@pytest.fixture(scope="module")
def kept(finished: Workflow, folders: Path) -> Path:
    there = clone(finished, folders / "kept")
    printed = program(there, "keep-scores", "--scale", "demo", *ONE).stdout
    assert "4 scores" in printed
    return there.folder / ROOT / SCORES


@pytest.fixture(scope="module")
def joined(kept: Path, unstarted: Workflow, folders: Path) -> Workflow:
    here = clone(unstarted, folders / "joined")
    printed = program(here, "take-scores", "--file", str(kept)).stdout
    assert "4 scores are in place, 0 are not taken" in printed
    return here


def changed(kept: Path, place: Path, change) -> Path:
    """The archive with another manifest or other members."""
    target = place / "changed.tar.xz"
    write_archive(target, change(read_scores(kept)))
    return target


def test_only_tables_are_left(joined: Workflow, kept: Path) -> None:
    jobs = joined.plan(*ONE).jobs
    assert set(jobs) == {"bm25_questions", "pair_statistics", "table"}
    assert not [name for name in read_scores(kept) if not name.endswith((".json", ".csv"))]


def test_figures_have_their_systems_and_case_studies_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CODE)
    asked = Asked("demo", config=("seeds=[7]",))
    of_tables, of_all = asked.trained(asked.plan()), scored(asked, asked.plan())
    only_drawn = {file.split("/")[3] for file in of_all.difference(of_tables)}
    assert "seed-1-8.seed-pairwise-full" in only_drawn and not any(name.startswith("bm25.") for name in only_drawn)
    named = Asked("demo", tables=("seed_encoder/table5",), config=asked.config)
    assert scored(named, named.plan()) == set(named.trained(named.plan()))


def test_what_mines_negatives_is_not_asked_for_beside_what_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the negatives, which are not kept, Snakemake would make it again."""
    monkeypatch.chdir(CODE)
    asked = Asked("demo", ("condenser/table6",), config=("seeds=[7]",))
    files = scored(asked, asked.plan())
    lists = apart(files, remaining(asked, files, again=True))
    assert sorted(file for some in lists for file in some) == sorted(files)
    pair = {f"{ROOT}/metrics/bert.{name}-full/questions/seed7.json" for name in ("dpr-bm25", "dpr-hard")}
    assert pair <= files and not any(pair <= set(some) for some in lists)


def test_a_run_is_packed_where_it_is_read() -> None:
    runs = ("runs/a/questions/seed1.trec.gz", "runs/b/questions/seed1.trec.gz")
    job = Job("id", "group", Call("retrieve", {"runs": runs}))
    assert [run in records("m.json", [job], runs[:1]) for run in runs] == [True, False]


def test_a_change_afterwards_is_seen(joined: Workflow, folders: Path) -> None:
    other = clone(joined, folders / "joined_changed")
    change_config(other.folder, "scales", "demo", "finetuning", "reqa", "learning_rate", to=0.01)
    assert other.plan(*ONE).count("finetune") == len(ENCODERS)


def test_another_seed_trains_alone_and_joins(joined: Workflow, finished: Workflow, folders: Path) -> None:
    here = clone(joined, folders / "joined_seeds")
    alone, both = (here.plan(*words) for words in (("--config", "seeds=[2]"), BOTH))
    for stage in ("pretrain", "finetune"):
        assert both.count(stage) == alone.count(stage) > 0
    ended = here.run("--cores", "2", TABLE, *BOTH)
    assert ended.code == 0, ended.text
    lines = [line for line in read_lines(here.folder / TABLE) if line.n_seeds == "2"]
    assert len(lines) >= 4
    of_one = {(line.row, line.column): line.measured for line in read_lines(finished.folder / TABLE)}
    assert any(of_one[line.row, line.column] != line.measured for line in lines)
    cost = {line.wall_s for line in lines}
    assert "" not in cost
    program(here, "keep-scores", "--scale", "demo", *BOTH)
    assert len(json.loads(read_scores(here.folder / ROOT / SCORES)[MANIFEST])["scores"]) == 8


def test_what_would_not_be_made_here_is_refused(
    kept: Path, unstarted: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = clone(unstarted, tmp_path / "other")
    monkeypatch.chdir(other.folder)

    def of(name: str, value: str, **second: str):
        def change(members: dict[str, bytes]) -> dict[str, bytes]:
            manifest = json.loads(members[MANIFEST])
            for number, entry in enumerate(manifest["scores"].values()):
                entry |= {name: value} if number == 0 else second if number == 1 else {}
            return members | {MANIFEST: json.dumps(manifest).encode()}

        return changed(kept, tmp_path, change)

    def other_data(members: dict[str, bytes]) -> dict[str, bytes]:
        manifest = json.loads(members[MANIFEST])
        (task,) = [files for place, files in manifest["data"].items() if place.endswith("/tasks/questions")]
        task[sorted(task)[0]] = "0" * 64
        return members | {MANIFEST: json.dumps(manifest).encode()}

    def reasons(path: Path) -> list[str]:
        printed = program(other, "take-scores", "--file", str(path)).stdout
        return [line.strip().partition(":")[0] for line in printed.splitlines() if line.startswith("  ")]

    assert reasons(changed(kept, tmp_path, other_data)) == [
        "was made from other data than results/demo/tasks/questions now"
    ]
    assert not list((other.folder / ROOT).glob("metrics/*.*-*/*/seed1.json"))
    assert reasons(of("arguments", "0" * 24)) == ["was made with other arguments than the configuration's"]
    assert reasons(of("code", "0" * 24, sha256="0" * 64)) == [
        "is there already",
        "is there already, with other contents",
        "was made by other code (see --any-code)",
    ]
    assert len(list((other.folder / ROOT).glob("metrics/*.*-*/*/seed1.json"))) == 3
    of_other_code = of("code", "0" * 24)
    program(other, "take-scores", "--file", str(of_other_code), "--any-code")
    again = tmp_path / "again.tar.xz"
    program(other, "keep-scores", "--scale", "demo", "--out", str(again), *ONE)
    kept_again, before = (json.loads(read_scores(path)[MANIFEST])["scores"] for path in (again, of_other_code))
    assert kept_again == before  # with the code that made them


def test_a_damaged_archive_is_named(kept: Path, tmp_path: Path, unstarted: Workflow, monkeypatch) -> None:
    monkeypatch.chdir(unstarted.folder)
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(kept.read_bytes()[:-100])
    with pytest.raises(DataError, match="cut.tar.xz: not a whole xz file"):
        take(cut)
    with pytest.raises(DataError, match="no such file"):
        take(tmp_path / "none.tar.xz")
    evil = {"scale": "demo", "scores": {"../evil": {}}, "data": {}}
    write_archive(cut, {MANIFEST: json.dumps(evil).encode()})
    with pytest.raises(DataError, match="scores.json: scores: .*evil"):
        take(cut)
    with pytest.raises(DataError, match="scores.json"):
        take(changed(kept, tmp_path, lambda members: {"results/demo/a.json": b"{}"}))


def test_what_a_slice_brought_is_of_the_machine_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files, jobs = [f"{ROOT}/metrics/a.b-full/questions/seed{seed}.json" for seed in (1, 2)], []
    for file in files:
        run = file.replace("metrics", "runs").replace(".json", ".trec.gz")
        jobs.append(Job(file, "group", Call("retrieve", {"runs": [run], "outputs": [file]})))
        write_text(run, file)
        write_json(file, {"metrics": {}})
    (first, second) = (job.call.one("runs") for job in jobs)
    members = {"results-01.tar.xz": sums_of({first: files[0].encode(), second: b"made again here since"})}
    write_json(f"{ROOT}/bundles/0-slice-001.json", {"machine": {"device": "NVIDIA H200"}, "members": members})
    monkeypatch.setattr(Asked, "plan", lambda asked: SimpleNamespace(root=ROOT))
    monkeypatch.setattr(scores, "remaining", lambda asked, some, again=False: jobs if again else [])
    for name, value in {"scored": files, "needed_runs": [], "data_places": []}.items():
        monkeypatch.setattr(scores, name, lambda *_, value=value, **more: value)
    assert keep(Asked("demo"), tmp_path / SCORES) == 2
    kept = json.loads(read_scores(tmp_path / SCORES)[MANIFEST])["scores"]
    assert [kept[file]["cpu"] for file in files] == ["NVIDIA H200", cpu_model()]
    kept[files[0]]["commit"], kept[files[1]]["commit"] = None, "1" * 40
    write_archive(tmp_path / SCORES, {MANIFEST: json.dumps({"scores": kept}).encode()})
    assert origins(tmp_path / SCORES) == [f"seed 2: `1111111`, {cpu_model()}", "seed 1: `no commit`, NVIDIA H200"]


def test_nothing_is_placed_beside_a_run_and_who_made_it_is_noted_first(tmp_path: Path, monkeypatch) -> None:
    """A call that is killed between the two would leave scores that count as made here."""
    monkeypatch.chdir(tmp_path)
    file, plan = f"{ROOT}/metrics/a.b-full/questions/seed1.json", SimpleNamespace(root=ROOT)
    job = Job("id", "group", Call("retrieve", {"outputs": [file]}))
    entry = fingerprint([job]) | {"sha256": sha256(b"{}").hexdigest(), "commit": None, "cpu": "another"}
    manifest = {"scale": "demo", "scores": {file: entry}, "data": {}}
    write_archive(tmp_path / "cut.tar.xz", {MANIFEST: json.dumps(manifest).encode(), file: b"{"})
    write_archive(tmp_path / SCORES, {MANIFEST: json.dumps(manifest).encode(), file: b"{}"})
    monkeypatch.setattr(Asked, "plan", lambda asked: plan)
    for name, value in {"scored": {file}, "remaining": [job], "build": None, "needed_runs": []}.items():
        monkeypatch.setattr(scores, name, lambda *_, value=value, **more: value)
    with pytest.raises(DataError, match=f"{file} is missing or is not what scores.json says"):
        take(tmp_path / "cut.tar.xz")
    assert not Path("results").exists()
    lock = tmp_path / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"{file}\n")
    with pytest.raises(DataError, match="a run is at work on results/demo"):
        take(tmp_path / SCORES)
    assert not Path("results").exists()
    lock.unlink()

    def killed(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr(scores, "whole_file", killed)
    with pytest.raises(KeyboardInterrupt, match=file):
        take(tmp_path / SCORES)
    assert taken(Path(ROOT)) == {(file, entry["sha256"]): {name: entry[name] for name in ("code", "commit", "cpu")}}


def test_of_a_table_of_counts_nothing_is_kept(finished: Workflow, tmp_path: Path) -> None:
    """And publishing goes on; what another call kept does not stay where it would be published, but stays elsewhere."""
    there = clone(finished, tmp_path / "counts")
    old, own = there.folder / ROOT / SCORES, tmp_path / SCORES
    for file, words in ((old, []), (own, ["--out", str(own)])):
        file.write_bytes(b"old")
        asked = ("--scale", "demo", "--tables", "pretraining_tasks/table1", *words)
        assert "nothing is kept" in program(there, "keep-scores", *asked).stdout
    assert own.read_bytes() == b"old" and not old.exists()


def test_what_was_kept_stays_where_nothing_that_is_asked_for_is_there(tmp_path: Path) -> None:
    (old := tmp_path / SCORES).write_bytes(b"old")
    with pytest.raises(DataError, match=r"metrics/.*/seed987.json: no such file, nor the other .* of seeds 987; "):
        keep(Asked("demo", ("pretraining_tasks/table3",), ("seeds=[987]",)), old)
    assert old.read_bytes() == b"old"


def test_scores_of_a_former_configuration_are_not_kept_as_those_of_todays(finished: Workflow, tmp_path: Path) -> None:
    there = clone(finished, tmp_path / "former")
    change_config(there.folder, "scales", "demo", "finetuning", "reqa", "learning_rate", to=0.01)
    done = program(there, "keep-scores", "--scale", "demo", *ONE)
    assert "nothing is kept" in done.stdout and "4 scores are not up to date" in done.stderr


def test_no_torch_is_loaded_to_keep_and_take(program) -> None:
    """It takes three quarters of a call."""
    commands = ", ".join(f"pretrieve.commands.{name}" for name in ("keep_scores", "take_scores", "unbundle"))
    loaded = program("-c", f"import {commands}, sys; print('torch' in sys.modules, 'tokenizers' in sys.modules)")
    assert loaded.stdout == "False False\n", loaded.stderr


def test_where_they_were_made_is_said(kept: Path) -> None:
    (line,) = origins(kept)
    assert line.startswith("seed 1: `") and len(line) > 20
