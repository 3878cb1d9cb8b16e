"""From a slice's folder back into the workflow: ``make unbundle FILE=…``.

A result is accepted only where Snakemake would make the same one: the workflow still needs the call, with the same arguments,
whose key is the job's id; code and data behind it are those of the bundle; the models that it was made from are not others, made
here meanwhile; and all training-set sizes of its job are there, since Snakemake takes only whole jobs as done. Everything else is
named, with the reason, and not placed.

Files are put in their places in the order of the jobs, so that none is older than what it was made from. Runs that came without
scores are then scored. Last, ``snakemake --touch`` notes for each job the arguments and inputs that it has now
(https://snakemake.readthedocs.io/en/stable/executing/cli.html), so that a later change of either is seen.
"""

import errno
import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of, unfinished, whole_file, write_json
from pretrieve.base.inside import inside
from pretrieve.base.paths import cost_beside
from pretrieve.operations.bundle.arrived import LARGEST, arrived, asked_by, unpack
from pretrieve.operations.bundle.contents import Asked, check_alone, code_of, data_files, remaining, touch
from pretrieve.operations.bundle.jobs import Job, dependents
from pretrieve.operations.bundle.programs import score
from pretrieve.operations.bundle.results import MANIFEST, is_of, slices_in
from pretrieve.raw.json_file import read_json


@dataclass
class Taken:
    """Jobs whose results are in place now, and the others, each with the reason."""

    jobs: list[Job] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    files: int = 0


