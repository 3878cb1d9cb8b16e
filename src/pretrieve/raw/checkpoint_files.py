"""Which files of a directory are a checkpoint. Standard library only: the workflow looks before any job starts.

==========================================  ============================================================================
layout                                      files
==========================================  ============================================================================
this project's                              pretrieve.json, config.json, model.safetensors, heads.safetensors
transformers'                               config.json; model.safetensors or pytorch_model.bin, or parts with an index
Condenser's (modeling.py:121-131)           transformers', and model.pt: the head's layers ``c_head.*``
FlagEmbedding's (RetroMAE, modeling.py)     encoder_model/ (transformers'), pytorch_model.bin: ``lm.*``, ``c_head.*``
fairseq's (SEED-Encoder, RoBERTa)           one .pt file and no config.json; or the file itself
==========================================  ============================================================================

The vocabulary stands beside the weights, as tokenizer.json or vocab.txt. The names that an index gives its parts come from
outside: :func:`pretrieve.base.inside.inside`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.base.inside import inside
from pretrieve.raw.json_file import read_json

OWN = "pretrieve.json"
#: Single files of weights, and indices of several, in the order in which they are looked for.
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
OWN_FILES = ("config.json", "model.safetensors", "heads.safetensors", OWN)
VOCABULARIES = ("tokenizer.json", "vocab.txt")
#: Condenser's head beside its encoder, and the arguments of its run, which are a pickle and are never read.
HEADS, ARGUMENTS = "model.pt", "args.pt"
ENCODER_FOLDER = "encoder_model"
#: Bytes; the index of a model with ten thousand tensors has one megabyte.
LARGEST_INDEX = 16 << 20


@dataclass(frozen=True)
class CheckpointFiles:
    """weights: all files of the encoder, and ``index`` where they are parts; heads: a file of heads alone, or None;
    config: None for fairseq's files."""

    path: Path
    own: bool
    config: Path | None
    weights: tuple[Path, ...]
    heads: Path | None
    vocabulary: Path | None
    index: Path | None = None

    def all(self) -> list[Path]:
        """Every file, the first one being of the directory itself."""
        found = [self.path / name for name in OWN_FILES] if self.own else [*self.weights]
        return [*found, *(file for file in (self.config, self.heads, self.vocabulary) if file and file not in found)]


def find_checkpoint(path: Path) -> CheckpointFiles:
    """What is at ``path``: a directory in one of the layouts above, or a file of fairseq's.

    Raises DataError when there is no checkpoint, or a part of one is missing; the message says what was looked for.
    """
    path = Path(path)
    if path.is_file():
        return CheckpointFiles(path, False, None, (path,), None, _first(path.parent, VOCABULARIES))
    if not path.is_dir():
        raise DataError(f"{path}: no such directory or file; expected a checkpoint.")
    if (path / OWN).is_file():
        _all_there(path, [path / name for name in OWN_FILES], OWN)
        return CheckpointFiles(path, True, path / "config.json", (path / "model.safetensors",), None, None)
    inner = path / ENCODER_FOLDER if (path / ENCODER_FOLDER).is_dir() else path
    index, weights = next((found for found in (_weights(path), _weights(inner)) if found[1]), (None, ()))
    if not weights:
        raise DataError(
            f"{path}: no checkpoint; expected {', '.join(WEIGHTS)} or one .pt file of fairseq's, found "
            f"{', '.join(sorted(file.name for file in path.iterdir())) or 'nothing'}."
        )
    heads = path / HEADS if (path / HEADS).is_file() and path / HEADS not in weights else None
    vocabulary = _first(inner, VOCABULARIES) or _first(path, VOCABULARIES)
    return CheckpointFiles(path, False, _first(inner, ("config.json",)), weights, heads, vocabulary, index)


def room_of(directory: Path) -> Path:
    """Where links in a checkpoint's folder may lead to: nowhere else; in the cache of ``huggingface_hub``, whose folders consist
    of links to ``blobs/``, to the folder of the same model."""
    real = Path(os.path.realpath(directory))
    return next((up.parents[1] for up in (real, *real.parents) if up.parent.name == "snapshots"), directory)


def _first(directory: Path, names: tuple[str, ...]) -> Path | None:
    return next((directory / name for name in names if (directory / name).is_file()), None)


def _weights(directory: Path) -> tuple[Path | None, tuple[Path, ...]]:
    """The index, if there is one, and the files."""
    found = _first(directory, WEIGHTS)
    if found is not None and found.suffix == ".json":
        shown = read_json(found, "an index of weights", most=LARGEST_INDEX)
        parts = shown.get("weight_map") if isinstance(shown, dict) else None
        if not isinstance(parts, dict) or not parts or not all(isinstance(part, str) for part in parts.values()):
            raise DataError(f"{found}: not an index of weights; expected an object with weight_map: tensor to file.")
        taken: dict[str, str] = {}
        files = [
            inside(directory, part, f"{found}: file", room_of(directory), taken) for part in sorted(set(parts.values()))
        ]
        _all_there(directory, files, found.name)
        return found, tuple(files)
    if found is not None:
        return None, (found,)
    single = sorted(file for file in directory.glob("*.pt") if file.name not in (HEADS, ARGUMENTS))
    if not single and not (directory / "config.json").is_file():
        single = sorted(directory.glob(HEADS))  # fairseq's RoBERTa is a model.pt by itself
    if len(single) > 1:
        names = ", ".join(file.name for file in single)
        raise DataError(f"{directory}: {len(single)} checkpoints ({names}); name one of the files instead.")
    return None, tuple(single)


def _all_there(directory: Path, files: list[Path], why: str) -> None:
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"{directory}: {', '.join(missing)} missing, which {why} asks for; the copy is not complete.")
