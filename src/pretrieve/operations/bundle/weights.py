"""Weights in small parts: what a slice sends home, and how it becomes model files again.

Many machines give files back in pieces of a few MiB only. So the tensors of all models go, one after another, into safetensors
files (https://huggingface.co/docs/safetensors) of at most 16 MiB; a larger tensor is cut into pieces of its flat values.
``weights.index.json`` says where everything is::

    {"kept_as": "bf16",
     "files": {"results/…/model.safetensors": {
         "metadata": {…},
         "tensors": {"encoder.…weight": {
             "dtype": "float32", "shape": [128, 512], "pieces": [["weights-00001.safetensors", "17"]]}}}}}

**What bf16 loses.** Of a float32 number's 23 bits of fraction it keeps 7, rounded to nearest, ties to even: a weight comes back
within 2^-8 of itself (0.4 %; numbers below 2^-126 within 2^-134), and packing what was unpacked changes nothing. Runs and
predictions are made before, with the float32 weights; training from unpacked weights begins from the rounded ones. ``fp32`` keeps
every bit, for twice the size. Numbers that are not float32 are kept as they are.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save, save_file

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.inside import inside
from pretrieve.operations.bundle.results import PART_BYTES
from pretrieve.raw.json_file import read_json

INDEX = "weights.index.json"
#: Bytes of the largest index: that of a thousand models has about fifty million.
LARGEST_INDEX = 256 << 20
_DTYPES = {
    name: getattr(torch, name)
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
#: Room that the header of a part may need for each piece.
_HEADER = 160


def pack_weights(files: Sequence[str], out: Path, kept_as: str, part_bytes: int = PART_BYTES) -> list[Path]:
    """Write the tensors of safetensors ``files`` as parts in ``out``; returns parts and index. kept_as: ``bf16`` or ``fp32``."""
    parts: list[Path] = []
    waiting: dict[str, torch.Tensor] = {}
    index: dict[str, Any] = {}
    used = count = 0

    def flush() -> None:
        nonlocal used
        if waiting:
            parts.append(out / _part_name(len(parts) + 1))
            save_file(waiting, parts[-1])
        waiting.clear()
        used = 0

    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        with safe_open(file, framework="pt") as stored:
            about = index[file] = {"metadata": stored.metadata(), "tensors": {}}
            for name in stored.keys():
                tensor = stored.get_tensor(name)
                kept = tensor.to(torch.bfloat16) if kept_as == "bf16" and tensor.dtype == torch.float32 else tensor
                pieces = []
                length = max(1, (part_bytes - (1 << 12) - _HEADER) // kept.element_size())
                for piece in kept.reshape(-1).split(length) if kept.numel() else ():
                    size = piece.numel() * piece.element_size() + _HEADER
                    if used + size > part_bytes - 8:
                        flush()
                    key = str(count := count + 1)
                    waiting[key], used = piece.contiguous(), used + size
                    pieces.append([_part_name(len(parts) + 1), key])
                dtype = str(tensor.dtype).removeprefix("torch.")
                about["tensors"][name] = {"dtype": dtype, "shape": list(tensor.shape), "pieces": pieces}
    flush()
    write_json(out / INDEX, {"kept_as": kept_as, "files": index})
    return [*parts, out / INDEX]


def unpack_weights(folder: Path, parts: Sequence[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of every model file that :func:`pack_weights` put into ``folder``; in float32 what was float32.

    parts: the files that may be read; any in the folder unless given.

    Raises DataError when the index or a part is missing, damaged, or does not hold what the index says.
    """
    path = folder / INDEX
    index = read_json(path, "the index of weights", most=LARGEST_INDEX)
    if not isinstance(index, dict) or not isinstance(index.get("files"), dict):
        raise DataError(f"{path}: not an index of weights: it has no files. Copy it again.")
    held: tuple[str, dict[str, torch.Tensor]] = ("", {})
    used: set[tuple[str, str]] = set()
    for file, about in index["files"].items():
        _check_index(f"{path}: {file}", about)
        tensors = {}
        for name, entry in about["tensors"].items():
            where = f"{path}: {file}: {name}"
            pieces = []
            for part, key in entry["pieces"]:
                if held[0] != part:
                    if parts is not None and part not in parts:
                        raise DataError(
                            f"{where}: part {part!r} is not in the manifest; copy all parts of one slice again."
                        )
                    held = part, _read_part(inside(folder, part, f"{where}: part"))
                if key not in held[1] or (part, key) in used:
                    raise DataError(
                        f"{folder / part}: has no piece {key} of {file}: {name}; copy all parts of one slice again."
                    )
                used.add((part, key))
                pieces.append(held[1][key])
            tensors[name] = _joined(where, pieces, entry)
        try:
            content = save(tensors, about["metadata"])
        except (SafetensorError, ValueError, TypeError, RuntimeError) as error:
            raise DataError(f"{path}: {file}: cannot be a model file ({error}); copy it again.") from None
        yield file, content


def _check_index(where: str, about: Any) -> None:
    """Raise :class:`DataError` unless ``about`` has the form of a file's entry in the index."""
    try:
        metadata = about["metadata"]
        good = metadata is None or all(isinstance(word, str) for word in metadata.values())
        for entry in about["tensors"].values():
            good &= entry["dtype"] in _DTYPES
            good &= all(type(length) is int and length >= 0 for length in entry["shape"])
            good &= all(isinstance(part, str) and isinstance(key, str) for part, key in entry["pieces"])
    except (KeyError, TypeError, ValueError, AttributeError):
        good = False
    if not good:
        raise DataError(
            f"{where}: not an entry of an index of weights; expected metadata, and dtype, shape and pieces of tensors."
        )


def _joined(where: str, pieces: list[torch.Tensor], entry: dict[str, Any]) -> torch.Tensor:
    """A tensor of its pieces: the numbers that were kept, or float32 of bf16."""
    dtype, count = _DTYPES[entry["dtype"]], math.prod(entry["shape"])
    kinds = {piece.dtype for piece in pieces}
    if not (kinds <= {dtype} or (dtype == torch.float32 and kinds <= {torch.bfloat16})):
        raise DataError(
            f"{where}: its pieces are {', '.join(map(str, kinds))}; expected {entry['dtype']}. Copy it again."
        )
    if sum(piece.numel() for piece in pieces) != count or any(piece.dim() != 1 for piece in pieces):
        found = sum(piece.numel() for piece in pieces)
        raise DataError(f"{where} has {found} numbers, expected shape {entry['shape']}; copy it again.")
    return (torch.cat(pieces) if pieces else torch.empty(0)).to(dtype).reshape(entry["shape"])


def _part_name(number: int) -> str:
    return f"weights-{number:05d}.safetensors"


def _read_part(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: cannot be read ({error}); copy it again.") from error