def unbundle(folder: Path, any_code: bool = False, given: Sequence[str] = ()) -> Taken:
    """Take home the slices in ``folder`` (or the one that it is).

    any_code: accept results of other source files, too. given: words for ``--config`` that the bundle was made with.

    Raises DataError when there is no slice, slices of several bundles or runs of one are mixed, one is damaged or was changed,
    there is no room, or a run is at work here; ConfigError when the bundle was made with words that are not given. Nothing is in
    place then that was not before.
    """
    folder = folder.parent if folder.name == MANIFEST else folder
    slices = [folder] if (folder / MANIFEST).is_file() else slices_in(folder)
    if not slices:
        raise DataError(
            f"{folder}: no slice is there; expected a folder with slice-001/manifest.json, … as the runner writes them."
        )
    came = {path: arrived(path) for path in slices}
    _check_one_run(came)
    manifests = [manifest for manifest, _ in came.values()]
    if len(bundles := sorted({manifest["bundle"]["bundle"] for manifest in manifests})) > 1:
        raise DataError(f"{folder}: slices of the bundles {', '.join(bundles)}; take those of one bundle at a time.")
    about = manifests[0]["bundle"]
    asked = asked_by(about, given)
    plan = asked.plan()
    wanted = remaining(asked, asked.cells(plan))
    costs = _costs(plan.root, manifests)
    taken = choose([job for _, jobs in came.values() for job in jobs], wanted, about, costs, any_code)
    if not taken.jobs:
        return taken
    check_alone(plan.root)
    # Next to the results, so that they can be moved at once. What a killed call has left there is removed.
    place = unfinished(Path(plan.root) / "unbundle")
    try:
        place.mkdir(parents=True)
        for path, (manifest, jobs) in came.items():
            unpack(path, manifest, jobs, place)
        stay = {file for manifest in manifests for file in manifest.get("stay", ())}
        check_alone(plan.root)  # again: unpacking takes minutes
        unscored = [job for job in taken.jobs if not _is_scored(job, place, folder, stay)]
        for job in taken.jobs:
            taken.files += _install(job, place)
            for file in stay.intersection(job.call.makes):  # one that is here was made before
                Path(file).unlink(missing_ok=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for path, (manifest, _) in came.items():
        kept = inside(plan.root, f"bundles/{about['bundle']}-{path.name}.json", f"{folder}: slice")
        write_json(kept, manifest)
    # First what is whole: scoring takes long, and models of a call that is killed there would never be noted.
    _note(asked, [job for job in taken.jobs if job not in unscored])
    for job in unscored:
        score(job.call)
    _note(asked, unscored)
    return taken


def _check_one_run(came: Mapping[Path, tuple[Mapping[str, Any], Sequence[Job]]]) -> None:
    """Raise DataError where two slices have a job, unless one is a copy of the other: files of both would be mixed."""
    first: dict[str, tuple[Path, Any]] = {}
    for path, (manifest, jobs) in came.items():
        for job in jobs:
            made = manifest["jobs"][job.id]["made"]
            other, earlier = first.setdefault(job.id, (path, made))
            if made != earlier:
                raise DataError(
                    f"{path}: {job.name} is also in {other}, from another run; take home the slices of one run."
                )


def _note(asked: Asked, jobs: Iterable[Job]) -> None:
    if ends := [file for job in jobs for file in outputs_of(job) if Path(file).is_file()]:
        touch(asked, ends)


def _costs(root: str, manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Cost file → its sha256, of what these slices and earlier ones of their bundle brought. It tells one run from another, for
    it has the run's seconds."""
    kept = sorted(Path(root, "bundles").glob(f"{manifests[0]['bundle']['bundle']}-*.json"))
    every = [*(read_json(path, "the manifest of a slice", most=LARGEST) for path in kept), *manifests]
    members = [entry for manifest in every for own in manifest["members"].values() for entry in own.items()]
    return {name: sums["sha256"] for name, sums in members if name.endswith("cost.json")}


def choose(
    jobs: Sequence[Job],
    wanted: Sequence[Job],
    about: Mapping[str, Any],
    costs: Mapping[str, str],
    any_code: bool = False,
) -> Taken:
    """Which results are those that the workflow asks for now; ``about``: the bundle's manifest; costs: :func:`_costs`. Jobs are
    matched by their ids, and the workflow's own are used: no path comes from a slice."""
    own = {job.id: job for job in wanted}
    came = {job.id: job for job in jobs}
    here = [own.get(job.id, job) for job in came.values()]
    root = f"results/{about['scale']}"
    needed = {place for job in here if job.id in own for place in job.call.needs}
    to_come = {place for job in wanted for place in job.call.makes}
    places = [*_stale(needed, about["data"]), *_made_here(needed - about["data"].keys() - to_come, costs)]
    stale = {job.id for job in dependents(places, here)}
    refused: dict[str, str] = {}  # id of a job → why
    for job in here:
        if job.id not in own:
            there = all(_is_there(file, root) for file in outputs_of(job))
            refused[job.id] = "is done already" if there else "is not asked for with these arguments any more"
        elif job.id in stale:
            shown = (place if Path(place).exists() else f"{place} (not made here yet)" for place in places)
            refused[job.id] = f"was made from other data than {', '.join(shown)} now"
        elif not any_code and code_of(job.call) != came[job.id].code:
            refused[job.id] = "was made by other source files (see --any-code)"
    # The plan says which jobs are sizes of one; the bundle says which of them were not requested.
    packed = {one for ids in about["groups"].values() for one in ids}
    sizes = defaultdict[str, set[str]](set)
    for job in wanted:
        if job.id in packed:
            sizes[job.group].add(job.id)
    while more := _incomplete([job for job in here if job.id not in refused], wanted, sizes):
        refused |= more
    names = {job.id: job.name for job in here}
    return Taken([job for job in here if job.id not in refused], {names[one]: why for one, why in refused.items()})


def _incomplete(taken: Sequence[Job], wanted: Sequence[Job], sizes: Mapping[str, set[str]]) -> dict[str, str]:
    """Id → why, of the jobs that cannot be ``taken`` because others are not. sizes: job of the workflow (its ``group``) → ids of
    its training-set sizes."""
    ids = {job.id for job in taken}
    lost = [place for job in wanted if job.id not in ids for place in job.call.makes]
    found = {}
    for job in taken:
        if missing := sizes.get(job.group, set()) - ids:
            found[job.id] = f"waits for {len(missing)} other training-set sizes of its job"
    for job in dependents(lost, taken):
        found.setdefault(job.id, "was made from a result that is not taken")
    return found


def _stale(places: Iterable[str], data: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The places whose files differ from those that the bundle had."""
    stale = []
    for place in sorted(set(places) & set(data)):
        try:
            files = data_files(place, answers=True)
        except DataError:
            files = {}
        if any(name not in files or sha256_of(files[name]) != digest for name, digest in data[place].items()):
            stale.append(place)
    return stale


def _made_here(places: Iterable[str], costs: Mapping[str, str]) -> list[str]:
    """The places of models and negatives that are here and that no slice brought."""
    files = {place: f"{place}/cost.json" if Path(place).is_dir() else cost_beside(place) for place in sorted(places)}
    return [place for place, file in files.items() if Path(file).is_file() and sha256_of(file) != costs.get(file)]


def _is_there(file: str, root: str) -> bool:
    """Whether a slice's job has its result among those here; no other file is looked at."""
    try:
        return file.startswith(f"{root}/") and inside(root, file.removeprefix(f"{root}/"), "slice: result").is_file()
    except DataError:
        return False


def outputs_of(job: Job) -> list[str]:
    """The files of a job that Snakemake knows and that come home."""
    files = {"pretrain": ["config.json", "pretrieve.json", "cost.json"], "finetune": ["pretrieve.json", "cost.json"]}
    if job.call.program in files:
        return [f"{place}/{name}" for place in job.call.makes for name in files[job.call.program]]
    return [place for place in job.call.makes if place not in job.call.options.get("stores", ())]


def _is_scored(job: Job, unpacked: Path, folder: Path, stay: Collection[str]) -> bool:
    """Whether the scores of a job have come; if not, they can be made from its run, which has. Raises DataError when anything
    else is missing that Snakemake expects of the job, other than files that ``stay``."""
    search = job.call.options if job.call.program == "retrieve" else {}
    runs, scores = search.get("runs", ()), search.get("outputs", ())
    missing = {file for file in outputs_of(job) if not (unpacked / file).is_file()}
    made_here = () if missing & {*runs} else scores
    if lost := missing - {*stay, *made_here}:
        raise DataError(f"{folder}: {min(lost)} is missing, and {job.name} is among its jobs; copy all slices again.")
    return missing.isdisjoint(scores)


def _install(job: Job, unpacked: Path) -> int:
    """Move a job's files to their places, made now; returns how many. Of the model that was there nothing stays: weights that did
    not come would be taken for this one's."""
    count = 0
    for place in job.call.makes if job.call.program in ("pretrain", "finetune") else ():
        shutil.rmtree(place, ignore_errors=True)
    for file in sorted(unpacked.rglob("*")):
        target = file.relative_to(unpacked)
        if not file.is_file() or not is_of(str(target), job):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(file, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # A folder of results that is a link to another disk.
            with open(file, "rb") as content, whole_file(target) as stream:
                shutil.copyfileobj(content, stream, 1 << 20)
        os.utime(target)
        count += 1
    return count


def report(taken: Taken) -> str:
    """What was taken and what was not, for people."""
    first = f"{len(taken.jobs)} results are in place ({taken.files} files), {len(taken.refused)} are not taken"
    return "\n".join([first, *by_reason(taken.refused)])


def by_reason(refused: Mapping[str, str]) -> list[str]:
    """A line for each reason: the first names that it holds for."""
    lines = []
    for why in sorted({*refused.values()}):
        names = [name for name, reason in refused.items() if reason == why]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"  {why}: {', '.join(names[:3])}{more}")
    return lines
