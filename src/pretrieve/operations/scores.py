"""Scores of finished systems, kept to be joined with other seeds elsewhere, and put in their places there:
``pretrieve keep-scores`` and ``take-scores``.

What is kept is a tar.xz of the metrics files of tables and figures, which have the score of every query, of the small files
that are read beside them, of the runs that a table shows texts of, and of ``scores.json``:

* ``scale``
* ``scores``: metrics file → ``arguments`` and ``code`` (:func:`fingerprint`), ``sha256``, and the ``commit`` whose
  code makes it and the ``cpu`` that made it (the device, where a slice brought the run)
* ``data``: place → file → SHA-256 of what the jobs read

A score is taken only where the same would be made here: calls (:attr:`pretrieve.operations.bundle.jobs.Call.key`), code and data
behind it are those of this checkout and configuration. Which paths are written follows from the plan here; of the archive come
contents alone.
"""

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import code_file, package_file, version_of
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of, whole_file, write_json
from pretrieve.operations.bundle.archive import write_archive
from pretrieve.operations.bundle.arrived import check_form
from pretrieve.operations.bundle.contents import (
    Asked,
    build,
    check_alone,
    data_files,
    data_places,
    needed_runs,
    parts_of_mean,
    remaining,
    touch,
)
from pretrieve.operations.bundle.jobs import Job, behind, makers
from pretrieve.operations.bundle.results import beside
from pretrieve.operations.bundle.unpack import by_reason
from pretrieve.raw.archives import damage_told, tar_members
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_bytes import open_xz
from pretrieve.reporting.tables.manifest import cpu_model
from pretrieve.workflow.figure_inputs import figure_inputs
from pretrieve.workflow.plan import Plan

MANIFEST = "scores.json"
SCHEMA = package_file("schemas/scores.schema.yaml")
#: Metrics file → the jobs that make it, its own last.
Chains = Mapping[str, Sequence[Job]]


def scored(asked: Asked, plan: Plan) -> set[str]:
    """The metrics files of trained systems that the tables need, and the figures unless tables are named."""
    files = set(asked.trained(plan))
    for figure in () if asked.tables else plan.config.get("figures", ()):
        read = (file for file in figure_inputs(plan, figure) if "/metrics/" in file and "/metrics/bm25." not in file)
        files |= {part for file in read for part in parts_of_mean(file, plan)}
    return files


def chains(files: Iterable[str], jobs: Iterable[Job]) -> Chains:
    """Of metrics files; jobs: those that make them and all that are behind them, with others or without."""
    made_by = makers(jobs)
    return {file: behind(made_by[file], made_by) for file in sorted(files)}


def apart(files: Iterable[str], jobs: Sequence[Job]) -> list[list[str]]:
    """The files in lists: within a list, no file is made from what another one's job of the workflow makes.

    Asked for two such files together, Snakemake runs the first job again if what it made for the second, such as negatives,
    is not there. jobs: those that make the files, and all that are behind them.
    """
    made_by, needs = makers(jobs), defaultdict[str, set[str]](set)
    for job in jobs:
        needs[job.group] |= {made_by[place].group for place in job.call.needs if place in made_by} - {job.group}

    @cache
    def depth(group: str) -> int:
        return 1 + max(map(depth, needs[group]), default=0)

    lists = defaultdict[int, list[str]](list)
    for file in files:
        lists[depth(made_by[file].group)].append(file)
    return list(lists.values())


def fingerprint(jobs: Sequence[Job]) -> dict[str, str]:
    """What must be equal for two scores to be the same: ``arguments`` and ``code`` of all jobs, a hash each."""
    parts = {"arguments": [job.id for job in jobs], "code": [job.code for job in jobs]}
    return {name: hashlib.sha256(json.dumps(sorted(words)).encode()).hexdigest()[:24] for name, words in parts.items()}


def records(file: str, jobs: Sequence[Job], runs: Iterable[str]) -> list[str]:
    """A metrics file, those of ``runs`` that its jobs make, and files that may stand beside what they make and say how: costs,
    learning curves, what a search lost."""
    found = dict.fromkeys([file, *(run for job in jobs for run in job.call.options.get("runs", ()) if run in runs)])
    for place in (place for job in jobs for place in job.call.makes):
        if place.endswith(".gz"):
            found |= dict.fromkeys(map(str, beside(Path(place))))
        elif not place.endswith(".json"):
            found |= dict.fromkeys(f"{place}/{name}" for name in ("cost.json", "pretrieve.json", "curve.csv"))
    return list(found)


