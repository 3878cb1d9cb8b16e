"""From an encoder to a retriever: one fine-tuning run for one training-set size, whichever recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pretrieve.finetuning.fine_tuning import FineTuning
from pretrieve.finetuning.recipes import trainer_of
from pretrieve.finetuning.trainers import TRAINERS
from pretrieve.finished_work import leaves_checkpoints
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.curve import write_curve
from pretrieve.training.loop import Outcome, train
from pretrieve.training.optimiser import OptimiserConfig


def optimiser_config(options: dict, steps: int) -> OptimiserConfig:
    """The optimiser that a recipe's options describe. A run that ``epochs`` makes shorter has a schedule as much shorter."""
    names = ("learning_rate", "warmup", "weight_decay", "clip", "schedule")
    whole = round(options["schedule_steps"] * steps / options["steps"]) if options["schedule_steps"] else 0
    return OptimiserConfig(
        steps=steps, schedule_steps=whole, name=options["optimiser"], **{name: options[name] for name in names}
    )


def finetune(
    run: FineTuning, out: Path, checkpoint_seconds: float = 60.0, stop: Callable[[], bool] | None = None
) -> Outcome:
    """Fine-tune and write the directory ``out``: model, ``pretrieve.json`` and learning curve.

    ``stop``: see :func:`pretrieve.training.loop.train`.

    Raises
    ------
    Stopped
        as :func:`pretrieve.training.loop.train`.
    ConfigError
        when options do not go together, or with the encoder.
    DataError
        when a query has no relevant document or no negatives, or the encoder was made with another vocabulary.
    """
    prepared = TRAINERS[trainer_of(run.options)](run)
    checkpoints = Checkpoints(run.work / "state", prepared.key)
    if checkpoints.latest() is None:
        prepared.started()
    outcome = train(
        prepared.objective,
        optimiser_config(run.options, prepared.steps),
        run.device,
        run.seed,
        checkpoints,
        checkpoint_seconds,
        prepared.watcher,
        f"fine-tune {out.parent.parent.name}",
        run.processes,
        stop=stop,
    )
    prepared.restore()
    made = {
        "encoder": prepared.about,
        "finetuning": dict(run.options),
        "size": run.size,
        "seed": run.seed,
        **prepared.counts,
        "steps": prepared.steps,
        "trained_projection": True,
        "vocabulary_sha256": prepared.about["vocabulary_sha256"],
        **prepared.record(),
    }
    if run.processes is None or run.processes.first:
        prepared.save(out, made)
        write_curve(out / "curve.csv", outcome.curve)
        if not leaves_checkpoints():
            checkpoints.clear()
            prepared.clear()
    return outcome
