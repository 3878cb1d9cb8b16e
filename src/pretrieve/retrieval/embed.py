"""Embedding: vectors of many texts, in length buckets by token budget, to memory-mapped shards that resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.retrieval.embeddings import EmbeddingWriter
from pretrieve.text.packing import Packed
from pretrieve.training.device import Device
from pretrieve.training.progress import Progress

#: Rows whose tokens are laid out at once, and sorted by length together.
CHUNK_ROWS = 8192
#: Tokens of one forward pass: on a CPU what its caches hold (larger batches are 1.2 times slower), on a GPU what fills it.
TOKEN_BUDGET = {"cpu": 4096, "cuda": 65_536}

Pack = Callable[[np.ndarray], Packed]


def encode(
    encoder: Encoder, pack: Pack, rows: np.ndarray, device: Device, progress: Progress | None = None
) -> np.ndarray:
    """Vectors (n, dim) float32 of rows (n,), in their order; ``pack`` turns rows into a packed batch.

    Rows are laid out ``CHUNK_ROWS`` at a time, which sorts them by length, and run at most ``TOKEN_BUDGET`` tokens at a time, so
    every forward pass costs the same and hardly a token of padding. The encoder is left in the mode it was in.
    """
    was_training = encoder.training
    encoder.eval()
    vectors = np.empty((len(rows), encoder.dim), dtype=np.float32)
    with torch.inference_mode():
        for begin in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[begin : begin + CHUNK_ROWS]
            packed = pack(chunk)
            for first, last in packed.slices(TOKEN_BUDGET[device.device.type]):
                with device.autocast():
                    result = encoder(Batch.of(packed.part(first, last), device.device))
                vectors[begin + packed.order[first:last]] = result.float().cpu().numpy()
            if progress is not None:
                progress.advance(len(chunk))
    encoder.train(was_training)
    return vectors


def embed_rows(
    encoder: Encoder,
    pack: Pack,
    rows: int,
    directory: Path,
    name: str,
    key: str,
    device: Device,
    shard_rows: int = 262_144,
) -> int:
    """Embed rows 0..rows-1 into the store ``directory/name`` and return the number of tokens that were encoded; finished
    shards of an earlier run are kept."""
    tokens = 0

    def counted(wanted: np.ndarray) -> Packed:
        nonlocal tokens
        packed = pack(wanted)
        tokens += len(packed.tokens)
        return packed

    writer = EmbeddingWriter(directory, name, rows, encoder.dim, key, shard_rows)
    pending = writer.pending()
    done = rows - sum(stop - start for _, start, stop in pending)
    with Progress(f"embed {name}", total=rows, unit="texts", initial=done) as progress:
        for shard, start, stop in pending:
            writer.write(shard, encode(encoder, counted, np.arange(start, stop), device, progress))
    writer.finish()
    return tokens
