"""Files of tensors: safetensors, and the .bin and .pt files of torch.

A .bin or .pt file is a pickle, which can run code when it is read. It is read with ``weights_only=True``, which admits
tensors and plain containers alone; for fairseq's files also ``argparse.Namespace``, in which fairseq 0.10 keeps the
options of the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from pretrieve.base.errors import DataError


def read_tensors(files: tuple[Path, ...]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """All tensors of the files, and what else a fairseq file says of its model ({} for others).

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
