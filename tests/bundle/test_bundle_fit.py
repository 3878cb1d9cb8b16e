"""What goes out of a bundle that is too large, and in which order.

Seen to fail when: the largest piece goes first, whatever needs it; data go before later seeds; a job stays whose data are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.operations.bundle.contents import data_places
from pretrieve.operations.bundle.jobs import Call, Job
from pretrieve.operations.bundle.pack import fit

ROOT = "results/demo"
STORE, LARGE, SMALL = f"{ROOT}/corpora/c/tokens", f"{ROOT}/tasks/large", f"{ROOT}/tasks/small"
#: The store is larger than any task, but all cells begin with it; of the tasks the larger one has more cells for its size.
BYTES = {STORE: 500, LARGE: 300, SMALL: 100}
CELLS = {LARGE: 40, SMALL: 2}


def job(program: str, **options: str) -> Job:
    call = Call(program, {name: words.split() for name, words in options.items()})
    return Job(call.key, call.key, call)


def jobs_of(*seeds: int) -> list[Job]:
    jobs = []
    for seed in seeds:
        encoder = f"{ROOT}/encoders/a/seed{seed}"
        jobs.append(job("pretrain", store=STORE, options="{}", out=encoder))
        for task in (LARGE, SMALL):
            name = f"a.r-full/{task.rpartition('/')[2]}/seed{seed}"
            retriever, store, scores = (f"{ROOT}/{kind}/{name}" for kind in ("retrievers", "embeddings", "metrics"))
            jobs.append(job("finetune", encoder=encoder, task=task, sizes="full", options="{}", out=retriever))
            made = {"stores": store, "runs": f"{ROOT}/runs/{name}.trec.gz", "outputs": f"{scores}.json"}
            jobs.append(job("retrieve", task=task, retrievers=retriever, sizes="full", **made))
    return jobs


def cells_of(jobs: Sequence[Job]) -> dict[str, int]:
    return {job.call.one("outputs"): CELLS[job.call.one("task")] for job in jobs if job.call.program == "retrieve"}


def measure(jobs: Sequence[Job]) -> dict[str, int]:
    """Each seed reads more of the store."""
    seeds = {made.rpartition("seed")[2][:1] for job in jobs for made in job.call.makes}
    return {place: BYTES[place] + (50 * len(seeds) if place == STORE else 0) for place in data_places(jobs)}


@pytest.mark.parametrize(
    ("room", "out", "kept"),
    [
        (1050, [], 15),
        (1000, ["seed 3"], 10),
        (950, ["seed 3", "seed 2"], 5),
        (949, ["seed 3", "seed 2", SMALL], 3),
    ],
)
def test_later_seeds_go_before_data_and_what_serves_few_cells_before_what_serves_many(
    room: int, out: list[str], kept: int
) -> None:
    jobs = jobs_of(1, 2, 3)
    found, left_out = fit(jobs, cells_of(jobs), measure, room)
    assert [entry["what"] for entry in left_out] == out and len(found) == kept
    assert sum(measure(found).values()) <= room
    gone = {entry["what"] for entry in left_out}
    assert not [one for one in found if gone & set(one.call.needs)]
    assert sum(entry["jobs"] for entry in left_out) == len(jobs) - kept
    if out:
        assert left_out[0]["bytes"] == 50 and left_out[0]["why"] == "it waits for the next bundle"


def test_nothing_fits() -> None:
    jobs = jobs_of(1)
    with pytest.raises(
        ConfigError, match=r"nothing fits into 0\.0 MiB: results/demo/corpora/c/tokens alone takes 0\.0"
    ):
        fit(jobs, cells_of(jobs), measure, 100)
