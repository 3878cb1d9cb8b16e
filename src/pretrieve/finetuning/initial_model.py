"""From a pre-trained encoder, or from another recipe's retriever, to the model that a recipe trains.

What the options say nothing about (or ``''``) is as in the encoder. Its projection is kept when it is pre-trained and still
fits: same head, dimension and pooling; otherwise a fresh one is drawn from the seed, one for each tower that has its own.
Where pre-training made a query tower too (``towers: separate``), sharings other than ``sde`` begin with it.

A joint representation (:mod:`pretrieve.models.joint`) takes μ from what pre-training made it with: the matrix ``bow`` where
the encoder has one (DupMAE as in the paper), else the word head ``mlm`` (DupMAE's released code, and every other objective that
predicts masked words). ``head: none`` means for it what the paper has: a linear layer where ``cls_dim`` is smaller than the
state, nothing where it is the same ("CLS:768").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError, check_choice
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import DualEncoder, core, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import Checkpoint, load_model, read_encoder
from pretrieve.models.joint import JointEncoder, JointShape
from pretrieve.models.retriever_files import is_retriever, load_retriever

REPRESENTATIONS = ("dense", "joint")
#: ``parts`` of a joint representation → options that it does not read.
_UNUSED = {"cls": ("top", "sep", "activation", "lexical_head"), "ot": ("cls_dim", "head")}


def make_retriever(directory: Path, options: Mapping[str, Any], seed: int) -> tuple[DualEncoder, dict]:
    """The retriever that ``options`` of a recipe describe, and what ``pretrieve.json`` of ``directory`` says.

    Options: sharing, representation, head, dim (``hidden``: the body's), pooling, similarity; joint: parts, cls_dim, top, and
    if wanted lexical_head, activation, sep, zeroed. From a retriever's directory training continues: it must be what the
    options describe.

    Raises ConfigError for options that do not go together, or with the start, and DataError when a file is missing or damaged,
    or the encoder lacks the head that the options need.
    """
    if is_retriever(directory):
        dual, about = load_retriever(directory)
        _check(dual, options, directory)
        return dual, about
    saved = read_encoder(directory)
    wanted = _wanted(options, saved)
    encoder, kept = _encoder(saved, wanted, seed)
    query = None
    if wanted["sharing"] != "sde" and (directory / "query").is_dir():
        query, _ = _encoder(read_encoder(directory / "query"), wanted, seed, tower=1)
    return dual_encoder(encoder, wanted["sharing"], seed, kept, query), saved.about


def make_cross_encoder(encoder_dir: Path, classes: int, seed: int) -> tuple[CrossEncoder, dict]:
    """A cross-encoder on the body of a pre-trained encoder, with a fresh head, and what ``pretrieve.json`` says.

    Raises ConfigError when the body cannot be a cross-encoder's, and DataError when a file is missing or damaged.
    """
    saved = read_encoder(encoder_dir)
    model = CrossEncoder(saved.config, classes, seed=seed)
    load_model(saved, model.body, {})
    return model, saved.about


def _given(options: Mapping[str, Any], name: str, default: Any) -> Any:
    value = options.get(name)
    return default if value is None or value == "" else value


def _wanted(options: Mapping[str, Any], saved: Checkpoint) -> dict[str, Any]:
    """The options of the model, each with a value."""
    about, hidden = saved.about, saved.config.hidden
    representation = _given(options, "representation", "dense")
    check_choice("representation", representation, REPRESENTATIONS)
    wanted = {"sharing": _given(options, "sharing", "sde"), "representation": representation}
    if representation == "dense":
        wanted |= {name: _given(options, name, about[name]) for name in ("dim", "head", "pooling", "similarity")}
        if wanted["dim"] == "hidden":
            wanted["dim"] = hidden
        return wanted
    for name, needed in (("pooling", "cls"), ("similarity", "dot")):
        if _given(options, name, needed) != needed:
            raise ConfigError(f"{name}: {options[name]} does not go with representation: joint; set {name}: {needed}.")
    missing = [name for name in ("parts", "cls_dim", "top") if _given(options, name, None) is None]
    if missing:
        raise ConfigError(f"representation: joint needs {', '.join(missing)}; set them in the recipe.")
    names = [field.name for field in fields(JointShape)]
    shape = {name: options[name] for name in names if _given(options, name, None) is not None}
    if shape["cls_dim"] == "hidden":
        shape["cls_dim"] = hidden
    shape.setdefault("lexical_head", "bow" if saved.head("bow") else "mlm")
    head = _joint_head(_given(options, "head", "none"), shape["cls_dim"], hidden)
    return wanted | {"shape": JointShape(**shape), "head": head}


def _joint_head(head: str, cls_dim: int, hidden: int) -> str:
    return "linear" if head == "none" and cls_dim != hidden else head


def _encoder(
    saved: Checkpoint, wanted: Mapping[str, Any], seed: int, tower: int = 0
) -> tuple[Encoder | JointEncoder, bool]:
    """One tower on a saved body, and whether its projection is the saved one. tower: whose fresh projection it gets."""
    if wanted["representation"] == "joint":
        encoder = JointEncoder(saved.config, wanted["shape"], seed, wanted["head"], tower)
        heads = encoder.heads()
        for name in heads:
            if not saved.head(name):
                raise DataError(
                    f"{saved.path / 'heads.safetensors'}: has no {name} head, which the joint representation needs; its encoder "
                    "was not pre-trained with it. Choose an encoder whose objective predicts masked words, such as dupmae."
                )
    else:
        encoder = Encoder(
            saved.config, wanted["dim"], wanted["pooling"], seed, wanted["similarity"], wanted["head"], tower=tower
        )
        heads = {}
    about = saved.about
    same = (encoder.dim, encoder.head) == (about["dim"], about["head"])
    same = same and (encoder.pooling == about["pooling"] or encoder.config.kind == "bow-mlp")
    kept = bool(same and about.get("trained_projection", False))
    load_model(saved, encoder.body, heads | ({"projection": encoder.projection} if kept else {}))
    return encoder, kept


def _check(dual: DualEncoder, options: Mapping[str, Any], directory: Path) -> None:
    """Raise :class:`ConfigError` unless a retriever is what the options describe."""
    encoder = core(dual.document)
    has = {"sharing": dual.sharing, "representation": dual.representation, "similarity": dual.similarity}
    asked = {name: encoder.config.hidden if value == "hidden" else value for name, value in options.items()}
    if isinstance(encoder, JointEncoder):
        has |= encoder.options() | {"head": encoder.head, "zeroed": tuple(encoder.zeroed)}
        asked["zeroed"] = tuple(options.get("zeroed") or encoder.zeroed)
        for name in _UNUSED.get(encoder.parts, ()):
            asked.pop(name, None)
        if asked.get("head") == "none":
            asked["head"] = _joint_head("none", encoder.dim, encoder.config.hidden)
    else:
        has |= {"dim": encoder.dim, "head": encoder.head}
        if encoder.config.kind != "bow-mlp":
            has["pooling"] = encoder.pooling
    wrong = [name for name in has if _given(asked, name, has[name]) != has[name]]
    if wrong:
        raise ConfigError(
            f"{directory}: has {', '.join(f'{name}: {has[name]}' for name in wrong)}; the recipe that continues from it asks "
            f"for {', '.join(f'{name}: {asked[name]}' for name in wrong)}. A retriever keeps its shape: give both recipes the "
            "same values, or set start: encoder."
        )
