"""What goes into a bundle when it is too large, and which results are taken home.

Seen to fail when: a job stays whose data are left out; the manifest says nothing of it; the checksums of the data are not
compared; a group counts as whole with one size of it; what was made from a refused result is taken; `hits@k` counts as scored
without answers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.base.files import sha256_of
from pretrieve.operations.bundle import contents, pack, unpack
from pretrieve.operations.bundle.archive import sums_of
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.bundle.jobs import Call, Job

ROOT = "results/demo"
STORE = f"{ROOT}/corpora/c/tokens"


def job(program: str, group: str, **options: str) -> Job:
    call = Call(program, {name.replace("_", "-"): words.split() for name, words in options.items()})
    return Job(call.key, group, call, code="same")


def chain(dataset: str) -> list[Job]:
    """An encoder, its retrievers on a data set in two sizes, and their scores."""
    encoder = f"{ROOT}/encoders/a/seed1"
    jobs = [job("pretrain", "p", store=STORE, options="{}", seed="1", out=encoder)]
    for size in ("1k", "full"):
        place = f"a.r-{size}/{dataset}/seed1"
        task = f"{ROOT}/tasks/{dataset}"
        out, store = f"{ROOT}/retrievers/{place}", f"{ROOT}/embeddings/{place}"
        jobs.append(job("finetune", f"f-{dataset}", encoder=encoder, task=task, options="{}", sizes=size, out=out))
        made = {"stores": store, "runs": f"{ROOT}/runs/{place}.trec.gz", "outputs": f"{ROOT}/metrics/{place}.json"}
        jobs.append(job("retrieve", f"r-{dataset}", task=task, retrievers=out, sizes=size, **made))
    return jobs


def scores_of(jobs: list[Job]) -> dict[str, int]:
    return {job.call.one("outputs"): 1 for job in jobs if job.call.program == "retrieve"}


def unpacked(bundle: Path, folder: Path) -> list[str]:
    """As the page says: with tar. Returns the names; the manifest has the checksum of each."""
    folder.mkdir()
    subprocess.run(["tar", "xJf", bundle, "-C", folder], check=True)
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    members = json.loads((folder / "manifest.json").read_text())["members"]
    assert sums_of({name: folder / name for name in names if name != "manifest.json"}) == members
    return names


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """A folder with data of known sizes that do not compress, and jobs on them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pack, "code_files", dict)
    monkeypatch.setattr(pack, "thin_stores", lambda jobs: {})  # the store here is none
    sizes = {
        f"{STORE}/tokens.bin": 40,
        f"{ROOT}/tasks/large/passages/tokens.bin": 300,
        f"{ROOT}/tasks/small/stats.json": 20,
    }
    for file, kilobytes in sizes.items():
        Path(file).parent.mkdir(parents=True)
        Path(file).write_bytes(os.urandom(kilobytes << 10))
    return list({one.id: one for dataset in ("large", "small") for one in chain(dataset)}.values())


def test_everything_fits(project: list[Job]) -> None:
    made = [pack.write_bundle(Asked("demo"), project, scores_of(project), Path(name), 1 << 20) for name in ("1", "2")]
    assert Path("1").read_bytes() == Path("2").read_bytes()
    assert len(made[0].jobs) == len(project) and made[0].left_out == [] and made[0].size == Path("1").stat().st_size


def test_the_largest_is_left_out_with_its_jobs(project: list[Job]) -> None:
    made = pack.write_bundle(Asked("demo"), project, scores_of(project), Path("out.tar.xz"), 100 << 10)
    assert [(entry["what"], entry["jobs"]) for entry in made.left_out] == [(f"{ROOT}/tasks/large", 4)]
    assert len(made.jobs) == 5 and made.size <= 100 << 10
    assert "left out: results/demo/tasks/large, about 0.3 MiB, with 4 jobs" in pack.report(made, Path("out.tar.xz"))
    names = unpacked(Path("out.tar.xz"), Path("there"))
    assert f"{ROOT}/tasks/small/stats.json" in names and not [name for name in names if "large" in name]
    manifest = json.loads(Path("there/manifest.json").read_text())
    assert manifest["left_out"] == made.left_out and len(json.loads(Path("there/jobs.json").read_text())) == 5
    assert list(manifest["data"]) == [STORE, f"{ROOT}/tasks/small"]


