"""Encoder directories: what other tools load, and beside it what pre-training needs to go on.

===================  =================================================================================================
config.json          a ``transformers`` BertConfig (or ``model_type: bow-mlp``, which only this project reads)
model.safetensors    the body under BertModel's names: ``AutoModel.from_pretrained(directory)`` loads it
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

from pretrieve.errors import DataError
from pretrieve.files import write_json
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder

_LAYER_NAMES = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "output_norm": "output.LayerNorm",
}
_TOP_NAMES = {
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "segments.weight": "embeddings.token_type_embeddings.weight",
    "embedding_norm.weight": "embeddings.LayerNorm.weight",
    "embedding_norm.bias": "embeddings.LayerNorm.bias",
}


def to_bert_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Our Transformer's state → BertModel's names; the joint query-key-value matrix is taken apart."""
    result = {}
    for name, tensor in state.items():
        if name in _TOP_NAMES:
            result[_TOP_NAMES[name]] = tensor
            continue
        _, index, rest = name.split(".", 2)
        module, _, kind = rest.rpartition(".")
        prefix = f"encoder.layer.{index}."
        if module == "attention.qkv":
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                result[f"{prefix}attention.self.{part}.{kind}"] = piece.contiguous()
        else:
            result[f"{prefix}{_LAYER_NAMES[module]}.{kind}"] = tensor
    return result


def from_bert_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The reverse of :func:`to_bert_names`; a pooler and position ids are left out.

    Raises
    ------
    DataError
        when a name does not belong to a BertModel, or a layer lacks one of its matrices; the message lists them.
    """
    state = {name.removeprefix("bert."): tensor for name, tensor in state.items()}
    top = {theirs: ours for ours, theirs in _TOP_NAMES.items()}
    layer = {theirs: ours for ours, theirs in _LAYER_NAMES.items()}
    result, parts, unknown = {}, {}, []
    for name, tensor in state.items():
        if name.startswith(("pooler.", "cls.")) or name.endswith("position_ids"):
            continue
        if name in top:
            result[top[name]] = tensor
            continue
        pieces = name.split(".", 3)
        if len(pieces) < 4 or pieces[:2] != ["encoder", "layer"]:
            unknown.append(name)
            continue
        module, _, kind = pieces[3].rpartition(".")
        if module.startswith("attention.self."):
            parts.setdefault((pieces[2], kind), {})[module.removeprefix("attention.self.")] = tensor
        elif module in layer:
            result[f"layers.{pieces[2]}.{layer[module]}.{kind}"] = tensor
        else:
            unknown.append(name)
    for (index, kind), found in parts.items():
        missing = [part for part in ("query", "key", "value") if part not in found]
        if missing:
            raise DataError(f"layer {index} has no attention.self.{missing} {kind}; the checkpoint is incomplete.")
        result[f"layers.{index}.attention.qkv.{kind}"] = torch.cat([found[part] for part in ("query", "key", "value")])
    if unknown:
        raise DataError(f"not a BertModel checkpoint; unknown names: {unknown[:8]}{' …' if len(unknown) > 8 else ''}")
    return result


def _bert_config(config: BodyConfig) -> dict:
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feed_forward,
        "max_position_embeddings": config.max_positions,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "layer_norm_eps": config.layer_norm_eps,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "initializer_range": config.std,
        "pad_token_id": 0,
    }


def _write_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    temporary = path.with_suffix(".part")
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}, temporary)
    os.replace(temporary, path)


@dataclass(frozen=True)
class Checkpoint:
    """A directory in memory: shape of the body, its tensors under our names, tensors of the heads as ``{head}.{name}``, and
    what ``pretrieve.json`` says ({} for a published checkpoint)."""

    path: Path
    config: BodyConfig
    body: dict[str, torch.Tensor]
    heads: dict[str, torch.Tensor]
    about: dict

    def head(self, name: str) -> dict[str, torch.Tensor]:
        """Tensors of one head, {} when there is none."""
        return {n.removeprefix(f"{name}."): t for n, t in self.heads.items() if n.startswith(f"{name}.")}


def save_encoder(
    directory: Path, encoder: Encoder, heads: Mapping[str, torch.nn.Module] | None = None, about: dict | None = None
) -> None:
    """Write an encoder directory (files in the module's table); ``about`` goes into ``pretrieve.json``.

    heads: name → what was trained beside the body; with them pre-training can go on.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    config = encoder.config
    body = encoder.body.state_dict()
    is_bert = config.kind == "transformer"
    tensors = {}
    for name, module in {"projection": encoder.projection, **(heads or {})}.items():
        tensors |= {f"{name}.{key}": tensor for key, tensor in module.state_dict().items()}
    _write_tensors(tensors, directory / "heads.safetensors")
    _write_tensors(to_bert_names(body) if is_bert else body, directory / "model.safetensors")
    shown = _bert_config(config) if is_bert else {"model_type": "bow-mlp", "vocab_size": config.vocabulary_size}
    write_json(directory / "config.json", shown)
    info = {
        "body": config.to_dict(),
        "dim": encoder.dim,
        "pooling": encoder.pooling,
        "similarity": encoder.similarity,
        "head": encoder.head,
        **(about or {}),
    }
    write_json(directory / "pretrieve.json", info)


def read_encoder(directory: Path) -> Checkpoint:
    """Read an encoder directory of this project.

    Raises
    ------
    DataError
        when a file is missing or damaged.
    """
    directory = Path(directory)
    try:
        about = json.loads((directory / "pretrieve.json").read_text())
        body = load_file(directory / "model.safetensors")
        heads = load_file(directory / "heads.safetensors")
    except FileNotFoundError as error:
        raise DataError(
            f"{error.filename}: no such file; {directory} is not an encoder directory of this project."
        ) from None
    except Exception as error:  # safetensors raises its own type for a damaged header
        raise DataError(f"{directory}: damaged checkpoint ({error}). Delete it and run snakemake again.") from error
    config = BodyConfig.from_dict(about["body"])
    return Checkpoint(directory, config, from_bert_names(body) if config.kind == "transformer" else body, heads, about)


def load_encoder(
    directory: Path, dim: int | None = None, seed: int = 0, similarity: str | None = None
) -> tuple[Encoder, dict]:
    """Read an encoder directory; returns the encoder and what ``pretrieve.json`` says.

    ``dim``, ``similarity``: those wanted, if not the saved ones. Where the dimension differs from the saved projection's, or
    the encoder was pre-trained without one, a fresh projection is drawn from ``seed``.

    Raises
    ------
    DataError
        when a file is missing or damaged, or its tensors do not fit the configuration; the message lists the names.
    """
    saved = read_encoder(directory)
    about = saved.about
    encoder = Encoder(
        saved.config, dim or about["dim"], about["pooling"], seed, similarity or about["similarity"], about["head"]
    )
    load_tensors(encoder.body, saved.body, saved.path / "model.safetensors")
    if encoder.dim == about["dim"] and about.get("trained_projection", False):
        load_tensors(encoder.projection, saved.head("projection"), saved.path / "heads.safetensors")
    return encoder, about


def load_tensors(module: torch.nn.Module, state: dict[str, torch.Tensor], path: Path) -> None:
    """Put tensors into a module.

    Raises
    ------
    DataError
        when names or shapes differ; the message lists them, and ``path``.
    """
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
