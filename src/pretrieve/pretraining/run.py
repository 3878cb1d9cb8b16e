"""From an encoder's options to its directory: the one function behind every pre-training job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pretrieve.errors import ConfigError
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder, MaskedWordHead
from pretrieve.models.hf_format import save_encoder
from pretrieve.pairs.mixture import make_sampler
from pretrieve.pretraining.contrastive import Contrastive
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.text.token_store import TokenStore
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.device import Device
from pretrieve.training.loop import Objective, Outcome, content_key, train, write_curve
from pretrieve.training.optimiser import OptimiserConfig


def make_objective(
    options: dict[str, Any], encoder: Encoder, store: TokenStore, seed: int, device: Device
) -> tuple[Objective | None, MaskedWordHead | None]:
    """The objective that ``options['objective']`` names, and its head; (None, None) for a random initialisation.

    Raises
    ------
    ConfigError
        for an unknown objective.
    """
    objective = options["objective"]
    if objective["name"] == "none":
        return None, None
    if objective["name"] == "mlm":
        head = MaskedWordHead(encoder.config, seed)
        mlm = MaskedLanguageModel(
            encoder, head, store, seed, objective["batch"], objective["length"], objective["rate"], device=device.device
        )
        return mlm, head
    if objective["name"] == "pairs":
        sampler = make_sampler(store, objective["tasks"], objective["ict_keep"], objective["by"])
        pairs = Contrastive(
            encoder,
            store,
            sampler,
            seed,
            objective["batch"],
            objective["query_length"],
            objective["passage_length"],
            objective["temperature"],
            device.device,
        )
        return pairs, None
    raise ConfigError(f"objective {objective['name']!r} is not allowed; choose from none, mlm, pairs.")


def pretrain(
    options: dict[str, Any],
    store_dir: Path,
    out: Path,
    seed: int,
    device: Device,
    checkpoint_dir: Path,
    checkpoint_seconds: float = 60.0,
) -> Outcome:
    """Pre-train (or only initialise) an encoder and write its directory and learning curve.

    ``options`` are those of :func:`pretrieve.configuration.encoder_options`. A killed run goes on from
    ``checkpoint_dir``, which is emptied when the encoder is written.
    """
    store = TokenStore(store_dir)
    body = BodyConfig.from_dict(options["body"] | {"vocabulary_size": store.vocabulary_size})
    encoder = Encoder(body, options["dim"], options["pooling"], seed)
    objective, head = make_objective(options, encoder, store, seed, device)
    outcome = Outcome([], 0, 0.0)
    checkpoints = Checkpoints(checkpoint_dir, content_key(options, seed, store.key))
    if objective is not None:
        steps = OptimiserConfig(options["objective"]["steps"], options["objective"]["learning_rate"])
        outcome = train(
            objective, steps, device, seed, checkpoints, checkpoint_seconds, label=f"pre-train {out.parent.name}"
        )
    about = {
        "objective": options["objective"],
        "seed": seed,
        "tokens": outcome.tokens,
        "trained_projection": options["objective"]["name"] == "pairs",
        "token_store": store.key,
        "vocabulary_sha256": store.meta["vocabulary_sha256"],
    }
    save_encoder(out, encoder, head, about)
    write_curve(out / "curve.csv", outcome.curve)
    checkpoints.clear()
    return outcome
