"""Directories of what fine-tuning makes: retrievers, and cross-encoders.

=====================  ===============================================================================================
retriever
=====================  ===============================================================================================
config.json, …         the document tower, exactly as an encoder directory (:mod:`pretrieve.models.hf_format`)
heads.safetensors      ``projection.*``; of a joint representation ``mlm.*`` or ``bow.*``, what makes μ
pretrieve.json         what :func:`~pretrieve.models.hf_format.save_encoder` writes, and ``sharing``, ``representation``,
                       ``width``, ``joint`` (the options of :class:`~pretrieve.models.joint.JointEncoder`), and ``files``:
                       name → sha256 of every other file of the retriever. Written last
query/                 the query tower in the same way, unless the towers are one. Shared tensors are in both directories,
                       so that each can be used without the other, and are one again when they are read
=====================  ===============================================================================================

A cross-encoder has the same files without ``query/``; its heads are ``pooler.*`` and ``classifier.*``, and ``pretrieve.json``
says ``kind: cross-encoder``, ``classes`` and ``pooling``. ``AutoModel`` loads the body of each directory.
"""

from __future__ import annotations

import json
from pathlib import Path

from torch import nn

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import remove_if_empty, sha256_of, write_json
from pretrieve.models import hf_format
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import DualEncoder, core, paired
from pretrieve.models.encoder import Encoder
from pretrieve.models.joint import JointEncoder, JointShape

INFO = "pretrieve.json"
_WEIGHTS = ("config.json", "model.safetensors", "heads.safetensors")
_AGAIN = "Delete the directory and run snakemake again."


def save_retriever(directory: Path, dual: DualEncoder, about: dict | None = None) -> None:
    """Write a retriever's directory; equal retrievers give equal bytes. about: more for ``pretrieve.json``."""
    document, query = core(dual.document), core(dual.query)
    own = {name: getattr(dual, name) for name in ("sharing", "representation", "width")} | {"trained_projection": True}
    if isinstance(document, JointEncoder):
        own["joint"] = document.options()
    # Without the list of files, which is written last, the directory is not read as a retriever.
    (directory / INFO).unlink(missing_ok=True)
    _remove(directory / "query")
    names = list(_WEIGHTS)
    if dual.separate:
        hf_format.save_encoder(directory / "query", query, _heads(query), own | {"tower": "query"})
        names += [f"query/{name}" for name in (*_WEIGHTS, INFO)]
    info = (about or {}) | own
    hf_format.save_encoder(directory, document, _heads(document), info)
    _finish(directory, info, names)


def _heads(encoder: Encoder | JointEncoder) -> dict[str, nn.Module]:
    return encoder.heads() if isinstance(encoder, JointEncoder) else {}


def _remove(directory: Path) -> None:
    """Take away the query tower of an earlier retriever in the same place; other files in its folder stay."""
    for name in (*_WEIGHTS, INFO):
        (directory / name).unlink(missing_ok=True)
    remove_if_empty(directory)


def _finish(directory: Path, info: dict, names: list[str]) -> None:
    """Add ``info`` and the hashes of the files to ``pretrieve.json``."""
    path = directory / INFO
    saved = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_json(path, saved | info | {"files": {name: sha256_of(directory / name) for name in names}})


def is_retriever(directory: Path) -> bool:
    """Whether :func:`save_retriever` wrote the directory (and not only an encoder stands there)."""
    path = directory / INFO
    return path.is_file() and "sharing" in _info(path)


def load_retriever(directory: Path) -> tuple[DualEncoder, dict]:
    """Read a retriever's directory; returns the towers, in training mode, and what ``pretrieve.json`` says.

    An encoder directory, which names no sharing, is a retriever with one tower.

    Raises DataError when a file is missing, damaged or another one than was written; the message names it.
    """
    if not is_retriever(directory):
        encoder, about = hf_format.load_encoder(directory)
        return DualEncoder(encoder, encoder, "sde"), about
    about = _info(directory / INFO)
    _check_files(directory, about)
    try:
        sharing, document = about["sharing"], _tower(hf_format.read_encoder(directory), about)
        query = document if sharing == "sde" else _tower(hf_format.read_encoder(directory / "query"), about)
        return paired(query, document, sharing), about
    except (KeyError, TypeError, ConfigError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{directory / INFO}: {what}; it was not written by this version. {_AGAIN}") from None


def _tower(saved: hf_format.Checkpoint, about: dict) -> Encoder | JointEncoder:
    if about["representation"] != "joint":
        return hf_format.encoder_of(saved)
    encoder = JointEncoder(saved.config, JointShape(**about["joint"]), 0, saved.about["head"])
    hf_format.load_model(saved, encoder.body, {"projection": encoder.projection, **encoder.heads()})
    return encoder


def _info(path: Path) -> dict:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {path.parent} is not a directory that fine-tuning made.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({error}). {_AGAIN}") from None
    if not isinstance(about, dict):
        raise DataError(f"{path}: damaged (expected an object). {_AGAIN}")
    return about


def _check_files(directory: Path, about: dict) -> None:
    files = about.get("files")
    if not isinstance(files, dict):
        raise DataError(f"{directory / INFO}: has no list of files; the directory is not complete. {_AGAIN}")
    for name, wanted in sorted(files.items()):
        if not (directory / name).is_file():
            raise DataError(f"{directory / name}: no such file, which {INFO} asks for; the copy is not complete.")
        if (found := sha256_of(directory / name)) != wanted:
            raise DataError(
                f"{directory / name}: damaged or changed (sha256 {found[:12]}, {INFO} says {str(wanted)[:12]}). {_AGAIN}"
            )


def save_cross_encoder(directory: Path, model: CrossEncoder, about: dict | None = None) -> None:
    """Write a cross-encoder's directory."""
    (directory / INFO).unlink(missing_ok=True)
    hf_format.write_model(directory, model.body, model.config, model.heads())
    own = {"kind": "cross-encoder", "classes": model.classes, "pooling": model.pooling, "body": model.config.to_dict()}
    _finish(directory, (about or {}) | own, list(_WEIGHTS))


def load_cross_encoder(directory: Path) -> tuple[CrossEncoder, dict]:
    """Read a cross-encoder's directory; returns the model, in training mode, and what ``pretrieve.json`` says.

    Raises DataError as :func:`load_retriever`; also when it is a directory of another kind.
    """
    about = _info(directory / INFO)
    if about.get("kind") != "cross-encoder":
        raise DataError(f"{directory}: is not a cross-encoder; {INFO} says kind {about.get('kind')!r}.")
    _check_files(directory, about)
    # read_encoder asks for what a cross-encoder has none of.
    saved = hf_format.read_encoder(directory, required=("body", "classes"))
    model = CrossEncoder(saved.config, about["classes"])
    hf_format.load_model(saved, model.body, model.heads())
    return model, about
