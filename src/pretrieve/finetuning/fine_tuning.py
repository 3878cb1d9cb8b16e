"""What every kind of fine-tuning is built from, and what it gives back to :mod:`pretrieve.finetuning.finetune`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pretrieve.base.files import sha256_of
from pretrieve.finetuning.validation import BestWeights
from pretrieve.training.device import Device
from pretrieve.training.loop import content_key
from pretrieve.training.objective import ContrastiveObjective, Objective
from pretrieve.training.processes import ALONE, Processes


def options_of_size(options: Mapping[str, Any], size: str, watched: Collection[str]) -> dict[str, Any]:
    """A recipe's options for one training-set size: its ``curve`` is for the ``watched`` sizes only, because each of its
    steps embeds the corpus again; and its ``epochs`` are the list ``few_epochs``, if there is one, for all but ``full``
    and a recipe of no steps."""
    changed = dict(options)
    if options.get("curve") and size not in watched:
        changed["curve"] = 0
    if size != "full" and options.get("steps") and options.get("few_epochs"):
        changed["epochs"] = options["few_epochs"]
    return changed


@dataclass(frozen=True)
class FineTuning:
    """One run. options: of the recipe, and its ``kind``; task: the task's directory; size: of the training set; work: a folder
    for what the run needs again when it was killed; start, teacher: directories of other recipes' retrievers, or None;
    negatives: source (``bm25``, ``mined:RECIPE``) → file."""

    options: Mapping[str, Any]
    encoder: Path
    task: Path
    size: str
    seed: int
    device: Device
    work: Path
    start: Path | None = None
    teacher: Path | None = None
    negatives: Mapping[str, Path] = field(default_factory=dict)
    processes: Processes = ALONE

    @property
    def begin(self) -> Path:
        """The directory whose weights the run begins with."""
        return self.start or self.encoder

    def key(self, about: Mapping[str, Any], data: list[Any]) -> str:
        """What names the run, so that no other run's checkpoints are taken: options, size, seed, ``about`` the encoder, hashes
        of all weights and negatives, and what names the ``data``."""
        places = [place for place in (self.encoder, self.start, self.teacher) if place is not None]
        weights = [sha256_of(file) for place in places for file in sorted(place.rglob("*.safetensors"))]
        negatives = {source: sha256_of(file) for source, file in self.negatives.items()}
        return content_key(dict(self.options), self.size, self.seed, about, weights, negatives, data)


@dataclass(frozen=True)
class Beside:
    """What a training leaves beside its model. keep: puts it into the model's directory; clear: removes what only a killed run
    needs; started: called before a fresh run."""

    keep: Callable[[Path], object]
    clear: Callable[[], object]
    started: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Trainable:
    """objective: what :func:`pretrieve.training.loop.train` trains; steps: how many; save: writes the model's directory with
    what it is told about the run; key: of :meth:`FineTuning.key`; about: the encoder's ``pretrieve.json``; counts: of training
    and validation examples; watcher: says which weights are saved; beside: what else is left."""

    objective: Objective | ContrastiveObjective
    steps: int
    save: Callable[[Path, dict[str, Any]], None]
    key: str
    about: dict[str, Any]
    counts: dict[str, int]
    watcher: BestWeights
    beside: tuple[Beside, ...] = ()

    def leaving(self, more: Beside) -> Trainable:
        """The same, with ``more`` beside its model."""
        return replace(self, beside=(*self.beside, more))
