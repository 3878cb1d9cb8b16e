"""The estimate's numbers: schedules against bounds and by hand, sizes from their three places, rates and their file.

Seen to fail when: a schedule with one GPU more is taken although it is slower; a job starts before what it needs; a job takes
one GPU where it asks for two; cores do not limit; an archive counts for each of its members; the counts of a finished task are
not looked at; threads divide what cannot be shared; a GPU's name is not checked.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.commands.estimate import machines_of
from pretrieve.finetuning.groups import steps_for
from pretrieve.models.config import BodyConfig
from pretrieve.operations.estimate import calibrate
from pretrieve.operations.estimate.jobs import Job
from pretrieve.operations.estimate.machines import (
    Rates,
    Timing,
    assumed_gpu,
    read_rates,
    speed_up,
    usable_cores,
    wall_seconds,
)
from pretrieve.operations.estimate.sizes import Sizes, count_lines, read_counts
from pretrieve.operations.estimate.work import Work, steps_of
from pretrieve.raw.sources import Source, read_sources
from pretrieve.workflow.config_files import read_config

ROOT = Path(__file__).resolve().parents[1]
RATES = Rates("a core", "cpu", "measured", 1e11, 5e10, 6e10, 8e10, 0.01, 1e-9, 1e-9, 0.5, 3.0, 1.0)


class Needs:
    """A graph of jobs by number; the jobs stand in an order in which each comes after what it needs."""

    def __init__(self, needs: dict[int, list[int]]) -> None:
        self.jobs = [Job("job", str(number)) for number in needs]
        self._needs = {self.jobs[number]: tuple(self.jobs[one] for one in ones) for number, ones in needs.items()}

    def needs(self, job: Job) -> tuple[Job, ...]:
        return self._needs[job]


def wall(needs: dict[int, list[int]], timings: list[Timing], gpus: int, cores: int = 1) -> float:
    graph = Needs(needs)
    return wall_seconds(graph.jobs, graph, dict(zip(graph.jobs, timings, strict=True)), gpus, cores)


def test_a_schedule_by_hand() -> None:
    """A core prepares for 2 s; then jobs of 4, 3 and 3 s on GPUs, and 1 s on a core behind the first of them."""
    needs = {0: [], 1: [0], 2: [0], 3: [0], 4: [1]}
    timings = [Timing(2), Timing(4, 1), Timing(3, 1), Timing(3, 1), Timing(1)]
    assert wall(needs, timings, 1) == 2 + 4 + 3 + 3
    assert wall(needs, timings, 2) == 2 + 6  # 4 + 1 on one, 3 + 3 on the other
    assert wall(needs, timings, 3) == 2 + 4 + 1


def test_a_job_on_two_gpus_waits_for_both() -> None:
    needs, timings = {0: [], 1: []}, [Timing(4, 2), Timing(1, 1)]
    assert wall(needs, timings, 1) == 5  # one GPU is all there is
    assert wall(needs, timings, 2) == pytest.approx(4 / speed_up(2) + 1)
    assert wall(needs, timings, 3) == pytest.approx(4 / speed_up(2))


def test_cores_limit_and_slow_down() -> None:
    assert wall({0: [], 1: [], 2: []}, [Timing(3)] * 3, 0, cores=2) == 6
    assert wall({0: []}, [Timing(3, 0, 4)], 0, cores=4) == 3
    assert wall({0: []}, [Timing(3, 0, 4)], 0, cores=1) == 12


def test_a_gpu_that_is_in_the_way_is_left_alone() -> None:
    """With four GPUs the last job starts at once, and a longer chain waits for it: 5.3 s, where three GPUs take 4.8."""
    needs = {0: [], 1: [0], 2: [0, 1], 3: []}
    timings = [Timing(2, 2), Timing(2, 3), Timing(3, 1), Timing(3, 2)]
    assert wall(needs, timings, 4) == wall(needs, timings, 3) == pytest.approx(4.767, abs=1e-3)


@st.composite
def graphs(draw) -> tuple[dict[int, list[int]], list[Timing]]:
    number = draw(st.integers(1, 12))
    needs = {i: draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else [] for i in range(number)}
    seconds = st.integers(1, 20).map(float)
    timing = st.builds(Timing, seconds, st.integers(0, 3))
    return needs, draw(st.lists(timing, min_size=number, max_size=number))


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_more_gpus_are_never_slower_and_no_schedule_beats_its_bounds(case) -> None:
    needs, timings = case
    walls = [wall(needs, timings, gpus, cores=2) for gpus in range(1, 6)]
    assert all(more <= fewer + 1e-9 for fewer, more in pairwise(walls))
    ends: list[float] = []
    for number, ones in needs.items():
        fastest = timings[number].seconds / speed_up(max(1, min(timings[number].gpus, 5)))
        ends.append(fastest + max((ends[one] for one in ones), default=0.0))
    on_cores = sum(timing.seconds for timing in timings if not timing.gpus)
    assert walls[-1] >= max(*ends, on_cores / 2) - 1e-9
    assert walls[0] <= sum(timing.seconds for timing in timings) + 1e-9


def test_seconds_by_hand() -> None:
    work = Work(train=1e11, encode=6e10, search=8e10, gathered=1e9, train_passes=10, encode_passes=3, updates=1e9)
    work = replace(work, cpu_s=2.0, shared_s=4.0, runs=2.0)
    parts = 2 + 1 + 1 + 1 + 0.1 + 0.01 + 1 + 2 + 4
    assert RATES.seconds(work) == pytest.approx(3.0 + 2 * 0.5 + parts)
    assert RATES.seconds(work, 4) == pytest.approx(3.0 + 2 * 0.5 + parts - 0.75 * (1 + 4))
    assert RATES.seconds(Work(cpu_s=2.0)) == 1.0 + 2.0  # nothing is trained: the light start


def test_rates_go_to_a_file_and_back(tmp_path: Path) -> None:
    RATES.write(tmp_path / "rates.json")
    assert read_rates(tmp_path / "rates.json") == RATES
    for values in ({**asdict(RATES), "train": 0}, {"train": 1.0}, {**asdict(RATES), "speed": 1}):
        (tmp_path / "bad.json").write_text(json.dumps(values))
        with pytest.raises(DataError, match=r"bad\.json: .* --measure FILE"):
            read_rates(tmp_path / "bad.json")
    with pytest.raises(DataError, match="missing or not known: speed; expected"):
        read_rates(tmp_path / "bad.json")
    with pytest.raises(DataError, match=r"none\.json"):
        read_rates(tmp_path / "none.json")


def test_a_gpu_that_nobody_measured() -> None:
    gpu = assumed_gpu("A100", RATES, 0.5)
    assert (gpu.train, gpu.origin, gpu.search) == (156e12, "assumed", RATES.search)
    with pytest.raises(ConfigError, match="gpu 'a10': allowed: .*; did you mean 'a100'"):
        assumed_gpu("a10", RATES)
    with pytest.raises(ConfigError, match=r"mfu 35"):
        assumed_gpu("a100", RATES, 35)
    assert assumed_gpu("a100", RATES, 1.0).encode == 312e12  # no more than the peak


@pytest.mark.parametrize(("gpus", "device", "why"), [(0, "cpu", "give --gpus N"), (2, "cuda", "leave one of them out")])
def test_a_kind_of_gpu_that_would_not_be_looked_at(tmp_path: Path, gpus: int, device: str, why: str) -> None:
    replace(RATES, device=device).write(tmp_path / "rates.json")
    given = SimpleNamespace(gpu="h100", gpus=gpus, gpus_per_job=8, cores=1, rates=[tmp_path / "rates.json"], mfu=0.35)
    with pytest.raises(ConfigError, match=f"--gpu h100: .*{why}"):
        machines_of(given, SimpleNamespace(config={}))
    given.gpu, given.mfu = None, 7.0
    with pytest.raises(ConfigError, match=f"--mfu 7.0: .*{why}"):
        machines_of(given, SimpleNamespace(config={}))


def test_a_container_has_no_more_cores_than_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    limit = tmp_path / "cpu.max"
    for text, cores in (("200000 100000", 2), ("50000 100000", 1), ("9999999 100000", 64), ("max 100000", 64)):
        limit.write_text(f"{text}\n")
        assert usable_cores(limit) == cores
    assert usable_cores(tmp_path / "none") == 64


def test_measuring_this_machine(monkeypatch) -> None:
    """A body of two layers: every rate is there, and matrix products alone are no slower than a whole training step."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(calibrate, "ENOUGH", 0.02)
    monkeypatch.setattr(calibrate, "PASS_FLOPS", {"cpu": 1e8, "cuda": 1e8})
    monkeypatch.setattr(calibrate, "SEARCH", (8, 10_000))
    threads = torch.get_num_threads()
    body = BodyConfig(vocabulary_size=500, hidden=32, layers=2, heads=2, feed_forward=64, max_positions=16)
    rates = calibrate.measure(body, 16)
    torch.set_num_threads(threads)
    numbers = [value for value in asdict(rates).values() if isinstance(value, float)]
    assert len(numbers) == 10 and all(value > 0 and math.isfinite(value) for value in numbers)
    assert rates.origin == "measured" and rates.train < rates.products
    assert rates.light_s < rates.start_s  # torch is imported for the second
    assert calibrate.mean([rates, replace(rates, train=3 * rates.train)]) == replace(rates, train=2 * rates.train)


