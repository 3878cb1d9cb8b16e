"""From a slice's folder back into the workflow: ``make unbundle FILE=…``.

A result is taken only where Snakemake would make the same one: the workflow still asks for the call, with the same
arguments; the source files behind it are those of the bundle; so are the data that it was made from; and all
training-set sizes of its job are there, since Snakemake takes only whole jobs as done. Everything else is named, with
the reason, and left where it is.

Files are put in their places in the order of the jobs, so that none is older than what it was made from. Runs are
then scored by the project's evaluation. Last, ``snakemake --touch`` notes for each job the arguments and inputs that
it has now (https://snakemake.readthedocs.io/en/stable/executing/cli.html), so that a later change of either is seen.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.evaluation.task_scores import score_runs
from pretrieve.operations.bundle.archive import read_archive
from pretrieve.operations.bundle.contents import Asked, changed, code_of, remaining, snakemake
from pretrieve.operations.bundle.jobs import Call, Job, dependents
from pretrieve.operations.bundle.results import read_manifest, slices_in
from pretrieve.operations.bundle.weights import INDEX, unpack_weights, write_unpacked


@dataclass
class Taken:
    """Jobs whose results are in place now, and the others, each with the reason."""

    jobs: list[Job] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    files: int = 0


def unbundle(folder: Path, any_code: bool = False) -> Taken:
    """Take home the slices in ``folder`` (or the one that it is).

    any_code: take results of other source files, too; Snakemake then sees nothing of the difference.

    Raises
    ------
    DataError
        when there is no slice, slices of several bundles are mixed, or one is damaged.
    """
    folder = folder.parent if folder.is_file() else folder
    slices = slices_in(folder)
    if not slices:
        raise DataError(f"{folder}: no slice is there; expected slice-001/manifest.json, … as the runner writes them.")
    manifests = [read_manifest(path) for path in slices]
    if len(bundles := sorted({manifest["bundle"]["bundle"] for manifest in manifests})) > 1:
        raise DataError(f"{folder}: slices of the bundles {', '.join(bundles)}; take those of one bundle at a time.")
    about = manifests[0]["bundle"]
    asked = Asked(about["scale"], *(tuple(about[key]) for key in ("tables", "config", "files")))
    plan = asked.plan()
    jobs = [Job.from_json(entry["job"]) for manifest in manifests for entry in manifest["jobs"].values()]
    wanted = remaining(asked, asked.cells(plan))
    taken = choose(jobs, wanted, about, any_code)
    if not taken.jobs:
        return taken
    with tempfile.TemporaryDirectory(dir=".", prefix=".unbundle-") as place:
        for path in slices:
            for archive in sorted(path.glob("results-*.tar.xz")):
                read_archive(archive, Path(place))
            if (path / INDEX).is_file():
                for name, content in unpack_weights(path):
                    write_unpacked(_inside(Path(place), name), content)
        for job in taken.jobs:
            taken.files += _install(job, Path(place))
    for job in taken.jobs:
        if job.call.program == "retrieve":
            score(job.call)
    for path, manifest in zip(slices, manifests, strict=True):
        write_json(f"{plan.root}/bundles/{about['bundle']}-{path.name}.json", manifest)
    ends = [file for job in taken.jobs for file in outputs_of(job) if Path(file).is_file()]
    snakemake(
        asked,
        "--touch",
        "--force",
        "--no-hooks",
        "--cores",
        "1",
        "--quiet",
        "all",
        "\n".join(dict.fromkeys(ends)),
        quiet=True,
    )
    return taken


def choose(jobs: Sequence[Job], wanted: Sequence[Job], about: dict[str, Any], any_code: bool = False) -> Taken:
    """Which results are those that the workflow asks for now; ``about``: the bundle's manifest."""
    asked = {job.id for job in wanted}
    places = [place for place, files in about["data"].items() if changed(files)]
    stale = {job.id for job in dependents(places, jobs)}
    refused: dict[str, str] = {}
    for job in jobs:
        if job.id not in asked:
            there = all(Path(file).is_file() for file in outputs_of(job))
            refused[job.id] = "is done already" if there else "is not asked for with these arguments any more"
        elif job.id in stale:
            refused[job.id] = f"was made from other data than {', '.join(places)} now"
        elif not any_code and code_of(job.call) != job.code:
            refused[job.id] = "was made by other source files (see --any-code)"
    while True:
        here = {job.id for job in jobs if job.id not in refused}
        more = {}
        for job in jobs:
            missing = [one for one in about["groups"][job.group] if one not in here]
            if job.id in here and missing:
                more[job.id] = f"waits for {len(missing)} other training-set sizes of its job"
        lost = [place for job in wanted if job.id not in here for place in job.call.makes]
        for job in dependents(lost, [job for job in jobs if job.id in here]):
            more.setdefault(job.id, "was made from a result that is not taken")
        if not more:
            break
        refused |= more
    names = {job.id: job.name for job in jobs}
    return Taken([job for job in jobs if job.id not in refused], {names[one]: why for one, why in refused.items()})


def outputs_of(job: Job) -> list[str]:
    """The files of a job that Snakemake knows and that come home."""
    files = {"pretrain": ["config.json", "pretrieve.json", "cost.json"], "finetune": ["pretrieve.json", "cost.json"]}
    if job.call.program in files:
        return [f"{job.call.one('out')}/{name}" for name in files[job.call.program]]
    return [place for place in job.call.makes if place not in job.call.options.get("stores", ())]


def score(call: Call) -> None:
    """Score the run of a search, as the workflow's program does."""
    score_runs(
        Path(call.one("task")),
        [Path(call.one("runs"))],
        [call.one("sizes")],
        [Path(call.one("outputs"))],
        list(call.options["metrics"]),
        list(call.options.get("conventions", ())),
        [Path(file) for file in call.options.get("candidates", ())],
    )


def _inside(root: Path, name: str) -> Path:
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise DataError(f"{name!r} leaves the directory; take a slice that this project made.")
    return path


def _install(job: Job, unpacked: Path) -> int:
    """Move a job's files to their places, made now; returns how many."""
    count = 0
    for place in map(Path, job.call.makes):
        stem = place.name.partition(".")[0]
        files = (
            sorted((unpacked / place).rglob("*"))
            if (unpacked / place).is_dir()
            else sorted((unpacked / place).parent.glob(f"{stem}.*") if (unpacked / place).parent.is_dir() else [])
        )
        for file in filter(Path.is_file, files):
            target = file.relative_to(unpacked)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, target)
            os.utime(target)
            count += 1
    return count


def report(taken: Taken) -> str:
    """What was taken and what was not, for people."""
    lines = [f"{len(taken.jobs)} results are in place ({taken.files} files), {len(taken.refused)} are not taken"]
    reasons: dict[str, list[str]] = {}
    for name, why in taken.refused.items():
        reasons.setdefault(why, []).append(name)
    for why, names in sorted(reasons.items()):
        lines.append(f"  {why}: {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}")
    return "\n".join(lines)