def data_hashes(places: Iterable[str]) -> dict[str, dict[str, str]]:
    """Place → file → SHA-256, of what jobs read; what it cost is no part of it. Raises DataError when there is nothing at a
    place."""
    return {
        place: {name: sha256_of(file) for name, file in data_files(place).items() if not name.endswith("cost.json")}
        for place in places
    }


def keep(asked: Asked, out: Path) -> int:
    """Write the scores of ``asked`` that are there to ``out``; returns how many. Without any, as of a table of counts,
    ``out`` is not written. Those that Snakemake would make again are left out, and said.

    Raises DataError when all of them are missing, as with a seed that was never run.
    """
    plan = asked.plan()
    wanted = sorted(scored(asked, plan))
    there = [file for file in wanted if Path(file).is_file()]
    if wanted and not there:
        raise DataError(
            f"{wanted[0]}: no such file, nor the other {len(wanted) - 1} scores of seeds {', '.join(map(str, plan.seeds))}; "
            "expected at least one. Name the run's own seeds and tables, or run snakemake first."
        )
    jobs = remaining(asked, there, again=True) if there else []
    stale = {place for some in apart(there, jobs) for job in remaining(asked, some) for place in job.call.makes}
    files = [file for file in there if file not in stale]
    if old := sorted(stale.intersection(there)):
        print(
            f"{len(old)} scores are not up to date, such as {old[0]}: not kept; run snakemake first.", file=sys.stderr
        )
    if not files:
        return 0
    found = chains(files, jobs)
    commit, cpu = version_of(code_file()).commit, cpu_model()
    elsewhere, devices = taken(Path(plan.root)), brought(Path(plan.root))
    scores = {}
    for file, chain in found.items():
        digest = sha256_of(Path(file))
        here = {"commit": commit, "cpu": _maker(chain[-1], devices, cpu)}
        scores[file] = fingerprint(chain) | {"sha256": digest} | elsewhere.get((file, digest), here)
    needed = [job for chain in found.values() for job in chain]
    manifest = {"scale": asked.scale, "scores": scores, "data": data_hashes(data_places(needed))}
    runs = needed_runs(asked, plan, needed, answers=True)
    names = {name for file, some in found.items() for name in records(file, some, runs)}
    members = {name: Path(name) for name in sorted(names) if Path(name).is_file()}
    write_archive(out, members | {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode()})
    return len(scores)


def read_scores(path: Path) -> dict[str, bytes]:
    """Name → content of the plain files of an archive. Raises DataError when there is none, or it is damaged."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected an archive that keep-scores wrote.")
    with damage_told(path):
        return {info.name: content.read() for info, content in tar_members(path, open_xz) if content is not None}


def seed_of(file: str) -> int:
    """Of a metrics file."""
    return int(Path(file).stem.removeprefix("seed"))


def taken(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Metrics file and its SHA-256 → code, commit and processor, of the scores that came from elsewhere (:func:`take`)."""
    return {
        (file, entry["sha256"]): {name: entry[name] for name in ("code", "commit", "cpu")}
        for record in sorted((root / "taken").glob("*.json"))
        for file, entry in read_json(record, "a record of scores from elsewhere").items()
    }


def brought(root: Path) -> dict[tuple[str, str], str]:
    """File and its SHA-256 → the device of the machine that made it, of what slices brought (:mod:`.bundle.unpack`)."""
    manifests = [read_json(record, "the manifest of a slice") for record in sorted((root / "bundles").glob("*.json"))]
    return {
        (file, entry["sha256"]): str(manifest["machine"].get("device", "unknown"))[:300]
        for manifest in manifests
        for members in manifest["members"].values()
        for file, entry in members.items()
    }


def _maker(job: Job, devices: Mapping[tuple[str, str], str], cpu: str) -> str:
    """What made a job's files: the device of a slice that brought one of them (:func:`brought`), or else this ``cpu``."""
    made = (place for place in job.call.makes if devices and Path(place).is_file())
    return next((devices[key] for place in made if (key := (place, sha256_of(Path(place)))) in devices), cpu)


def made_elsewhere(path: Path, root: Path) -> set[str]:
    """The metrics files that another processor than this one has made: of an archive, if there is one, or taken to ``root``."""
    own = cpu_model()
    there = _manifest(path, read_scores(path))["scores"] if path.is_file() else {}
    files = {file for file, entry in there.items() if entry["cpu"] != own}
    came = {made for made, entry in taken(root).items() if entry["cpu"] != own}
    return files | {file for file, digest in came if Path(file).is_file() and sha256_of(Path(file)) == digest}