@given(st.integers(1, 5000), st.integers(1, 300), st.integers(1, 500), st.floats(0.1, 20))
def test_steps_are_those_of_a_run(examples: int, batch: int, steps: int, epochs: float) -> None:
    options = {"batch": batch, "steps": steps, "epochs": epochs}
    assert steps_of(examples, options) == steps_for(examples, options)


def source(name: str, size: int, archive: str = "", file: str = "") -> Source:
    return Source(name, file or f"{name}.tsv", "", "", "first-use", size, "", "", archive)


SOURCES = {
    one.name: one
    for one in (
        source("zip", 1_000, file="all.zip"),
        source("docs", 0, "zip"),
        source("queries", 500, "zip"),
        source("plain", 50_000_000),
    )
}


def plan_of(**datasets: dict) -> SimpleNamespace:
    scale = {"corpus": "wiki"}
    config = {"datasets": datasets, "corpora": {"wiki": {"files": {"text": "plain"}}}}
    return SimpleNamespace(config=config, scale=scale, is_examples=lambda dataset: False)


def test_an_archive_is_downloaded_once() -> None:
    sizes = Sizes(plan_of(), SOURCES, {}, "nowhere")
    assert sizes.download(["docs", "queries"]) == 1_000
    assert sizes.download(["docs", "queries", "plain"]) == 50_001_000
    # On the disk: the archive, the member of known size, and a guess for the other.
    assert sizes.on_disk(["docs", "queries"]) == 1_000 + 500 + 3 * 1_000


