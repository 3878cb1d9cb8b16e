"""From an encoder to a retriever: one fine-tuning run for one training-set size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.errors import DataError
from pretrieve.files import sha256_of
from pretrieve.finetuning.reqa import BestSnapshot, ReqaConfig, ReqaObjective
from pretrieve.models.hf_format import load_encoder, save_encoder
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.curve import write_curve
from pretrieve.training.device import Device
from pretrieve.training.loop import Outcome, content_key, train
from pretrieve.training.optimiser import OptimiserConfig


def finetune(
    options: dict[str, Any],
    encoder_dir: Path,
    data: Dataset,
    size: str,
    out: Path,
    seed: int,
    device: Device,
    checkpoint_dir: Path,
    checkpoint_seconds: float = 60.0,
) -> Outcome:
    """Fine-tune on the training questions of ``size`` and write the retriever's directory.

    ``options`` are those of :func:`pretrieve.configuration.recipe_options`. The projection is the pre-trained one when the
    encoder has one of the wanted dimension, a fresh one otherwise.

    Raises
    ------
    DataError
        when a question has no relevant candidate, or the encoder was made with another vocabulary than the task.
    """
    encoder, about = load_encoder(encoder_dir, options["dim"], seed, options["similarity"])
    data.check_vocabulary(about, encoder_dir)
    rest = {name: value for name, value in options.items() if name not in ("dim", "learning_rate", "similarity")}
    config = ReqaConfig(**rest)
    train_rows, valid_rows = data.split(size, "train"), data.split(size, "valid")
    lost = [data.query_ids[row] for row in (*train_rows, *valid_rows) if data.positive[row] < 0]
    if lost:
        raise DataError(
            f"{data.directory}/qrels.parquet: {len(lost)} training questions have no answer, e.g. {lost[0]!r}."
        )
    steps = config.steps_for(len(train_rows))
    encoder.to(device.device)
    watcher = BestSnapshot(encoder, data, train_rows, valid_rows, config, steps, device)
    objective = ReqaObjective(encoder, data, train_rows, config, seed, device.device)
    rows = [*train_rows, *valid_rows]
    pairs = np.stack([rows, data.positive[rows], data.candidate_sentence[data.positive[rows]]]).tolist()
    weights = [sha256_of(encoder_dir / name) for name in ("model.safetensors", "heads.safetensors")]
    key = content_key(options, size, seed, about, weights, data.passages.key, data.queries.key, len(train_rows), pairs)
    checkpoints = Checkpoints(checkpoint_dir, key)
    schedule = OptimiserConfig(steps, options["learning_rate"])
    if checkpoints.latest() is None:
        watcher.start()
    outcome = train(
        objective,
        schedule,
        device,
        seed,
        checkpoints,
        checkpoint_seconds,
        watcher,
        f"fine-tune {out.parent.parent.name}",
    )
    watcher.restore()
    made = {
        "encoder": about,
        "finetuning": options,
        "size": size,
        "seed": seed,
        "training_questions": len(train_rows),
        "validation_questions": len(valid_rows),
        "trained_projection": True,
        "vocabulary_sha256": about["vocabulary_sha256"],
        **{name: watcher.info[name] for name in ("best_step", "validation")},
    }
    save_encoder(out, encoder, about=made)
    write_curve(out / "curve.csv", outcome.curve)
    checkpoints.clear()
    return outcome
