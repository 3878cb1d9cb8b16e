"""Which tokens of a corpus the pre-training jobs of a bundle read, and a copy of its store with only those.

A token store is the largest piece of a bundle, and training for some thousand steps reads a part of it: a passage is drawn or
not, and of a long one only the first tokens are read. What is read follows from the options and the seed alone, so it is found in
advance, by drawing the batches of every step without training on them: :class:`Watched` notes every item that is read.

In the copy, the tokens that no job reads are 0, which takes next to no room when it is packed. Everything else is as in the whole
store: lengths, numbers of passages, draws; and its name (:attr:`pretrieve.text.token_store.TokenStore.key`), which ``meta.json``
states. So training on the copy gives the bits of training on the store, for the jobs it was made for, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pretrieve.base.progress import Progress
from pretrieve.operations.bundle.jobs import Job
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.pretrain import make_encoder
from pretrieve.pretraining.setting import Setting
from pretrieve.text.token_store import TokenStore


class Watched:
    """An array (n,) that notes which of its items are read: ``seen`` (n,) bool."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.dtype, self.shape = array, array.dtype, array.shape
        self.seen = np.zeros(len(array), dtype=bool)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, rows: Any) -> np.ndarray:
        self.seen[rows] = True
        return self._array[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.seen[:] = True
        return np.asarray(self._array, dtype=dtype)


def tokens_read(directory: Path, calls: Sequence[dict[str, Any]]) -> np.ndarray:
    """(T,) bool: the tokens of a store that pre-training reads. calls: ``options`` and ``seed`` of each."""
    store = TokenStore(directory)
    watched = store.tokens = Watched(store.tokens)
    with Progress("tokens that are read", len(calls), "jobs") as progress:
        for call in calls:
            _draw(store, EncoderOptions.from_dict(call["options"]), call["seed"])
            progress.advance()
    return watched.seen


def _draw(store: TokenStore, options: EncoderOptions, seed: int) -> None:
    if options.budget is None:
        return
    # Its start decides its weights, but no draw.
    encoder = make_encoder(options, store, seed)
    read, budget = store.read_by(encoder.config.kind), options.budget
    setting = Setting(options.objective, budget.batch, encoder, read, seed, torch.device("cpu"))
    objective = build_objective(setting)
    # Masks are drawn on what was read: they would only take time.
    draw = objective.examples.sequences if hasattr(objective, "examples") else objective.micro_batches
    for step in range(budget.steps_over(len(objective.examples) if budget.epochs else 0)):
        draw(step)


def thin_stores(jobs: Sequence[Job]) -> dict[str, bytes]:
    """File of a token store → what of it the pre-training among ``jobs`` reads, for all stores that they read."""
    calls: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        if job.call.program == "pretrain":
            one = {"options": job.call.json("options"), "seed": int(job.call.one("seed"))}
            calls.setdefault(job.call.one("store"), []).append(one)
    contents = {}
    for place, own in calls.items():
        store = TokenStore(Path(place))
        seen = tokens_read(Path(place), own)
        contents[f"{place}/tokens.bin"] = np.where(seen, store.tokens, store.tokens.dtype.type(0)).tobytes()
        meta = json.dumps(store.meta | {"key": store.key}, sort_keys=True, indent=1, ensure_ascii=False)
        contents[f"{place}/meta.json"] = f"{meta}\n".encode()
    return contents