def origins(path: Path) -> list[str]:
    """A line for each commit and processor that an archive's scores were made with: their seeds."""
    scores = json.loads(read_scores(path)[MANIFEST])["scores"]
    seeds: dict[tuple[str, str], set[int]] = {}
    for file, entry in scores.items():
        seeds.setdefault(((entry["commit"] or "")[:7] or "no commit", entry["cpu"]), set()).add(seed_of(file))
    return [
        f"seed{'s' * (len(found) > 1)} {', '.join(map(str, sorted(found)))}: `{commit}`, {cpu}"
        for (commit, cpu), found in sorted(seeds.items(), key=str)
    ]


def take(
    path: Path, words: Sequence[str] = (), any_code: bool = False, cores: int = 1
) -> tuple[list[str], dict[str, str]]:
    """Take what is missing here of an archive of :func:`keep`; returns the metrics files that are in place now, and the others,
    each with the reason.

    words: for Snakemake's ``--config``, without seeds. any_code: also scores that other code made.

    Raises DataError when the archive is none, or damaged; nothing is in place then that was not before.
    """
    contents = read_scores(path)
    manifest = _manifest(path, contents)
    kept = manifest["scores"]
    seeds = sorted({seed_of(file) for file in kept})
    asked = Asked(manifest["scale"], config=(f"seeds={seeds}", *words))
    plan = asked.plan()
    known, refused = scored(asked, plan), {}
    for file in kept:
        if file not in known:
            refused[file] = "no table or figure of this configuration asks for it"
        elif Path(file).is_file():
            same = sha256_of(Path(file)) == kept[file]["sha256"]
            refused[file] = "is there already" + ("" if same else ", with other contents")
    if not (wanted := [file for file in kept if file not in refused]):
        return [], refused
    found = chains(wanted, remaining(asked, wanted, again=True))
    jobs = [job for chain in found.values() for job in chain]
    places = data_places(jobs)
    check_alone(plan.root)
    build(asked, plan, places, cores)
    here = data_hashes(places)
    stale = [place for place in places if here[place] != manifest["data"].get(place)]
    refused |= _refused(found, kept, stale, any_code)
    files = [file for file in wanted if file not in refused]
    runs = needed_runs(asked, plan, jobs, answers=True)
    for file in files:
        if hashlib.sha256(contents.get(file, b"")).hexdigest() != kept[file]["sha256"]:
            raise DataError(f"{path}: {file} is missing or is not what {MANIFEST} says: copy the archive again.")
    if files:
        check_alone(plan.root)
        # First, or what a killed call has placed would count as made here.
        write_json(f"{plan.root}/taken/{sha256_of(path)[:12]}.json", {file: kept[file] for file in files})
        _place(contents, {file: records(file, found[file], runs) for file in files})
        touch(asked, files)
    return files, refused


def _refused(found: Chains, kept: dict[str, dict[str, Any]], stale: Iterable[str], any_code: bool) -> dict[str, str]:
    """Metrics file → why it is not what would be made here."""
    refused = {}
    for file, jobs in found.items():
        own, needs = fingerprint(jobs), {place for job in jobs for place in job.call.needs}
        if own["arguments"] != kept[file]["arguments"]:
            refused[file] = "was made with other arguments than the configuration's"
        elif not any_code and own["code"] != kept[file]["code"]:
            refused[file] = "was made by other code (see --any-code)"
        elif others := sorted(needs.intersection(stale)):
            refused[file] = f"was made from other data than {', '.join(others)} now"
    return refused


def _place(contents: dict[str, bytes], files: Mapping[str, Sequence[str]]) -> None:
    """Write some scores, each with its ``files``."""
    for file, names in files.items():
        for name in names:
            if name in contents and (name == file or not Path(name).is_file()):
                with whole_file(name) as stream:
                    stream.write(contents[name])


def _manifest(path: Path, contents: dict[str, bytes]) -> dict[str, Any]:
    try:
        manifest = json.loads(contents[MANIFEST])
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: {MANIFEST}: {error}; expected what keep-scores writes: copy it again.") from None
    check_form(manifest, SCHEMA, f"{path}: {MANIFEST}", "archive")
    return manifest


def report(taken: tuple[Sequence[str], Mapping[str, str]]) -> str:
    """What :func:`take` returned, for people."""
    files, refused = taken
    first = f"{len(files)} scores are in place, {len(refused)} are not taken"
    named = {"/".join(Path(file).parts[3:]).removesuffix(".json"): why for file, why in refused.items()}
    return "\n".join([first, *by_reason(named)])
