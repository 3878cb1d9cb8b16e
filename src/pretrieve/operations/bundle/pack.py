"""From tables to one file that a machine without a network can work from: ``make bundle SCALE=… [TABLE=…]``.

::

    manifest.json       scale, tables, commit, checksums of the data here and of all members, what was left out
    jobs.json           what to run, in order (:mod:`pretrieve.operations.bundle.jobs`)
    README.txt          how
    src/pretrieve/…
    results/{scale}/…   data, where the workflow has them

What would be too large waits or is left out, and the manifest and a line for each piece say so:

1. *Later seeds wait.* As long as there are several, the jobs of the last seed are dropped: the next bundle begins with them.
2. *Then data are left out*, a piece at a time, with all jobs that need it: the piece that takes the most room for each cell
   that it serves.

A token store is the largest piece of a bundle, and some thousand steps read a part of it. Which, follows from the options and the
seed alone: the batches of every step are drawn in advance, and :class:`Watched` notes every item that is read. In the copy, the
tokens that no job reads are 0, which takes next to no room when it is packed. All else is as in the store, also its name
(:attr:`pretrieve.text.token_store.TokenStore.key`), which ``meta.json`` states. So training on the copy gives the bits of
training on the store, for the jobs it was made for, and no others.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from pretrieve.base.code_folder import code_file, version_of
from pretrieve.base.errors import ConfigError
from pretrieve.base.files import sha256_of
from pretrieve.base.progress import Progress
from pretrieve.operations.bundle.archive import packed_size, sums_of, write_archive
from pretrieve.operations.bundle.contents import (
    Asked,
    build,
    code_files,
    content_of,
    data_files,
    data_places,
    needed_runs,
    remaining,
    scored_by_answers,
)
from pretrieve.operations.bundle.jobs import Job, dependents, in_order
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.pretrain import make_encoder
from pretrieve.text.token_store import TokenStore

#: Default size of the largest bundle.
LIMIT_MIB = 60.0
#: Sizes are first taken by a quick level of xz; packed, token ids of encyclopaedia text take this share of them.
QUICK = 0.93

README = """\
A bundle of the project pretrieve: pre-training, fine-tuning and search for some result tables.

    export PYTHONPATH=src
    python -m pretrieve.operations.bundle.runner --bundle . --minutes 9