def test_sizes_of_a_task_come_from_counts_then_from_its_files_then_from_bytes(tmp_path: Path) -> None:
    entry = {"reader": "beir", "files": {"corpus": "docs", "queries": "queries"}, "sizes": {"full": "all", "1k": 1000}}
    plan = plan_of(named=entry, added=entry, guessed={**entry, "files": {"corpus": "plain"}})
    (tmp_path / "counts.tsv").write_text(
        "# a comment\n"
        "name\tdocuments\tdocument_tokens\tqueries\tquery_tokens\ttrain\ttest\ttexts\tarticles\tsentences\tsource\n"
        "named\t900\t50\t100\t9\t70\t20\t\t\t\tcounted\n"
        "docs\t1000\t75\t\t\t\t\t\t\t\tthem\n"
        "queries\t\t\t5000\t8\t4000\t\t\t\t\tthem\n"
    )
    sizes = Sizes(plan, SOURCES, read_counts(tmp_path / "counts.tsv"), str(tmp_path))
    named, added, guessed = (sizes.task(name) for name in ("named", "added", "guessed"))
    assert (named.documents, named.train["full"], named.test["full"], named.origin) == (900, 63, 20, "listed")
    assert (added.documents, added.document_tokens, added.queries, added.query_tokens) == (1000, 75, 5000, 8)
    assert added.train == {"full": 3600.0, "1k": 900.0} and added.origin == "listed by file"
    assert guessed.documents == 50_000_000 / 5 / 100 and sizes.guessed == {"guessed"}
    folder = tmp_path / "tasks/named"
    folder.mkdir(parents=True)
    counted = {"candidates": 7, "doc_tokens": 3.5, "queries": 2, "query_tokens": 1.5, "splits": {"full": {"train": 1}}}
    (folder / "stats.json").write_text(json.dumps(counted))
    # A task that was counted before the configuration had the size 1k is no help.
    assert Sizes(plan, SOURCES, {}, str(tmp_path)).task("named").origin == "guessed from bytes"
    counted["splits"]["1k"] = {"train": 1}
    (folder / "stats.json").write_text(json.dumps(counted))
    fresh = Sizes(plan, SOURCES, {}, str(tmp_path))
    named = fresh.task("named")
    assert (named.documents, named.train, named.origin) == (7, {"full": 1, "1k": 1}, "counted")
    assert fresh.task("named").lengths.document == 5.5  # with [CLS] and [SEP]
    assert count_lines(fresh)[0].split("\t")[:6] == ["named", "7", "3.5", "2", "1.5", "1"]


@pytest.mark.parametrize(("line", "said"), [("a\tmany", "line 2: .*'many'"), ("a\t1\na\t2", "line 3: name 'a'")])
def test_a_damaged_list_of_counts_is_named(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "counts.tsv").write_text(f"name\tdocuments\n{line}\n")
    with pytest.raises(DataError, match=rf"counts\.tsv, {said}"):
        read_counts(tmp_path / "counts.tsv")


def test_every_line_of_the_list_is_a_name_of_the_project() -> None:
    """A data set, a corpus or a source: another name would never be looked up."""
    config = read_config(ROOT / "config.yaml")
    scales = config["scales"].values()
    known = set(read_sources(ROOT / "resources/sources.tsv"))
    for section in ("datasets", "corpora"):
        known |= set(config[section]).union(*(scale.get(section, {}) for scale in scales))
    assert set(read_counts(ROOT / "resources/counts.tsv")) <= known


def test_a_measured_rate_is_not_above_that_of_a_product() -> None:
    """Injected timings: of a busy machine, where the overhead comes out at nine tenths of the pass, or longer than it."""
    assert calibrate.rate(1e9, seconds=1.0, overhead=0.2, peak=1e12) == pytest.approx(1.25e9)
    assert calibrate.rate(1e9, seconds=1.0, overhead=0.2, peak=1.1e9) == 1.1e9
    for overhead in (0.9, 0.999999, 3.0):
        assert calibrate.rate(1e9, seconds=1.0, overhead=overhead, peak=1e12) == pytest.approx(2e9)
