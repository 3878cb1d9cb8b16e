"""From an encoder's options to its directory: the one function behind every pre-training job."""

from __future__ import annotations

import hashlib
import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.finished_work import leaves_checkpoints
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import Checkpoint, load_tensors, read_encoder, save_encoder
from pretrieve.models.published import read_start
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.initial_weights import body_config, every_layer
from pretrieve.pretraining.objectives import build_objective
from pretrieve.text.token_store import TokenStore
from pretrieve.training.checkpoint import Checkpoints, Snapshots, unpack_weights
from pretrieve.training.loop import Outcome, RunSettings, Watcher, content_key, train, write_curve
from pretrieve.training.objective import Objective
from pretrieve.training.optimiser import OptimiserConfig


def make_encoder(options: EncoderOptions, store: TokenStore, seed: int, start: Checkpoint | None = None) -> Encoder:
    """The encoder that ``options`` describe, with fresh weights or those of ``start``.

    Raises ConfigError or DataError when the parts do not go together (:mod:`pretrieve.pretraining.initial_weights`).
    """
    config = body_config(options, store, start)
    encoder = Encoder(config, options.dim, options.pooling, seed, options.similarity, options.head)
    if start is not None:
        load_tensors(encoder.body, start.body, start.path)
        if start.about.get("trained_projection", False):
            _continue_head("projection", encoder.projection, start)
    return encoder


def towers(objective: Objective | None) -> dict[str, Encoder]:
    """The encoders that an objective trains as they are, with their projections: ``document``, and ``query`` where that is
    another one. Empty for objectives that predict words, and for none."""
    return {name: module for name, module in _parts(objective).items() if isinstance(module, Encoder)}


def trained_heads(objective: Objective) -> dict[str, nn.Module]:
    """What an objective trains beside its encoders, by name."""
    parts = _parts(objective).items()
    return {name: module for name, module in parts if name != "body" and not isinstance(module, Encoder)}


def _parts(objective: Objective | None) -> Mapping[str, nn.Module]:
    if objective is None:
        return {}
    module = objective.module
    return module if isinstance(module, nn.ModuleDict) else {"document": module}


def continue_heads(objective: Objective, start: Checkpoint) -> None:
    """Give what an objective trains beside the first encoder the weights that ``start`` has for it: heads, and a query tower.
    What ``start`` lacks, or has in another shape, stays as it is, and a line on standard error says so."""
    for name, module in trained_heads(objective).items():
        _continue_head(name, module, start)
    query, saved = towers(objective).get("query"), _query_tower(start)
    if query is not None and saved is not None:
        load_tensors(query.body, saved.body, saved.path / "model.safetensors")
        _continue_head("projection", query.projection, saved)
    elif query is not None or saved is not None:
        has = "a query tower, which is left out" if saved else "no query tower; the query's begins as a copy"
        print(f"{start.path}: has {has}.", file=sys.stderr)


def _continue_head(name: str, module: nn.Module, start: Checkpoint) -> None:
    state = start.head(name)
    if not state:
        print(f"{start.path}: has no {name} head; it starts fresh.", file=sys.stderr)
        return
    try:
        load_tensors(module, state, start.path / "heads.safetensors")
    except DataError as error:
        print(f"{error} Head {name} starts fresh.", file=sys.stderr)


def _query_tower(start: Checkpoint) -> Checkpoint | None:
    directory = start.path / "query"
    return read_encoder(directory) if directory.is_dir() else None


def first_losses(objective: Objective, config: BodyConfig) -> dict[str, float]:
    """What the word losses of fresh weights begin with: logits of deviation s = word_std·√d give ln V + s²/2."""
    value = math.log(config.vocabulary_size) + config.hidden * config.word_std**2 / 2
    return dict.fromkeys(getattr(objective, "word_terms", ()), value)


