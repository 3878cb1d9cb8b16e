"""Encoder directories: what other tools load, and beside it what pre-training needs to continue.

===================  =================================================================================================
config.json          of ``transformers``, by family: BERT, RoBERTa, ELECTRA, ERNIE, T5 (or ``bow-mlp``, our own)
model.safetensors    the body under its family's names: AutoModel.from_pretrained loads it (T5: T5EncoderModel)
heads.safetensors    projection, and what the objective trained beside the body: word head, Condenser head, decoder
pretrieve.json       how it was made: body, pooling, dimension, objective, seed, content key of the token store
===================  =================================================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from pretrieve.base.disk import room_for
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.models.checkpoint_names import BERT, T5
from pretrieve.models.config import BodyConfig, check_shape
from pretrieve.models.encoder import Encoder
from pretrieve.models.published_configs import BERT_SIZES, T5_SIZES

#: What ``pretrieve.json`` says of an encoder beside its body.
_OF_AN_ENCODER = ("dim", "pooling", "similarity", "head")
#: ``AutoModel``'s name for each family's encoder.
_ARCHITECTURES = {"bert": "BertModel", "roberta": "RobertaModel", "electra": "ElectraModel", "ernie": "ErnieModel"}


def _bert_config(config: BodyConfig) -> dict:
    """``config.json`` of a Transformer, by family."""
    shown = {theirs: getattr(config, ours) for ours, theirs in BERT_SIZES.items()} | {
        "model_type": config.family,
        "architectures": [_ARCHITECTURES[config.family]],
        "max_position_embeddings": config.max_positions + config.position_offset,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "layer_norm_eps": config.layer_norm_eps,
        "type_vocab_size": max(1, config.segments),
        "hidden_act": "gelu",
        "initializer_range": config.std,
        # RoBERTa counts positions from the padding's id + 1.
        "pad_token_id": max(0, config.position_offset - 1),
    }
    if config.family == "electra":
        shown["embedding_size"] = config.hidden
    return shown


def _t5_config(config: BodyConfig) -> dict:
    return {theirs: getattr(config, ours) for ours, theirs in T5_SIZES.items()} | {
        "model_type": "t5",
        "architectures": ["T5EncoderModel"],
        "d_kv": config.head_size or config.hidden // config.heads,
        "relative_attention_num_buckets": config.buckets,
        "relative_attention_max_distance": config.max_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.layer_norm_eps,
        "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": False,
        "use_cache": False,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }


def shown_config(config: BodyConfig) -> dict:
    """What ``config.json`` says."""
    if config.kind == "bow-mlp":
        return {"model_type": "bow-mlp", "vocab_size": config.vocabulary_size}
    return _t5_config(config) if config.kind == "t5" else _bert_config(config)


def to_saved_names(state: dict[str, torch.Tensor], config: BodyConfig) -> dict[str, torch.Tensor]:
    """A body's state → what ``model.safetensors`` holds. Who has no segments gets one of zeros, which adds nothing:
    transformers has no BERT or RoBERTa without them."""
    if config.kind == "transformer":
        more = {} if config.segments else {"segments.weight": torch.zeros(1, config.hidden)}
        return BERT.theirs(state | more)
    return T5.theirs(state) if config.kind == "t5" else state


def from_saved_names(state: dict[str, torch.Tensor], config: BodyConfig) -> dict[str, torch.Tensor]:
    """The reverse of :func:`to_saved_names`; BERT's pooler and position ids are omitted.

    Raises DataError when a name does not belong to such a model, or a layer lacks one of its matrices.
    """
    if config.kind == "bow-mlp":
        return state
    if config.kind == "t5":
        what, names = "the encoder of T5", T5
        kept = {n: t for n, t in state.items() if n != "encoder.embed_tokens.weight"}
    else:
        what, names = "a BertModel checkpoint", BERT
        bare = {n.removeprefix("bert."): t for n, t in state.items() if not n.endswith("position_ids")}
        kept = {n: t for n, t in bare.items() if not n.startswith(("pooler.", "cls."))}
    result, unknown = names.ours(kept)
    if unknown:
        raise DataError(f"not {what}; unknown names: {unknown[:8]}{' …' if len(unknown) > 8 else ''}")
    return {n: t for n, t in result.items() if config.segments or n != "segments.weight"}


def write_tensors(tensors: dict[str, torch.Tensor], path: Path, said: dict[str, str] | None = None) -> None:
    """A safetensors file, whole or not at all; equal tensors give equal bytes. said: beside them, in its header.

    Raises DataError when the disk is full; what stood at ``path`` stays.
    """
    temporary = path.with_suffix(".part")
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    with room_for(path, sum(tensor.nbytes for tensor in ready.values()), remove=[temporary]):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(ready, temporary, said)
        os.replace(temporary, path)


def write_model(
    directory: Path, body: torch.nn.Module, config: BodyConfig, heads: Mapping[str, torch.nn.Module]
) -> None:
    """Write ``heads.safetensors``, ``model.safetensors`` and ``config.json``; heads: name → what is beside the body."""
    tensors = {f"{name}.{key}": tensor for name, head in heads.items() for key, tensor in head.state_dict().items()}
    write_tensors(tensors, directory / "heads.safetensors")
    write_tensors(to_saved_names(body.state_dict(), config), directory / "model.safetensors")
    write_json(directory / "config.json", shown_config(config))


@dataclass(frozen=True)
class Checkpoint:
    """A directory in memory: shape of the body, its tensors under our names, tensors of the heads as
    ``{head}.{name}``, and what ``pretrieve.json`` says ({} for a published checkpoint). vocabulary_sha256: of the
    vocabulary it was trained with, if the directory has one (:func:`pretrieve.text.vocabulary.vocabulary_sha256`)."""

    path: Path
    config: BodyConfig
    body: dict[str, torch.Tensor]
    heads: dict[str, torch.Tensor]
    about: dict
    vocabulary_sha256: str | None = None

    def head(self, name: str) -> dict[str, torch.Tensor]:
        """Tensors of one head, {} when there is none."""
        return {n.removeprefix(f"{name}."): t for n, t in self.heads.items() if n.startswith(f"{name}.")}


def save_encoder(
    directory: Path, encoder: Encoder, heads: Mapping[str, torch.nn.Module] | None = None, about: dict | None = None
) -> None:
    """Write an encoder directory. heads: name → what was trained beside the body; about: more for ``pretrieve.json``."""
    write_model(directory, encoder.body, encoder.config, {"projection": encoder.projection, **(heads or {})})
    info = {"body": encoder.config.to_dict()} | {name: getattr(encoder, name) for name in _OF_AN_ENCODER}
    write_json(directory / "pretrieve.json", info | (about or {}))


def read_encoder(directory: Path, required: tuple[str, ...] = ("body", *_OF_AN_ENCODER)) -> Checkpoint:
    """Read an encoder directory of this project; ``required``: what its ``pretrieve.json`` must say.

    Raises DataError when a file is missing or damaged.
    """
    try:
        about = json.loads((directory / "pretrieve.json").read_text(encoding="utf-8"))
        body = load_file(directory / "model.safetensors")
        heads = load_file(directory / "heads.safetensors")
    except FileNotFoundError as error:
        raise DataError(
            f"{error.filename}: no such file; {directory} is not an encoder directory of this project."
        ) from None
    except Exception as error:  # safetensors raises its own type for a damaged header
        raise DataError(f"{directory}: damaged checkpoint ({error}). Delete it and run snakemake again.") from error
    if not isinstance(about, dict):
        raise DataError(f"{directory}/pretrieve.json: holds a {type(about).__name__}; expected an object of settings.")
    missing = [name for name in required if name not in about]
    if missing:
        raise DataError(
            f"{directory}/pretrieve.json: has no {', '.join(missing)}; it was written by an older version of this project, or is "
            "a cross-encoder's, which makes no vectors. If it is an old one, delete the directory and run snakemake again."
        )
    try:
        config = BodyConfig.from_dict(about["body"])
        check_shape("hidden", about.get("dim", 1), "dim")
    except ConfigError as error:
        raise DataError(f"{directory}/pretrieve.json: {error}") from error
    return Checkpoint(directory, config, from_saved_names(body, config), heads, about, about.get("vocabulary_sha256"))


def load_encoder(directory: Path) -> tuple[Encoder, dict]:
    """Read an encoder directory; returns the encoder, whose projection is a fresh one where it was pre-trained without, and what
    ``pretrieve.json`` says.

    Raises DataError when a file is missing or damaged, or its tensors do not fit the configuration.
    """
    saved = read_encoder(directory)
    return encoder_of(saved), saved.about


def encoder_of(saved: Checkpoint) -> Encoder:
    """The encoder of a directory of this project. Raises DataError as :func:`load_encoder`."""
    about = saved.about
    encoder = Encoder(saved.config, about["dim"], about["pooling"], 0, about["similarity"], about["head"])
    load_model(saved, encoder.body, {"projection": encoder.projection} if about.get("trained_projection") else {})
    return encoder


def load_model(saved: Checkpoint, body: torch.nn.Module, heads: Mapping[str, torch.nn.Module]) -> None:
    """The reverse of :func:`write_model`, for the ``heads`` that are given. Raises DataError as :func:`load_tensors`."""
    load_tensors(body, saved.body, saved.path / "model.safetensors")
    for name, head in heads.items():
        load_tensors(head, saved.head(name), saved.path / "heads.safetensors")


def load_tensors(module: torch.nn.Module, state: dict[str, torch.Tensor], path: Path) -> None:
    """Put tensors into a module. Raises DataError when names or shapes differ; the message lists them, and ``path``."""
    own = module.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    wrong = [
        f"{n}: {tuple(state[n].shape)} ≠ {tuple(own[n].shape)}"
        for n in own.keys() & state.keys()
        if own[n].shape != state[n].shape
    ]
    if missing or extra or wrong:
        raise DataError(
            f"{path}: does not fit the model. missing: {missing}; not expected: {extra}; wrong shape: {sorted(wrong)}"
        )
    module.load_state_dict(state)
