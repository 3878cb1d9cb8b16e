"""From an encoder to a retriever: one fine-tuning run for one training-set size, of any recipe."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of, write_json
from pretrieve.base.finished_work import leaves_checkpoints
from pretrieve.finetuning.fine_tuning import FineTuning
from pretrieve.finetuning.trainers import prepare
from pretrieve.training.checkpoint import Checkpoints, code_word
from pretrieve.training.cost import Spent
from pretrieve.training.loop import Outcome, RunSettings, content_key, train, write_curve
from pretrieve.training.optimiser import OptimiserConfig

#: Beside a finished model: what it was made of. A job that runs again because its scoring has changed finds the model there
#: (``update`` of the rule's outputs), and trains nothing.
NOTE = "made_of.json"
#: The note itself, and files with times in them.
_NOT_OF_THE_MODEL = (NOTE, "cost.json", "curve.csv")


def note_finished(directory: Path, key: str) -> None:
    """Note that all files of a model's directory come from the run ``key`` and from the code of this job."""
    files = [file for file in sorted(directory.rglob("*")) if file.is_file() and file.name not in _NOT_OF_THE_MODEL]
    sums = {str(file.relative_to(directory)): sha256_of(file) for file in files}
    write_json(directory / NOTE, {"key": key, "code": code_word(), "files": sums})


def is_finished(directory: Path, key: str) -> bool:
    """Whether a directory has the model of the run ``key``, made by the code of this job, with every file as it was written."""
    try:
        note = json.loads((directory / NOTE).read_text(encoding="utf-8"))
        same = (note["key"], note["code"]) == (key, code_word())
        return same and all(sha256_of(directory / name) == digest for name, digest in note["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def optimiser_config(options: dict, steps: int) -> OptimiserConfig:
    """The optimiser that a recipe's options describe. A run that ``epochs`` makes shorter has a schedule as much shorter."""
    names = ("learning_rate", "warmup", "weight_decay", "clip", "schedule")
    whole = round(options["schedule_steps"] * steps / options["steps"]) if options["schedule_steps"] and steps else 0
    return OptimiserConfig(
        steps=steps, schedule_steps=whole, name=options["optimiser"], **{name: options[name] for name in names}
    )


def finetune(
    run: FineTuning, out: Path, checkpoint_seconds: float = 60.0, stop: Callable[[], bool] | None = None
) -> Outcome:
    """Fine-tune and write the directory ``out``: model, ``pretrieve.json`` and learning curve.

    Where ``epochs`` of the options is a list, the model is that of the number with the lowest validation loss.
    A model of the same run that is there already stays, and the outcome has no tokens.
    ``stop``: see :func:`pretrieve.training.loop.train`.

    Raises Stopped as :func:`pretrieve.training.loop.train`, ConfigError when options do not go together, or with the encoder,
    and DataError when a query has no relevant document or no negatives, or the encoder was made with another vocabulary.
    """
    if isinstance(run.options["epochs"], list):
        return _best_epochs(run, out, checkpoint_seconds, stop)
    prepared = prepare(run)
    if is_finished(out, prepared.key):
        return _kept(out)
    checkpoints = Checkpoints(run.work / "state", prepared.key)
    if checkpoints.latest() is None:
        if run.processes.first:
            shutil.rmtree(out, ignore_errors=True)  # of another run
        prepared.watcher.start()
        for one in prepared.beside:
            one.started()
    outcome = train(
        prepared.objective,
        optimiser_config(run.options, prepared.steps),
        RunSettings(run.device, run.seed, checkpoint_seconds, run.processes, stop),
        checkpoints,
        prepared.watcher,
        f"fine-tune {out.parent.parent.name}",
    )
    prepared.watcher.restore()
    made = {
        "encoder": prepared.about,
        "finetuning": dict(run.options),
        "size": run.size,
        "seed": run.seed,
        **prepared.counts,
        "steps": prepared.steps,
        "trained_projection": True,
        "vocabulary_sha256": prepared.about["vocabulary_sha256"],
        **prepared.watcher.record(),
    }
    if run.processes.first:
        for one in prepared.beside:
            one.keep(out)
        prepared.save(out, made)
        write_curve(out / "curve.csv", outcome.curve)
        note_finished(out, prepared.key)
        checkpoints.clear(keep=int(leaves_checkpoints()))
        if not leaves_checkpoints():
            for one in prepared.beside:
                one.clear()
    return outcome


def _kept(out: Path) -> Outcome:
    print(f"{out}: was already made of the same input by the same code; nothing is trained.")
    return Outcome()


def _best_epochs(run: FineTuning, out: Path, seconds: float, stop: Callable[[], bool] | None) -> Outcome:
    """Train once for each number of epochs, each with a schedule of its own, and keep the one whose weights have the lowest
    validation loss (condenser A.1, which searches so with few training examples); of equal ones the first. A killed search
    continues with the first number that is not done."""
    processes, found, earlier, numbers = run.processes, {}, [], run.options["epochs"]
    options = {**run.options, "snapshots": max(1, run.options["snapshots"])}
    parts = [replace(run, options=options | {"epochs": n}, work=run.work / f"epochs{n:g}") for n in numbers]
    key = content_key(prepare(parts[0]).key, numbers, code_word())
    if is_finished(out, key):
        return _kept(out)
    for part in parts:
        note = part.work / "done.json"
        known = note.is_file() and json.loads(note.read_text(encoding="utf-8"))["key"] == key
        processes.wait()  # all have looked before the first one writes
        if not known:
            outcome = finetune(part, part.work / "made", seconds, stop)
            if processes.first:
                looks = json.loads((part.work / "made/pretrieve.json").read_text(encoding="utf-8")).get("validation")
                if not looks:
                    raise DataError(
                        f"{run.task}: size {run.size} has no validation example to choose among "
                        f"few_epochs={numbers} by validation loss; take a larger training-set size, or set "
                        "few_epochs: []."
                    )
                loss = min(look["loss"] for look in looks)
                write_json(note, {"key": key, "loss": loss, "tokens": outcome.tokens, "spent": outcome.spent})
        processes.wait()
        found[f"{part.options['epochs']:g}"] = done = json.loads(note.read_text(encoding="utf-8"))
        earlier.append(done["spent"] if known else outcome.earlier)
    processes.wait()  # all have read before the first one removes
    best = min(found, key=lambda epochs: found[epochs]["loss"])
    if processes.first:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(run.work / f"epochs{best}" / "made", out, dirs_exist_ok=True)
        about = json.loads((out / "pretrieve.json").read_text(encoding="utf-8"))
        about["epochs_searched"] = {epochs: one["loss"] for epochs, one in found.items()}
        write_json(out / "pretrieve.json", about)
        note_finished(out, key)
        if not leaves_checkpoints():
            shutil.rmtree(run.work)
    processes.wait()
    total = lambda spent: Spent(*map(sum, zip(*spent, strict=True)))
    tokens = sum(one["tokens"] for one in found.values())
    return Outcome([], tokens, total(one["spent"] for one in found.values()), total(earlier))