def pretrain(
    options: EncoderOptions,
    store_dir: Path,
    out: Path,
    run: RunSettings,
    checkpoint_dir: Path,
    start_dir: Path | None = None,
    snapshots: Mapping[Path, float] | None = None,
) -> Outcome:
    """Pre-train (or only initialise) an encoder and write its directory and learning curve.

    ``start_dir`` is the directory of the options' ``start``. A killed run continues from ``checkpoint_dir``, emptied when
    the encoder is written (under Snakemake somewhat later: :mod:`pretrieve.base.finished_work`). Of several processes
    the first writes. snapshots: encoder directory → share of the steps, above 0 and below 1, whose weights it gets; the encoder
    itself is the same with and without.

    Raises ConfigError when the options name a start and ``start_dir`` is missing, DataError when the start or the token store
    cannot be used, and TrainingError or Stopped as :func:`pretrieve.training.loop.train`.
    """
    processes = run.processes
    if options.start and start_dir is None:
        raise ConfigError(
            f"start {options.start!r}: give its directory (--start); without it all weights would be fresh."
        )
    store = TokenStore(store_dir)
    start = read_start(start_dir) if start_dir is not None else None
    if start is not None and options.layers_of_start:
        start = every_layer(start, options.layers_of_start)
    encoder = make_encoder(options, store, run.seed, start)
    objective, heads, outcome = None, {}, Outcome()
    at, kept = {}, None  # where weights of steps on the way go, and what keeps them until then
    key = content_key(options.to_dict(), run.seed, store.key, _identity(start))
    checkpoints = Checkpoints(checkpoint_dir, key)
    if options.budget is not None:
        budget = options.budget
        read = store.read_by(encoder.config.kind)
        setting = Setting(options.objective, budget.batch, encoder, read, run.seed, run.device.device, run.token_budget)
        objective = build_objective(setting)
        steps = budget.steps_over(len(objective.examples) if budget.epochs else 0)
        if start is not None:
            continue_heads(objective, start)
        at = {place: max(1, round(share * steps)) for place, share in (snapshots or {}).items()}
        kept = Snapshots(Path(checkpoint_dir) / "snapshots", key, at.values())
        outcome = train(
            objective,
            OptimiserConfig(steps=steps, **budget.constants()),
            run,
            checkpoints,
            Watcher(snapshots=kept),
            label=f"pre-train {out.parent.name}",
            expected_first=first_losses(objective, encoder.config) if start is None else None,
        )
        heads = trained_heads(objective)
    elif start is not None and start.head("mlm"):
        # Nothing is trained, but a joint representation reads the start's word head.
        heads["mlm"] = MaskedWordHead(encoder.config, run.seed)
        _continue_head("mlm", heads["mlm"], start)
    about = {
        "objective": options.objective,
        "budget": options.budget and options.budget.to_dict(),
        "start": options.start,
        "origin": _origin(options, start),
        "seed": run.seed,
        "tokens": outcome.tokens,
        "trained_projection": bool(towers(objective)),
        "token_store": store.key,
        "vocabulary_sha256": store.meta["vocabulary_sha256"],
    }
    if processes.first:
        query = towers(objective).get("query")

        def write(place: Path, about: dict, curve: list[dict[str, float]]) -> None:
            # The rule does not name it, so that of an encoder with other options is still there.
            shutil.rmtree(place / "query", ignore_errors=True)
            if query is not None:
                save_encoder(place / "query", query, about=about)
            save_encoder(place, encoder, heads, about | {"towers": "shared" if query is None else "separate"})
            write_curve(place / "curve.csv", curve)

        write(out, about, outcome.curve)
        for place, step in at.items():
            state = kept.read(step)
            unpack_weights(state.tensors, objective.module)
            write(place, about | {"tokens": state.info["tokens"], "step": step}, state.info["curve"])
        if kept and not leaves_checkpoints():
            kept.clear()
        checkpoints.clear(keep=int(leaves_checkpoints()))
    processes.wait()
    return outcome


def _origin(options: EncoderOptions, start: Checkpoint | None) -> str | None:
    """The published checkpoint that an encoder's weights go back to, through however many encoders; None for random ones."""
    if start is None:
        return None
    return start.about.get("origin") if start.about else options.start  # a published one says nothing of itself


def _identity(start: Checkpoint | None) -> str:
    """What tells one start from another: a hash of all its tensors."""
    if start is None:
        return ""
    digest = hashlib.sha256(_identity(_query_tower(start)).encode())
    for part in (start.body, start.heads):
        for name, tensor in sorted(part.items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
