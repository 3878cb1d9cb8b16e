"""From an encoder's options to its directory: the one function behind every pre-training job."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from torch import nn

from pretrieve.errors import DataError
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import Checkpoint, load_tensors, read_encoder, save_encoder
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.setting import Setting
from pretrieve.text.token_store import TokenStore
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.curve import write_curve
from pretrieve.training.device import Device
from pretrieve.training.loop import Outcome, content_key, train
from pretrieve.training.objective import Objective
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.training.processes import Processes


def make_encoder(options: dict[str, Any], store: TokenStore, seed: int, start: Checkpoint | None = None) -> Encoder:
    """The encoder that ``options`` describe, with fresh weights or those of ``start``.

    Raises
    ------
    DataError
        when ``start`` was made with another vocabulary than the token store, or does not fit the options.
    """
    body = options["body"] | {"vocabulary_size": store.vocabulary_size}
    if start is not None:
        _check_vocabulary(start, store)
        # A published checkpoint brings its own shape; the scale's configuration decides only how it is trained.
        shape = start.config.to_dict()
        body = shape | {"dropout": body.get("dropout", shape["dropout"])} if not start.about else body
    encoder = Encoder(
        BodyConfig.from_dict(body), options["dim"], options["pooling"], seed, options["similarity"], options["head"]
    )
    if start is not None:
        load_tensors(encoder.body, start.body, start.path / "model.safetensors")
    return encoder


def _check_vocabulary(start: Checkpoint, store: TokenStore) -> None:
    same = start.about.get("vocabulary_sha256", store.meta["vocabulary_sha256"]) == store.meta["vocabulary_sha256"]
    if not same or start.config.vocabulary_size != store.vocabulary_size:
        raise DataError(
            f"{start.path}: made with a vocabulary of {start.config.vocabulary_size:,} entries, the token store "
            f"{store.directory} with {'another one' if not same else 'one'} of {store.vocabulary_size:,}. Set vocabulary_file "
            "of the scale to the vocabulary that the checkpoint was trained with."
        )


def trained_heads(objective: Objective) -> dict[str, nn.Module]:
    """What an objective trains beside the encoder, by name."""
    parts = objective.module.items() if isinstance(objective.module, nn.ModuleDict) else []
    return {name: module for name, module in parts if name not in ("body", "document", "query")}


def continue_heads(objective: Objective, start: Checkpoint) -> None:
    """Give the objective's heads the weights that ``start`` has for them; a head of another shape stays fresh, and says so."""
    for name, module in trained_heads(objective).items():
        state = start.head(name)
        if not state:
            print(f"{start.path}: has no {name} head; it starts fresh.", file=sys.stderr)
            continue
        try:
            load_tensors(module, state, start.path / "heads.safetensors")
        except DataError as error:
            print(f"{error} It starts fresh.", file=sys.stderr)


def first_losses(objective: Objective, config: BodyConfig) -> dict[str, float]:
    """What the word losses of fresh weights begin with: logits of deviation s = word_std·√d give ln V + s²/2."""
    value = math.log(config.vocabulary_size) + config.hidden * config.word_std**2 / 2
    return dict.fromkeys(getattr(objective, "word_terms", ()), value)


def pretrain(
    options: dict[str, Any],
    store_dir: Path,
    out: Path,
    seed: int,
    device: Device,
    checkpoint_dir: Path,
    checkpoint_seconds: float = 60.0,
    start_dir: Path | None = None,
    processes: Processes | None = None,
    token_budget: int | None = None,
) -> Outcome:
    """Pre-train (or only initialise) an encoder and write its directory and learning curve.

    ``options`` are those of :func:`pretrieve.configuration.encoder_options`; ``start_dir`` is the directory of their ``start``. A
    killed run goes on from ``checkpoint_dir``, which is emptied when the encoder is written. Of several ``processes`` the first
    writes.
    """
    processes = processes or Processes()
    store = TokenStore(store_dir)
    start = read_encoder(start_dir) if start_dir is not None else None
    encoder = make_encoder(options, store, seed, start)
    outcome, heads, objective = Outcome([], 0, 0.0), {}, None
    checkpoints = Checkpoints(checkpoint_dir, content_key(options, seed, store.key, _identity(start)))
    if options["objective"]["name"] != "none":
        budget = dict(options["budget"])
        setting = Setting(options["objective"], budget.pop("batch"), encoder, store, seed, device.device, token_budget)
        objective = build_objective(setting)
        if start is not None:
            continue_heads(objective, start)
        outcome = train(
            objective,
            OptimiserConfig(**budget),
            device,
            seed,
            checkpoints,
            checkpoint_seconds,
            label=f"pre-train {out.parent.name}",
            processes=processes,
            expected_first=first_losses(objective, encoder.config) if start is None else None,
        )
        heads = trained_heads(objective)
    about = {
        "objective": options["objective"],
        "budget": options.get("budget"),
        "start": options.get("start"),
        "seed": seed,
        "tokens": outcome.tokens,
        "trained_projection": options["objective"]["name"] == "pairs",
        "token_store": store.key,
        "vocabulary_sha256": store.meta["vocabulary_sha256"],
    }
    if processes.first:
        query_tower = getattr(objective, "query_encoder", encoder)
        if query_tower is not encoder:
            save_encoder(out / "query", query_tower, about=about)
        save_encoder(out, encoder, heads, about | {"towers": "shared" if query_tower is encoder else "separate"})
        write_curve(out / "curve.csv", outcome.curve)
        checkpoints.clear()
    processes.wait()
    return outcome


def _identity(start: Checkpoint | None) -> list:
    """What tells one start from another: a few exact sums of its tensors."""
    if start is None:
        return []
    return [
        (name, float(tensor.double().abs().sum())) for name, tensor in sorted({**start.body, **start.heads}.items())
    ]
