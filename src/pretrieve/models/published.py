"""Encoders that others have published, as starting points: by the names in their files, and without running their code.

:func:`read_start` takes a directory of this project or any layout of :mod:`pretrieve.raw.checkpoint_files`. What it finds:

=================================  ====================================================================================
body                               BERT, RoBERTa (also XLM-R, CamemBERT), ELECTRA, ERNIE 2.0, SEED-Encoder, T5 v1.1
``mlm``: word head                 ``cls.predictions`` (BERT, ERNIE, Condenser, RetroMAE), ``lm_head`` (RoBERTa, SEED)
``condenser``: its head            ``c_head.0``, ``c_head.1`` (Condenser and coCondenser: model.pt)
``decoder``: SEED-Encoder's        ``decoder`` beside ``encoder.sentence_encoder`` (the pre-trained .pt files)
``decoder``: RetroMAE's            ``c_head`` (FlagEmbedding; the checkpoints on the hub have none)
=================================  ====================================================================================

Left out on purpose: BERT's pooler and next-sentence head, ELECTRA's heads, T5's decoder, coCondenser's ``co_target``
(the labels of one batch), and, with a line that says so, the heads of fine-tuned models. Everything else that is
unknown, missing or of a wrong shape is an error: a start that is only half loaded would train all the same.

Sources of the names: luyug/Condenser@74880ab modeling.py:34-131, 172-176; staoxiao/RetroMAE@ee37587 modeling.py;
FlagOpen/FlagEmbedding retromae_pretrain/modeling.py; microsoft/SEED-Encoder@ececaa9 model/models.py:309-331 and
modeling_seed_encoder.py; facebookresearch/fairseq roberta/model.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.overrides import TorchFunctionMode

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.checkpoint_names import BERT, FAIRSEQ, T5, Names
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import BODIES
from pretrieve.models.hf_format import Checkpoint, read_encoder
from pretrieve.models.published_configs import bert_shape, fairseq_shape, t5_shape
from pretrieve.models.published_heads import sort_heads
from pretrieve.models.sentence_files import read_object
from pretrieve.raw.checkpoint_files import CheckpointFiles, find_checkpoint
from pretrieve.raw.hub import check_recorded
from pretrieve.text.vocabulary import given_tokenizer, vocabulary_sha256

BERT_PREFIXES = ("bert.", "roberta.", "electra.", "ernie.", "")
#: Pre-trained; fairseq's RoBERTa of 2019; the files "in the style of transformers"; fine-tuned.
FAIRSEQ_PREFIXES = (
    "encoder.sentence_encoder.",
    "decoder.sentence_encoder.",
    "seed_encoder.encoder.sentence_encoder.",
    "encoder.",
)


@dataclass(frozen=True)
class Published:
    """An encoder under its publisher's names, and what stands beside it in the file."""

    names: Names
    config: BodyConfig
    body: dict[str, torch.Tensor]
    rest: dict[str, torch.Tensor]


def read_start(path: Path) -> Checkpoint:
    """Read what pre-training starts from: an encoder directory of this project, or a published checkpoint.

    Raises DataError when there is no checkpoint, or it is damaged, incomplete, or of a model that is not supported.
    """
    files = find_checkpoint(Path(path))
    if files.own:
        return read_encoder(files.path)
    check_recorded(files.path)
    return read_published(files)


def read_published(files: CheckpointFiles) -> Checkpoint:
    """Read a published checkpoint (raises as :func:`read_start`)."""
    shown = read_object(files.config, "the settings of a model") if files.config else {}
    state, said = read_tensors(files.weights)
    try:
        found = _recognise(_plain(state), shown, said)
        beside = found.rest | (_plain(read_tensors((files.heads,))[0]) if files.heads else {})
        heads, left_out, unknown = sort_heads(beside, found.body[found.names.top["words.weight"]], found.config)
        _check(found, unknown)
    except ConfigError as error:  # a shape that the body does not admit
        raise DataError(f"{files.path}: {error}") from error
    except DataError as error:
        raise DataError(f"{files.path}: {error}") from None
    if left_out:
        print(f"{files.path}: left out: {', '.join(left_out)}.", file=sys.stderr)
    body, _ = found.names.ours(found.body)
    vocabulary = vocabulary_sha256(given_tokenizer(files.vocabulary)) if files.vocabulary else None
    return Checkpoint(files.path, found.config, body, heads, {}, vocabulary)


def _plain(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Names without what wrappers put in front, old names renewed, numbers in float32.

    ``module.`` is from data-parallel training, ``lm.`` from the pre-training code of Condenser and RetroMAE; TensorFlow's
    ``gamma`` and ``beta`` stand in BERT's first conversions, and a joint ``in_proj`` in fairseq's files of 2019.
    """
    if all(name.startswith("module.") for name in state):
        state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    result = {}
    for name, tensor in state.items():
        name = name.removeprefix("lm.")
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
        name = name.replace("sentence_encoder.layernorm_embedding.", "sentence_encoder.emb_layer_norm.")
        tensor = tensor.float() if tensor.is_floating_point() else tensor
        joint = re.fullmatch(r"(.*self_attn\.)in_proj_(weight|bias)", name)
        if joint and len(tensor) % 3 == 0:
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                result[f"{joint[1]}{part}_proj.{joint[2]}"] = piece.contiguous()
        else:
            result[name] = tensor
    return result


def _recognise(state: dict[str, torch.Tensor], shown: dict[str, Any], said: dict[str, Any]) -> Published:
    """Which library wrote ``state``; ``shown`` is its config.json, ``said`` what a fairseq file says of itself."""
    if "encoder.block.0.layer.0.SelfAttention.q.weight" in state:
        return _t5(state, shown)
    for prefix in BERT_PREFIXES:
        if f"{prefix}embeddings.word_embeddings.weight" in state:
            return _bert(state, prefix, shown)
    for prefix in FAIRSEQ_PREFIXES:
        if f"{prefix}embed_tokens.weight" in state and f"{prefix}embed_positions.weight" in state:
            body, rest = _parted(state, prefix, ("emb", "layers."), prefix.removesuffix("sentence_encoder."))
            return Published(FAIRSEQ, fairseq_shape(body, shown, said), body, rest)
    raise DataError(
        "unknown encoder: expected the names of BERT, RoBERTa, ELECTRA, ERNIE, T5 or fairseq, found "
        f"{_listed(sorted(state))}"
    )


def _parted(
    state: dict[str, torch.Tensor], prefix: str, beginnings: tuple[str, ...], root: str
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The encoder's tensors, whose names have one of the ``beginnings`` behind ``prefix``, without that; and all others, without
    ``root``."""
    wanted = tuple(prefix + beginning for beginning in beginnings)
    body = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(wanted)}
    rest = {n.removeprefix(root): t for n, t in state.items() if n.removeprefix(prefix) not in body}
    return body, rest


