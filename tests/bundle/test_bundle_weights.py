"""Weights in parts: size limits, the way back, and what bf16 loses, against its definition.

Seen to fail when: bf16 by cutting off instead of rounding; pieces put together in another order; the header's room left out of
the limit; whole numbers kept as bf16; the metadata dropped.
"""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pretrieve.base.errors import DataError
from pretrieve.operations.bundle.weights import INDEX, pack_weights, unpack_weights

LIMIT = 1 << 16


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    generator = torch.Generator().manual_seed(1)
    big = torch.randn(300, 201, generator=generator)  # larger than a part, rows that no part ends with
    small = {f"layer.{i}.bias": torch.randn(7, generator=generator) for i in range(1500)}
    root = tmp_path / "root"
    files = ["results/demo/encoders/a/seed1/model.safetensors", "results/demo/encoders/b/seed1/heads.safetensors"]
    for file, tensors in zip(
        files, ({"word.weight": big, **small}, {"order": torch.arange(2**20, 2**20 + 9)}), strict=True
    ):
        (root / file).parent.mkdir(parents=True)
        save_file(tensors, root / file, metadata={"format": "pt"})
    save_file({"scalar": torch.tensor(3.0), "none": torch.empty(0, 4)}, root / "odd.safetensors")
    monkeypatch.chdir(root)
    return root, [*files, "odd.safetensors"]


def as_bf16(values: np.ndarray) -> np.ndarray:
    """bf16 by its definition: the upper 16 bits of a float32, rounded to nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)


def test_fp32_comes_back_byte_for_byte(models, tmp_path: Path) -> None:
    root, files = models
    written = pack_weights(files, tmp_path / "out", "fp32", LIMIT)
    assert len(written) > 4 and all(file.stat().st_size <= LIMIT for file in written if file.name != INDEX)
    back = dict(unpack_weights(tmp_path / "out"))
    assert list(back) == sorted(files)
    assert all(back[file] == (root / file).read_bytes() for file in files)


def test_bf16_is_rounded_once_and_never_again(models, tmp_path: Path) -> None:
    root, files = models
    written = pack_weights(files, tmp_path / "out", "bf16", LIMIT)
    assert all(file.stat().st_size <= LIMIT for file in written if file.name != INDEX)
    again = tmp_path / "again"
    for file, content in unpack_weights(tmp_path / "out"):
        (again / file).parent.mkdir(parents=True, exist_ok=True)
        (again / file).write_bytes(content)
        originals = load_file(root / file)
        for name, tensor in load_file(again / file).items():
            true = originals[name]
            assert tensor.dtype == true.dtype and tensor.shape == true.shape
            expected = as_bf16(true.numpy()) if true.dtype == torch.float32 else true.numpy()
            assert np.array_equal(tensor.numpy(), expected)
            if true.dtype == torch.float32:
                assert (np.abs(tensor.numpy() - true.numpy()) <= 2.0**-8 * np.abs(true.numpy())).all()
    with chdir(again):
        pack_weights(files, tmp_path / "second", "bf16", LIMIT)
    assert dict(unpack_weights(tmp_path / "second")) == {file: (again / file).read_bytes() for file in files}


def test_a_part_that_is_missing_or_another_is_named(models, tmp_path: Path) -> None:
    _, files = models
    parts = pack_weights(files, tmp_path / "out", "bf16", LIMIT)
    parts[1].write_bytes(parts[0].read_bytes())
    with pytest.raises(DataError, match=r"weights-00002.safetensors: has no piece \d+ of results"):
        dict(unpack_weights(tmp_path / "out"))
    parts[1].write_bytes(parts[0].read_bytes()[:-5])
    with pytest.raises(DataError, match="weights-00002.safetensors: cannot be read"):
        dict(unpack_weights(tmp_path / "out"))
    (tmp_path / "out" / INDEX).unlink()
    with pytest.raises(DataError, match="no such file; expected the index of weights"):
        dict(unpack_weights(tmp_path / "out"))