def test_a_copy_of_a_data_set_takes_no_room(project: list[Job]) -> None:
    """As a set and the same set re-ranked have; without the copy's room both fit."""
    shutil.copytree(f"{ROOT}/tasks/large", f"{ROOT}/tasks/again")
    jobs = list({one.id: one for one in [*project, *chain("again")]}.values())
    made = pack.write_bundle(Asked("demo"), jobs, scores_of(jobs), Path("out.tar.xz"), 400 << 10)
    assert made.left_out == [] and len(made.jobs) == len(jobs) and made.size <= 400 << 10
    names = unpacked(Path("out.tar.xz"), Path("there"))
    assert {f"{ROOT}/tasks/{name}/passages/tokens.bin" for name in ("large", "again")} <= set(names)


def test_nothing_fits(project: list[Job]) -> None:
    with pytest.raises(ConfigError, match=r"nothing fits into 0.0 MiB"):
        pack.write_bundle(Asked("demo"), project, scores_of(project), Path("out.tar.xz"), 10 << 10)
    assert not Path("out.tar.xz").exists()


def test_the_code_is_measured_as_it_is_packed(project: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal files take no room, and a limit that the code alone exceeds is said to be that."""
    Path("module.py").write_bytes(os.urandom(50 << 10))
    monkeypatch.setattr(pack, "code_files", lambda: dict.fromkeys(("a.py", "b.py", "c.py"), Path("module.py")))
    made = pack.write_bundle(Asked("demo"), project, scores_of(project), Path("out.tar.xz"), 150 << 10)
    assert len(made.jobs) == 5 and made.size <= 150 << 10
    with pytest.raises(ConfigError, match=r"the code alone takes 0\.05 MiB of 0\.02; raise --limit"):
        pack.write_bundle(Asked("demo"), project, scores_of(project), Path("none.tar.xz"), 20 << 10)
    assert not Path("none.tar.xz").exists()


@pytest.fixture
def about(project: list[Job], monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.setattr(unpack, "code_of", lambda call: "same")
    files = {place: contents.data_files(place) for place in contents.data_places(project)}
    return json.loads(json.dumps(pack.manifest_of(Asked("demo"), project, files, [], ())))


def test_snakemake_has_caches_where_the_account_has_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``make tables`` runs there, so what is made of it has to be packed, taken home and published."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""}.items():
        monkeypatch.setenv(name, value)
    code = "import os; print(*(os.path.abspath(os.environ[f'XDG_{name}_HOME']) for name in ('CACHE', 'CONFIG')))"
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda words, **more: run([words[0], "-c", code], **more))
    places = contents.snakemake(Asked("demo"), [], [], quiet=True).split()
    assert places == [f"{tmp_path}/.snakemake/{name}" for name in ("cache", "config")]


def test_runs_that_come_back_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a table of case studies, and, unless answers are packed, those that are scored by answers."""
    monkeypatch.chdir(tmp_path)
    runs = {name: f"{ROOT}/runs/a.r-full/{name}/seed1.trec.gz" for name in ("plain", "case", "answers")}
    searches = []
    for name, run in runs.items():
        metrics = "hits@5 hits@20" if name == "answers" else "mrr@10"
        searches.append(job("retrieve", name, task=f"{ROOT}/tasks/{name}", runs=run, metrics=metrics))
    plan = SimpleNamespace(config={"tables": ["p/cases"]}, table_inputs=lambda *table: [runs["case"], *table])
    assert contents.needed_runs(Asked("demo"), plan, searches) == sorted([runs["case"], runs["answers"]])
    assert contents.needed_runs(Asked("demo"), plan, searches, answers=True) == [runs["case"]]
    assert contents.scored_by_answers(searches) == {f"{ROOT}/tasks/answers"}
    task = Path(f"{ROOT}/tasks/answers")
    task.mkdir(parents=True)
    for file in ("answers.parquet", "texts.parquet", "stats.json"):
        (task / file).touch()
    columns = {"doc_id": ["d"], "sentence_index": [0], "passage_index": [0], "text": ["the sea"]}
    pq.write_table(pa.table(columns), task / "corpus.parquet")
    assert not contents.data_files(str(task)).keys() & {str(task / "answers.parquet"), str(task / "texts.parquet")}
    assert str(task / "answers.parquet") in contents.data_files(str(task), answers=True)
    assert b"the sea" not in contents.content_of(task / "corpus.parquet")
    assert contents.content_of(task / "corpus.parquet", {str(task)}) == task / "corpus.parquet"


def test_all_is_taken(project: list[Job], about: dict) -> None:
    taken = unpack.choose(project, project, about, {})
    assert taken.jobs == project and taken.refused == {}


def test_what_came_of_other_data_is_not(project: list[Job], about: dict) -> None:
    Path(f"{ROOT}/tasks/large/passages/tokens.bin").write_bytes(b"other")
    taken = unpack.choose(project, project, about, {})
    assert len(taken.jobs) == 5 and not [one for one in taken.jobs if "large" in one.name]
    place = f"{ROOT}/tasks/large"
    assert set(taken.refused.values()) == {f"was made from other data than {place} now"}
    shutil.rmtree(place)  # another checkout
    refused = unpack.choose(project, project, about, {}).refused
    assert set(refused.values()) == {f"was made from other data than {place} (not made here yet) now"}


def test_an_unfinished_job_waits_with_what_comes_of_it(project: list[Job], about: dict) -> None:
    missing = next(one for one in project if one.call.program == "finetune" and "large" in one.name)
    here = [one for one in project if one is not missing]
    taken = unpack.choose(here, project, about, {})
    assert len(taken.jobs) == 5 and "waits for 1 other training-set sizes of its job" in taken.refused.values()
    assert "was made from a result that is not taken" in taken.refused.values()


def test_done_and_changed_ones_are_named(project: list[Job], about: dict) -> None:
    scores = next(one for one in project if one.call.program == "retrieve")
    for file in scores.call.makes:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    wanted = [one for one in project if one.call.program != "retrieve" or "small" in one.name]
    taken = unpack.choose(project, wanted, about, {})
    assert taken.refused[scores.name] == "is done already"
    assert "is not asked for with these arguments any more" in taken.refused.values()


def test_what_was_made_from_a_model_that_was_made_again_here_is_not_taken(project: list[Job], about: dict) -> None:
    """Slices may come one by one, so the model may be one that an earlier slice brought."""
    (encoder,) = {place for one in project if one.call.program == "pretrain" for place in one.call.makes}
    cost = Path(encoder, "cost.json")
    cost.parent.mkdir(parents=True)
    cost.write_text('{"wall_s": 1.5}')
    wanted = [one for one in project if one.call.program != "pretrain"]
    refused = unpack.choose(wanted, wanted, about, {}).refused
    assert {*refused} == {one.name for one in wanted}
    assert {*refused.values()} == {f"was made from other data than {encoder} now"}
    taken = unpack.choose(wanted, wanted, about, {str(cost): sha256_of(cost)})
    assert taken.jobs == wanted and taken.refused == {}
    assert unpack.choose(project, project, about, {}).jobs == project, "with the model, which is placed anew"


def test_results_of_other_code_need_a_word(project: list[Job], about: dict) -> None:
    other = [replace(one, code="other") for one in project]
    assert unpack.choose(other, project, about, {}).jobs == []
    assert len(unpack.choose(other, project, about, {}, any_code=True).jobs) == len(project)