def _bert(state: dict[str, torch.Tensor], prefix: str, shown: dict[str, Any]) -> Published:
    body, rest = _parted(state, prefix, ("embeddings.", "encoder.layer."), prefix)
    body = {n: t for n, t in body.items() if not n.endswith(("position_ids", "token_type_ids"))}
    # ERNIE 2.0 adds the embedding of its task to every token; it is task 0 unless told otherwise, so it can stand in the
    # segments, of which every token has exactly one.
    task, segments = "embeddings.task_type_embeddings.weight", "embeddings.token_type_embeddings.weight"
    if task in body and segments in body:
        body[segments] = body[segments] + body.pop(task)[0]
    return Published(BERT, bert_shape(shown), body, rest)


def _t5(state: dict[str, torch.Tensor], shown: dict[str, Any]) -> Published:
    body, rest = _parted(state, "", ("encoder.block.", "encoder.final_layer_norm."), "")
    words = state.get("shared.weight", state.get("encoder.embed_tokens.weight"))
    if words is None:
        raise DataError("T5 without shared.weight: the word embeddings are missing.")
    beside = ("decoder.", "lm_head.", "shared.", "encoder.embed_tokens.")
    rest = {name: tensor for name, tensor in rest.items() if not name.startswith(beside)}
    return Published(T5, t5_shape(shown), body | {"shared.weight": words}, rest)


class _Undrawn(TorchFunctionMode):
    """No initial weights: on the device "meta" the first random number loads torch's compiler, which takes a second."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        drawn = getattr(func, "__module__", None) == nn.init.__name__
        return None if drawn else func(*args, **(kwargs or {}))


def _check(found: Published, unknown: list[str]) -> None:
    """Every tensor that the body has, of its shape, and no others."""
    # Shapes without memory: a configuration may ask for more than there is.
    with torch.device("meta"), _Undrawn():
        expected = found.names.theirs(BODIES[found.config.kind](found.config).state_dict())
    missing = sorted(expected.keys() - found.body.keys())
    unknown = sorted([*unknown, *(found.body.keys() - expected.keys())])
    wrong = [
        f"{name}: {tuple(found.body[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in found.body and found.body[name].shape != tensor.shape
    ]
    problems = {"missing": missing, "wrong shape": wrong, "unknown": unknown}
    if any(problems.values()):
        told = "; ".join(f"{what}: {_listed(names)}" for what, names in problems.items() if names)
        raise DataError(f"does not fit its configuration. {told}")


def _listed(names: list[str], most: int = 40) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def read_tensors(files: tuple[Path, ...]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """All tensors of the files, and what else a fairseq file says of its model ({} for others).

    A .bin or .pt file of torch is a pickle, which can run code when it is read. It is read with ``weights_only=True``, which
    admits tensors and plain containers alone; for fairseq's files also ``argparse.Namespace``, in which fairseq 0.10 keeps the
    options of the run.

    Raises DataError when a file is damaged, holds no tensors or more than tensors, or two files hold the same name.
    """
    tensors: dict[str, torch.Tensor] = {}
    said: dict[str, Any] = {}
    for file in files:
        found, more = _read(file)
        twice = sorted(found.keys() & tensors.keys())
        if twice:
            raise DataError(f"{file}: has tensors that another file of the checkpoint has too: {twice[:8]}")
        tensors |= found
        said |= more
    return tensors, said


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    if path.suffix == ".safetensors":
        try:
            return load_file(path), {}
        except Exception as error:  # safetensors raises its own type for a damaged header
            raise DataError(f"{path}: damaged file of weights ({error}). Get it again.") from error
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has no type of its own for a damaged or a refused file
        raise DataError(
            f"{path}: cannot be read as weights alone: {next(iter(str(error).splitlines()), '')} If the file is whole and "
            "you trust its source, keep only its tensors: python -c \"import torch; d = torch.load('IN', weights_only=False); "
            "torch.save(d.get('model', d), 'OUT')\""
        ) from error
    said: dict[str, Any] = {}
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        arguments = content.get("args")
        said = dict(vars(arguments)) if isinstance(arguments, argparse.Namespace) else {}
        content = content["model"]
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: holds a {type(content).__name__}; expected names and tensors.")
    tensors = {name: tensor for name, tensor in content.items() if isinstance(tensor, torch.Tensor)}
    if not tensors or len(tensors) < len(content):
        others = sorted(str(name) for name in content.keys() - tensors.keys())
        raise DataError(f"{path}: {'no tensors' if not tensors else 'not only tensors'}; also {others[:8]}")
    return tensors, said