Needs Python 3.11 or later with torch 2.11, transformers, tokenizers, numpy, pyarrow, scikit-learn and safetensors; no network.
Call it again until it says that nothing is left. Bring the folder out/ home, and there: make unbundle FILE=out
"""


class Bundle(NamedTuple):
    """What was written: the jobs that are in it, in order; the pieces of data that are not; bytes of the file."""

    jobs: list[Job]
    left_out: list[dict[str, Any]]
    size: int


def pack(asked: Asked, out: Path, cores: int = 1, limit_mib: float = LIMIT_MIB, answers: bool = False) -> Bundle:
    """Build what is needed, and write the bundle of some tables to ``out``. answers: with the answers and passages of tasks that
    are scored by them.

    Raises ConfigError when nothing has to be trained, or nothing fits into the limit, and DataError when Snakemake fails.
    """
    plan = asked.plan()
    cells = asked.cells(plan)
    jobs = remaining(asked, cells)
    if not jobs:
        raise ConfigError(f"scale {asked.scale}: everything that these tables need is done; nothing to bundle.")
    build(asked, plan, data_places(jobs), cores)
    jobs = in_order(jobs, cells)
    runs, whole = needed_runs(asked, plan, jobs, answers), scored_by_answers(jobs) if answers else set()
    return write_bundle(asked, jobs, cells, out, int(limit_mib * (1 << 20)), runs, whole)


def write_bundle(
    asked: Asked,
    jobs: Sequence[Job],
    cells: Mapping[str, int],
    out: Path,
    limit: int,
    runs: Sequence[str] = (),
    whole: Collection[str] = (),
) -> Bundle:
    """Write jobs and their data, which exist, without what exceeds ``limit`` bytes. cells: metrics file → how many need it; runs:
    those that have to come back; whole: tasks that are packed with answers and passages. Raises ConfigError when nothing fits."""
    sizes = _Sizes(whole)
    code = packed_size(b"".join(file.read_bytes() for file in code_files().values()))
    ratio = QUICK
    while True:
        if (room := limit / ratio - code) <= 0:
            raise ConfigError(
                f"the bundle: the code alone takes {code * ratio / 2**20:.2f} MiB of {limit / 2**20:.2f}; raise --limit."
            )
        kept, left_out = fit(jobs, cells, sizes, room)
        thin, files = sizes.thin(kept), {place: data_files(place, place in whole) for place in data_places(kept)}
        members = {"jobs.json": _json([job.as_json() for job in kept]), "README.txt": README.encode(), **code_files()}
        for of_place in files.values():
            members |= {
                name: thin[name] if name in thin else content_of(file, whole) for name, file in of_place.items()
            }
        manifest = manifest_of(asked, kept, files, left_out, runs) | {"members": sums_of(members)}
        size = write_archive(out, members | {"manifest.json": _json(manifest)})
        if size <= limit:
            return Bundle(kept, left_out, size)
        out.unlink()
        ratio = size / (sum(sizes(kept).values()) + code)


class _Sizes:
    """About how many bytes the data of jobs take in a bundle; each piece is packed once, quickly, to see. Equal files count
    once, at the first place that has them."""

    def __init__(self, whole: Collection[str] = ()) -> None:
        self._whole = whole
        self._known: dict[tuple[str, frozenset[str]], tuple[str, int]] = {}  # file, its readers → SHA-256, bytes
        self._thin: tuple[frozenset[str], dict[str, bytes]] = (frozenset(), {})

    def thin(self, jobs: Sequence[Job]) -> dict[str, bytes]:
        """The files of token stores as these jobs read them; the last ones are kept."""
        readers = frozenset(job.id for job in jobs if job.call.program == "pretrain")
        if self._thin[0] != readers:
            self._thin = (readers, thin_stores(jobs))
        return self._thin[1]

    def __call__(self, jobs: Sequence[Job]) -> dict[str, int]:
        """Place → bytes."""
        thin, counted, sizes = self.thin(jobs), set[str](), dict[str, int]()
        for place in data_places(jobs):
            sizes[place] = 0
            for name, file in data_files(place, place in self._whole).items():
                key = (name, self._thin[0] if name in thin else frozenset())
                if key not in self._known:
                    content = thin[name] if name in thin else content_of(file, self._whole)
                    self._known[key] = sums_of({name: content})[name]["sha256"], packed_size(content)
                digest, size = self._known[key]
                sizes[place] += 0 if digest in counted else size
                counted.add(digest)
        return sizes


def manifest_of(
    asked: Asked,
    jobs: Sequence[Job],
    files: Mapping[str, Mapping[str, Path]],
    left_out: Sequence[Mapping[str, Any]],
    runs: Sequence[str],
) -> dict[str, Any]:
    """The manifest without its members. files: of each place."""
    groups: dict[str, list[str]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job.id)
    version = version_of(code_file())
    checksums = {place: {name: sha256_of(file) for name, file in some.items()} for place, some in files.items()}
    identity = json.dumps([[job.as_json() for job in jobs], checksums], sort_keys=True).encode()
    return {
        "bundle": hashlib.sha256(identity).hexdigest()[:12],
        "scale": asked.scale,
        "tables": list(asked.tables),
        "config": list(asked.config),
        "files": list(asked.files),
        "commit": f"{version.commit or 'none'}{' with changes' if version.dirty else ''}",
        "data": checksums,
        "groups": groups,
        "runs": list(runs),
        "left_out": list(left_out),
    }


def report(bundle: Bundle, out: Path) -> str:
    """What was packed, for people: sizes, jobs by program, what comes first, and what was left out, largest first."""
    counts = ", ".join(f"{n} {p}" for p, n in Counter(job.call.program for job in bundle.jobs).items())
    lines = [f"{out}: {bundle.size / 2**20:.1f} MiB, {len(bundle.jobs)} jobs: {counts}"]
    lines += [f"  first: {job.name} ({job.cells} cells)" for job in bundle.jobs[:3]]
    for entry in sorted(bundle.left_out, key=lambda entry: -entry["bytes"]):
        about = f"about {entry['bytes'] / 2**20:.1f} MiB, with {entry['jobs']} jobs"
        lines.append(f"  left out: {entry['what']}, {about}: {entry['why']}")
    return "\n".join(lines)


def _json(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


#: Jobs → place of each piece of data that they read → about how many bytes it takes in the bundle.
Measure = Callable[[Sequence[Job]], Mapping[str, int]]


def fit(
    jobs: Sequence[Job], cells: Mapping[str, int], measure: Measure, room: float
) -> tuple[list[Job], list[dict[str, Any]]]:
    """The jobs whose data take at most ``room`` bytes, and a record for all that is not among them. cells: metrics file → how
    many need it. Raises ConfigError when no job is left."""
    kept, left_out = list(jobs), []
    while (total := sum((sizes := measure(kept)).values())) > room:
        seeds = sorted({job.seed for job in kept})
        if len(seeds) > 1:
            out = [job for job in kept if job.seed == seeds[-1]]
            what, why = f"seed {seeds[-1]}", "it waits for the next bundle"
        else:
            # A piece is worth the cells that are lost without it, at least one: jobs need it.
            worth = {
                place: sum(cells.get(made, 0) for job in dependents([place], kept) for made in job.call.makes)
                for place in sizes
            }
            what = max(sizes, key=lambda place: (sizes[place] / max(1, worth[place]), place))
            out, why = dependents([what], kept), "the bundle was over its limit"
        lost = {job.id for job in out}
        kept = in_order([job for job in kept if job.id not in lost], cells)
        if not kept:
            raise ConfigError(
                f"the bundle: nothing fits into {room / 2**20:.1f} MiB: {what} alone takes {sizes[what] / 2**20:.1f}; raise "
                "--limit."
            )
        size = sizes.get(what, total - sum(measure(kept).values()))
        left_out.append({"what": what, "bytes": size, "jobs": len(out), "why": why})
    return kept, left_out


class Watched:
    """An array (n,) that notes which of its items are read: ``seen`` (n,) bool."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.dtype, self.shape = array, array.dtype, array.shape
        self.seen = np.zeros(len(array), dtype=bool)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, rows: Any) -> np.ndarray:
        self.seen[rows] = True
        return self._array[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.seen[:] = True
        return np.asarray(self._array, dtype=dtype)


def tokens_read(directory: Path, jobs: Sequence[Job]) -> np.ndarray:
    """(T,) bool: the tokens of a store that these pre-trainings read."""
    store = TokenStore(directory)
    watched = store.tokens = Watched(store.tokens)
    with Progress("tokens that are read", len(jobs), "jobs") as progress:
        for job in jobs:
            _draw(store, EncoderOptions.from_dict(job.call.json("options")), int(job.call.one("seed")))
            progress.advance()
    return watched.seen


def _draw(store: TokenStore, options: EncoderOptions, seed: int) -> None:
    if options.budget is None:
        return
    # Its start decides its weights, but no draw.
    encoder = make_encoder(options, store, seed)
    read, budget = store.read_by(encoder.config.kind), options.budget
    setting = Setting(options.objective, budget.batch, encoder, read, seed, torch.device("cpu"))
    objective = build_objective(setting)
    # Masks are drawn on what was read: they would only take time.
    draw = objective.examples.sequences if hasattr(objective, "examples") else objective.micro_batches
    for step in range(budget.steps_over(len(objective.examples) if budget.epochs else 0)):
        draw(step)


def thin_stores(jobs: Sequence[Job]) -> dict[str, bytes]:
    """File of a token store → what of it the pre-training among ``jobs`` reads, for all stores that they read."""
    readers: dict[str, list[Job]] = {}
    for job in jobs:
        if job.call.program == "pretrain":
            readers.setdefault(job.call.one("store"), []).append(job)
    contents = {}
    for place, own in readers.items():
        store = TokenStore(Path(place))
        seen = tokens_read(store.directory, own)
        contents[f"{place}/tokens.bin"] = np.where(seen, store.tokens, store.tokens.dtype.type(0)).tobytes()
        contents[f"{place}/meta.json"] = _json(store.meta | {"key": store.key})
    return contents
