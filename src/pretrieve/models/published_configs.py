"""The shape of a published encoder: from the ``config.json`` of transformers, or from fairseq's tensors.

Who computes something else than our bodies do (another activation, relative positions in BERT, ELECTRA's narrow
embeddings, T5 1.0's plain feed-forward) is refused here, so that no model is loaded which only looks alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.config import BodyConfig, check_shape

if TYPE_CHECKING:
    import torch

#: A size of :class:`BodyConfig` → its name in ``config.json`` of BERT's family, and of T5.
BERT_SIZES = {
    "vocabulary_size": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
T5_SIZES = {
    "vocabulary_size": "vocab_size",
    "hidden": "d_model",
    "layers": "num_layers",
    "heads": "num_heads",
    "feed_forward": "d_ff",
    "head_size": "d_kv",
}
#: ``model_type`` → family. XLM-R and CamemBERT are RoBERTa's function under another word.
FAMILY_OF = {
    "bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "electra": "electra",
    "ernie": "ernie",
}
#: fairseq numbers positions from the padding's id + 1, and the padding is entry 1 of all its dictionaries.
FAIRSEQ_OFFSET = 2


def _need(shown: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    missing = [theirs for theirs in names.values() if theirs not in shown]
    if missing:
        what = "has no" if shown else "is missing, and with it"
        raise DataError(f"config.json {what} {', '.join(missing)}; the tensors alone do not say it.")
    for ours, theirs in names.items():
        checked(ours, shown[theirs], f"config.json: {theirs}", least=1)
    return {ours: shown[theirs] for ours, theirs in names.items()}


def checked(name: str, value: Any, shown: str, least: float = 0) -> Any:
    """:func:`~pretrieve.models.config.check_shape` of a value in a file; raises DataError."""
    try:
        return check_shape(name, value, shown, least)
    except ConfigError as error:
        raise DataError(str(error)) from None


def _said(shown: Mapping[str, Any], ours: str, theirs: str, default: float) -> Any:
    """A value that a file may omit, ``ours`` by the name of :class:`BodyConfig`, ``theirs`` by that of the file."""
    return checked(ours, shown.get(theirs, default), f"config.json: {theirs}")


def _refuse_other_than(shown: Mapping[str, Any], name: str, allowed: tuple, default: Any) -> None:
    value = shown.get(name, default)
    if value not in allowed:
        raise DataError(f"config.json: {name}={value!r} is not supported; supported: {', '.join(map(str, allowed))}.")


def bert_shape(shown: Mapping[str, Any]) -> BodyConfig:
    """The shape of BERT, RoBERTa, ELECTRA or ERNIE.

    Raises DataError when a size is missing, or the model computes something else than our Transformer.
    """
    _refuse_other_than(shown, "model_type", tuple(FAMILY_OF), "bert")
    _refuse_other_than(shown, "hidden_act", ("gelu",), "gelu")
    _refuse_other_than(shown, "position_embedding_type", ("absolute", None), None)
    _refuse_other_than(shown, "is_decoder", (False,), False)  # each token would see the ones before it alone
    family = FAMILY_OF[shown.get("model_type", "bert")]
    sizes = _need(shown, BERT_SIZES)
    width = shown.get("embedding_size", sizes["hidden"])
    if family == "electra" and width != sizes["hidden"]:
        raise DataError(
            f"config.json: embedding_size={width} is not hidden_size={sizes['hidden']}: ELECTRA's narrow embeddings with "
            "embeddings_project (small models, and generators) are not supported; take a base or large discriminator."
        )
    padding = shown.get("pad_token_id")
    offset = 0
    if family == "roberta":
        offset = 1 + (1 if padding is None else checked("position_offset", padding, "config.json: pad_token_id"))
    positions = sizes["max_positions"] - offset
    sizes["max_positions"] = checked("max_positions", positions, "config.json: max_position_embeddings", least=1)
    std = _said(shown, "std", "initializer_range", 0.02)
    return BodyConfig(
        **sizes,
        family=family,
        position_offset=offset,
        segments=_said(shown, "segments", "type_vocab_size", 2),
        dropout=_said(shown, "dropout", "hidden_dropout_prob", 0.1),
        layer_norm_eps=_said(shown, "layer_norm_eps", "layer_norm_eps", 1e-12),
        std=std,
        word_std=std,
        position_std=std,
    )


def t5_shape(shown: Mapping[str, Any]) -> BodyConfig:
    """The shape of T5 v1.1's encoder.

    Raises DataError as :func:`bert_shape`; T5 1.0 (``feed_forward_proj`` relu) is refused.
    """
    _refuse_other_than(shown, "model_type", ("t5", "mt5"), "t5")
    _refuse_other_than(shown, "feed_forward_proj", ("gated-gelu",), "relu")
    return BodyConfig(
        kind="t5",
        **_need(shown, T5_SIZES),
        buckets=_said(shown, "buckets", "relative_attention_num_buckets", 32),
        max_distance=_said(shown, "max_distance", "relative_attention_max_distance", 128),
        dropout=_said(shown, "dropout", "dropout_rate", 0.1),
        layer_norm_eps=_said(shown, "layer_norm_eps", "layer_norm_epsilon", 1e-6),
    )


def fairseq_shape(body: dict[str, torch.Tensor], shown: Mapping[str, Any], said: Mapping[str, Any]) -> BodyConfig:
    """The shape of fairseq's TransformerSentenceEncoder, from its tensors; ``shown`` is SEED-Encoder's config.json, if
    there is one, ``said`` the options in the file. Heads leave no trace in the tensors: unless told, they are 64 wide,
    as in all published models.

    Raises DataError when the file says that it computes something else, or too little is there.
    """
    options = {**said, **shown}
    _refuse_other_than(options, "activation_fn", ("gelu",), "gelu")
    words, positions = body["embed_tokens.weight"], body["embed_positions.weight"]
    hidden = words.shape[1]
    if "layers.0.fc1.weight" not in body:
        raise DataError("layers.0.fc1.weight is missing; the file holds no whole encoder.")
    heads = options.get("encoder_attention_heads", hidden // 64)
    if not heads or hidden % heads:
        raise DataError(
            f"hidden={hidden} does not divide into {heads} heads; set encoder_attention_heads in a config.json."
        )
    layers = 1 + max(int(name.split(".")[1]) for name in body if name.startswith("layers."))
    return BodyConfig(
        vocabulary_size=words.shape[0],
        hidden=hidden,
        layers=layers,
        heads=heads,
        feed_forward=body["layers.0.fc1.weight"].shape[0],
        max_positions=positions.shape[0] - FAIRSEQ_OFFSET,
        position_offset=FAIRSEQ_OFFSET,
        family="roberta",
        segments=0,
        dropout=float(options.get("dropout", 0.1)),
        layer_norm_eps=1e-5,
    )
