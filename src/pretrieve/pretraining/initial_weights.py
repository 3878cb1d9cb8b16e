"""Whether a start, a token store and an objective go together, and which body follows from them."""

from __future__ import annotations

from dataclasses import replace

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.config import BodyConfig
from pretrieve.models.hf_format import Checkpoint
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import NO_TOKEN

#: Objectives that need no [CLS] and no [MASK]; all others predict words.
WORDLESS = ("none", "pairs")
#: Word embeddings are padded to a multiple of this (T5 v1.1: 32,128 rows for 32,100 entries).
PADDED_TO = 128


def every_layer(start: Checkpoint, n: int) -> Checkpoint:
    """A start of which only every ``n``-th layer is kept, the last of each n: of 6 layers and n = 3 the third and the sixth.

    Raises DataError when no layer is left, or it is not a Transformer.
    """
    kept = range(n - 1, start.config.layers, n)
    if start.config.kind != "transformer" or not kept:
        raise DataError(
            f"{start.path}: a {start.config.kind} of {start.config.layers} layers; expected a transformer with at least {n}, "
            f"as layers_of_start is {n}."
        )
    body = {name: tensor for name, tensor in start.body.items() if not name.startswith("layers.")}
    for place, layer in enumerate(kept):
        begin = f"layers.{layer}."
        body |= {f"layers.{place}.{n.removeprefix(begin)}": t for n, t in start.body.items() if n.startswith(begin)}
    return replace(start, config=replace(start.config, layers=len(kept)), body=body)


def body_config(options: EncoderOptions, store: TokenStore, start: Checkpoint | None) -> BodyConfig:
    """The body that ``options`` describe. With a start it has the start's shape, and of the options only the dropout:
    a shape cannot be trained away.

    Raises ConfigError when the objective or the pooling needs a special token that the vocabulary does not have, and DataError
    when ``start`` was made with another vocabulary than the token store, or is of another kind than the options'.
    """
    body = dict(options.body) | {"vocabulary_size": store.vocabulary_size}
    if start is not None:
        _check_vocabulary(start, store)
        wanted = body.get("kind", "transformer")
        shape = start.config.to_dict()
        if (wanted == "bow-mlp") != (shape["kind"] == "bow-mlp"):
            raise DataError(f"{start.path}: is a {shape['kind']}; the encoder's body must be a {wanted}.")
        body = shape | {"dropout": body.get("dropout", shape["dropout"])}
    config = BodyConfig.from_dict(body)
    _check_special(options, store, config)
    return config


def _check_vocabulary(start: Checkpoint, store: TokenStore) -> None:
    same = start.vocabulary_sha256 in (None, store.meta["vocabulary_sha256"])
    spare = start.config.vocabulary_size - store.vocabulary_size
    if not same or not 0 <= spare < PADDED_TO:
        raise DataError(
            f"{start.path}: made with a vocabulary of {start.config.vocabulary_size:,} entries, the token store "
            f"{store.directory} with {'another one' if not same else 'one'} of {store.vocabulary_size:,}. Set vocabulary_file "
            "of the scale to the vocabulary that the checkpoint was trained with (its vocab.txt or tokenizer.json)."
        )


def _check_special(options: EncoderOptions, store: TokenStore, config: BodyConfig) -> None:
    objective = options.objective["name"]
    lacking = [name for name in ("cls", "mask") if getattr(store.special, name) == NO_TOKEN]
    if objective not in WORDLESS and (lacking or config.kind == "t5"):
        why = (
            "the body is T5's encoder"
            if config.kind == "t5"
            else f"the vocabulary has no {' and no '.join(lacking)} token"
        )
        raise ConfigError(
            f"objective {objective}: predicts masked words, and {why}; choose objective none or pair tasks, or another start."
        )
    if "cls" in lacking and options.pooling == "cls" and config.kind != "bow-mlp":
        raise ConfigError(
            f"pooling 'cls': the vocabulary of {store.directory} has no such token, as T5's; set pooling: mean for the scale."
        )
