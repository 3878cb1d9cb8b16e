"""What a bundle does, one job at a time: program calls, what they need and make, and in which order they run.

Which calls are left, with which arguments, says a dry run of Snakemake, which prints the shell command of every job
(``snakemake -n -p``, https://snakemake.readthedocs.io/en/stable/executing/cli.html). A job of the workflow serves all
training-set sizes of a family; here it is cut into one for each size. A job needs what another one makes: paths tell.
Standard library only.
"""

import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from pretrieve.base.errors import DataError
from pretrieve.base.program import split_calls

#: Program → the options that are read side by side: one value for each training-set size. Also: the programs that a bundle runs.
SIDE_BY_SIDE: dict[str, tuple[str, ...]] = {
    "pretrain": ("out",),
    "finetune": ("sizes", "out"),
    "retrieve": ("retrievers", "stores", "sizes", "candidates", "runs", "outputs", "negatives"),
    "mine": ("stores", "retrievers", "sizes", "out"),
    "predict": ("models", "sizes", "predictions", "outputs"),
}
#: Program → options that name what it reads, and what it writes. ``made-of`` is JSON with more of the first.
_NEEDS = {
    "pretrain": ("store", "start"),
    "finetune": ("encoder", "task"),
    "retrieve": ("task", "retrievers", "candidates"),
    "mine": ("task", "stores", "retrievers"),
    "predict": ("task", "models"),
}
_MAKES = {
    "pretrain": ("out", "snapshots"),
    "retrieve": ("runs", "outputs", "negatives", "stores"),
    "predict": ("predictions", "outputs"),
}
_COMMAND = re.compile(r"(?:^|\s)python workflow_scripts/(\w+)\.py (.*)$")


@dataclass(frozen=True)
class Call:
    """One program and its options: name without dashes → words, in their order."""

    program: str
    options: Mapping[str, Sequence[str]]

    @classmethod
    def parse(cls, program: str, words: Sequence[str]) -> Self:
        """From the words of a command line; each option takes the words up to the next one."""
        options: dict[str, list[str]] = {}
        for word in words:
            if word.startswith("--"):
                last = options[word[2:]] = []  # the last one counts, as for argparse
            elif not options:
                raise DataError(f"{program}.py: found {word!r} before the first option; expected --NAME VALUE ….")
            else:
                last.append(word)
        return cls(program, options)

    def one(self, name: str, default: str = "") -> str:
        """The only word of an option."""
        return next(iter(self.options.get(name, ())), default)

    def json(self, name: str) -> Any:
        return json.loads(self.one(name, "{}"))

    def words(self) -> list[str]:
        """The words of a command line."""
        return [word for name, values in self.options.items() for word in (f"--{name}", *values)]

    @property
    def key(self) -> str:
        """What tells this call from others: a hash of all that its result depends on; not where it logs, nor its threads; its
        code is compared apart."""
        left_out = ("log", "threads", "checkpoints", "vectors-code")
        kept = {name: list(words) for name, words in self.options.items() if name not in left_out}
        return hashlib.sha256(json.dumps([self.program, kept], sort_keys=True).encode()).hexdigest()[:24]

    @property
    def needs(self) -> list[str]:
        """Files and directories it reads."""
        places = [word for name in _NEEDS[self.program] for word in self.options.get(name, ())]
        for entry in self.json("made-of").values():
            places += [entry[name] for name in ("start", "teacher") if entry.get(name)]
            places += entry.get("negatives", {}).values()
        return list(dict.fromkeys(places))

    @property
    def makes(self) -> list[str]:
        """Files and directories it writes."""
        return [word for name in _MAKES.get(self.program, ("out",)) for word in self.options.get(name, ())]

    def by_size(self) -> list[Self]:
        """The same as calls for one training-set size each."""
        lists = {name: self.options[name] for name in SIDE_BY_SIDE[self.program] if self.options.get(name)}
        if len({len(values) for values in lists.values()}) != 1:
            counts = ", ".join(f"--{name} has {len(values)}" for name, values in lists.items())
            raise DataError(f"{self.program}.py: {counts}; expected one value each for every training-set size.")
        calls = []
        for values in zip(*lists.values(), strict=True):
            options = {**self.options, **{name: [value] for name, value in zip(lists, values, strict=True)}}
            if "made-of" in options:
                size = options["sizes"][0]
                options["made-of"] = [json.dumps({size: self.json("made-of")[size]}, sort_keys=True)]
            calls.append(Call(self.program, options))
        return calls


