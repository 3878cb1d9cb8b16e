"""Embedding: vectors of many texts, in length buckets by token budget, to memory-mapped shards that resume.

**Shares.** A store is cut into shards by its number of rows alone, so its files do not depend on how many processes write them.
Under ``torchrun`` process r of n takes the shards r, r + n, … of all that are still missing, those of all stores counted
together; the first process alone prepares the stores and finishes them. Several GPUs are several processes.

**Bits.** The rows of a shard are laid out ``CHUNK_ROWS`` at a time, and a shard is a multiple of that, so every forward pass has
the same texts whatever the shards, the processes, and what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from pretrieve.base.progress import Progress
from pretrieve.models.batch import Batch
from pretrieve.models.linear import packed_weights
from pretrieve.retrieval.shards import Part, ShardWriter
from pretrieve.text.packing import Packed
from pretrieve.training.device import Device
from pretrieve.training.memory import out_of_memory, token_budgets
from pretrieve.training.processes import Processes

#: Rows whose tokens are laid out at once, and sorted by length together.
CHUNK_ROWS = 8192
#: Tokens of one forward pass: on a CPU what its caches hold (larger batches are 1.2 times slower), on a GPU what fills it.
TOKEN_BUDGET = token_budgets(cpu=4096, cuda=65_536)
#: Shards that a store has at least, if its rows allow it: work for that many processes.
SHARDS = 32
#: Rows and bytes of a shard at most; what a process holds in memory, and what a killed one loses.
SHARD_ROWS, SHARD_BYTES = 262_144, 1 << 30

Pack = Callable[[np.ndarray], Packed]
Compute = Callable[[Batch], Sequence[torch.Tensor]]


def encode(
    encoder: nn.Module, pack: Pack, rows: np.ndarray, device: Device, progress: Progress | None = None
) -> np.ndarray:
    """Vectors (n, dim) float32 of rows (n,), in their order; ``pack`` turns rows into a packed batch.

    encoder: a tower (:mod:`pretrieve.models.dual_encoder`), or a cross-encoder, whose vectors are its logits. Rows are laid out
    ``CHUNK_ROWS`` at a time, which sorts them by length, and run at most ``TOKEN_BUDGET`` tokens at a time, so every forward
    pass costs the same and hardly a token of padding. The encoder is left in the mode it was in.
    """
    parts = [Part("", encoder.width, np.dtype("<f4"))]
    return encode_parts(encoder, lambda batch: [encoder(batch)], parts, pack, rows, device, progress)[0]


def encode_parts(
    module: nn.Module,
    compute: Compute,
    parts: Sequence[Part],
    pack: Pack,
    rows: np.ndarray,
    device: Device,
    progress: Progress | None = None,
) -> list[np.ndarray]:
    """As :func:`encode`, for what has several matrices: ``compute`` gives a tensor (texts, width) for each of ``parts``."""
    was_training = module.training
    module.eval()
    results = [np.empty((len(rows), part.width), dtype=part.dtype) for part in parts]
    with torch.inference_mode(), packed_weights():
        for begin in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[begin : begin + CHUNK_ROWS]
            packed = pack(chunk)
            for first, last in packed.slices(TOKEN_BUDGET[device.device.type]):
                part = packed.part(first, last)
                try:
                    with device.autocast():
                        tensors = compute(Batch.of(part, device.device))
                except torch.OutOfMemoryError as error:
                    numbers = sum(parameter.numel() for parameter in module.parameters())
                    raise out_of_memory("embedding", error, len(part.tokens), last - first, numbers, False) from None
                for result, tensor in zip(results, tensors, strict=True):
                    # numpy has no bf16
                    tensor = tensor.float() if tensor.is_floating_point() else tensor
                    result[begin + packed.order[first:last]] = tensor.cpu().numpy()
            if progress is not None:
                progress.advance(len(chunk))
    module.train(was_training)
    return results


def shard_rows(rows: int, row_bytes: int) -> int:
    """Rows of a shard of a store with ``rows`` rows of ``row_bytes`` bytes.

    A multiple of ``CHUNK_ROWS`` that gives ``SHARDS`` shards or more, up to ``SHARD_ROWS`` and ``SHARD_BYTES``; less than a chunk
    where that is more bytes.

    >>> [shard_rows(rows, 4 * 768) for rows in (100, 600_000, 8_841_823)]
    [8192, 16384, 262144]
    >>> shard_rows(100_000, 4 * 30_522)  # a query's words
    8192
    >>> shard_rows(100_000, 4 * 250_000)
    1073
    """
    wanted = CHUNK_ROWS * (rows // (SHARDS * CHUNK_ROWS))
    room = max(1, SHARD_BYTES // max(1, row_bytes))
    room = room - room % CHUNK_ROWS if room > CHUNK_ROWS else room
    return min(max(wanted, CHUNK_ROWS), SHARD_ROWS, room)


@dataclass(frozen=True)
class Job:
    """Texts and the stores that their vectors go to: ``compute`` gives a tensor for each part of each store, in order."""

    name: str
    module: nn.Module
    compute: Compute
    pack: Pack
    rows: int
    stores: Sequence[ShardWriter]

    def pending(self) -> list[tuple[int, int, int]]:
        """Shards (shard, first row, row after the last) that one of the stores lacks; all have the same shards."""
        return sorted({shard for store in self.stores for shard in store.pending()})

    def write(self, shard: int, start: int, stop: int, device: Device, progress: Progress) -> int:
        """Embed and write one shard; returns its tokens."""
        tokens = 0

        def counted(wanted: np.ndarray) -> Packed:
            nonlocal tokens
            packed = self.pack(wanted)
            tokens += len(packed.tokens)
            return packed

        parts = [part for store in self.stores for part in store.parts]
        rows = np.arange(start, stop)
        arrays = iter(encode_parts(self.module, self.compute, parts, counted, rows, device, progress))
        for store in self.stores:
            store.write(shard, *(next(arrays) for _ in store.parts))
        return tokens


def run_jobs(
    make: Callable[[bool], Sequence[Job]],
    device: Device,
    processes: Processes | None = None,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Do all jobs, with the other processes if there are any; returns the tokens that all of them encoded.

    make: gives the jobs, their stores owned or not; before: what the owner does between the making and the embedding.
    """
    processes = processes or Processes()
    jobs: Sequence[Job] = []
    if processes.first:
        jobs = make(True)
        before()
    processes.wait()
    if not processes.first:
        jobs = make(False)
    pending = [(job, *shard) for job in jobs for shard in job.pending()]
    processes.wait()  # all have seen the same before one writes
    mine = [item for _, item in processes.share(pending)]
    tokens = 0
    for job in jobs:
        todo = [shard for owner, *shard in mine if owner is job]
        missing = sum(stop - start for owner, _, start, stop in pending if owner is job)
        others = missing - sum(stop - start for _, start, stop in todo)
        label = f"embed {job.name}" if processes.first else f"embed {job.name} [{processes.rank}]"
        with Progress(label, job.rows - others, "texts", job.rows - missing) as progress:
            for shard in todo:
                tokens += job.write(*shard, device, progress)
    total = sum(processes.every(tokens))  # and all have written theirs
    if processes.first:
        for store in [store for job in jobs for store in job.stores]:
            store.finish()
    processes.wait()
    return int(total)