@dataclass(frozen=True)
class Job:
    """A call for one training-set size. id: the call's key; group: of the workflow's job that it is a part of; cells: of the
    requested tables that need it; code: hash of the source files that its result depends on."""

    id: str
    group: str
    call: Call
    cells: int = 0
    code: str = ""

    @property
    def name(self) -> str:
        """For people: ``finetune transformer-mlm.reqa-80pct/questions/seed1``."""
        return f"{self.call.program} {'/'.join(Path(self.call.makes[0]).parts[3:])}".replace(".trec.gz", "")

    @property
    def seed(self) -> int:
        """Of its result; 0 where its path names none."""
        found = re.search(r"seed(\d+)", self.call.makes[0])
        return int(found[1]) if found else 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"needs": self.call.needs}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value["id"], value["group"], Call(**value["call"]), value["cells"], value["code"])


def calls_in(text: str) -> list[tuple[Call, str]]:
    """The calls of programs that a bundle runs, from what ``snakemake -n -p`` prints, and what tells their job of the workflow
    from others; no call twice."""
    found: dict[str, tuple[Call, str]] = {}
    for line in text.splitlines():
        match = _COMMAND.search(line)
        if match and match[1] in SIDE_BY_SIDE:
            first, *more = split_calls(shlex.split(match[2]))
            calls = [Call.parse(match[1], first), *(Call.parse(words[0], words[1:]) for words in more)]
            group = hashlib.sha256("".join(call.key for call in calls).encode()).hexdigest()[:24]
            found |= {call.key: (call, group) for call in calls}
    return list(found.values())


def makers(jobs: Iterable[Job]) -> dict[str, Job]:
    """Path → the job that makes it."""
    return {place: job for job in jobs for place in job.call.makes}


def behind(job: Job, made_by: Mapping[str, Job]) -> list[Job]:
    """A job and all that it needs, each after what it needs itself."""
    found: dict[str, Job] = {}

    def visit(one: Job) -> None:
        if one.id not in found:
            for place in one.call.needs:
                if place in made_by:
                    visit(made_by[place])
            found[one.id] = one

    visit(job)
    return list(found.values())


def dependents(lost: Collection[str], jobs: Sequence[Job]) -> list[Job]:
    """The jobs that cannot run without some paths, directly or through others."""
    gone, out = set(lost), []
    while more := [job for job in jobs if job not in out and gone & set(job.call.needs)]:
        out += more
        gone.update(place for job in more for place in job.call.makes)
    return out


def in_order(jobs: Sequence[Job], cells: Mapping[str, int]) -> list[Job]:
    """Jobs in the order that a bundle runs them, with their number of cells. cells: metrics file → how many need it.

    All first seeds come before the second ones; then the most-needed encoder comes first, and of its scores those of the
    most-needed fine-tuning; what a score needs comes right before it. The sizes of one job of the workflow follow each other,
    since Snakemake takes only whole jobs as done.
    """
    made_by = makers(jobs)
    chains = {job.id: behind(job, made_by) for job in jobs}
    worth, group_worth = Counter[str](), Counter[str]()
    for job in jobs:
        own = sum(cells.get(place, 0) for place in job.call.makes)
        for one in chains[job.id]:
            worth[one.id] += own
            group_worth[one.group] += own

    def rank(job: Job) -> tuple:
        encoders, finetunings = (
            [one for one in chains[job.id] if one.call.program == program] for program in ("pretrain", "finetune")
        )
        of_encoders = [(-group_worth[one.group], one.id) for one in encoders]
        of_finetunings = [-group_worth[one.group] for one in finetunings]
        return (job.seed, of_encoders, of_finetunings, -group_worth[job.group], job.group, job.call.makes)

    ends = [job for job in jobs if any(place in cells for place in job.call.makes)]
    done: dict[str, Job] = {}
    for job in sorted(ends, key=rank):
        for one in chains[job.id]:
            done.setdefault(one.id, replace(one, cells=worth[one.id]))
    return list(done.values())
