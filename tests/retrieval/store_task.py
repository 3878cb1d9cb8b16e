"""A task over a token store, and a retriever for it; and what test_embed_processes.py starts in two processes.

Usage: store_task.py STORE RETRIEVER OUT WINDOWS [seconds to wait before each shard]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import DualEncoder, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.joint import JointEncoder, JointShape
from pretrieve.models.retriever_files import save_retriever
from pretrieve.retrieval import embed
from pretrieve.retrieval.embed_task import TaskTexts, embed_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes

CPU = Device(torch.device("cpu"), bf16=False)
#: Few enough that the tiny corpus has several shards.
CHUNK = 2
QUERY_LENGTH, PASSAGE_LENGTH = 12, 20


class StoreTask(Dataset):
    """Passages of a store as candidates, some with a sentence of it in front; its sentences as queries."""

    def __init__(self, store: TokenStore) -> None:
        self.passages = self.queries = store
        self.candidate_passage = np.arange(store.n_passages)
        first = np.asarray(store.passage_starts[:-1], dtype=np.int64)
        self.candidate_sentence = np.where(self.candidate_passage % 3 == 1, first, -1)
        self.query_ids = [f"q{i}" for i in range(7)]


def small_body(store: TokenStore) -> BodyConfig:
    """Wide initial weights: texts get different vectors."""
    shape = {"hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 64}
    return BodyConfig(vocabulary_size=store.vocabulary_size, dropout=0.1, std=0.3, word_std=0.5, **shape)


def joint(store: TokenStore, parts: str = "both", top: int = 5) -> JointEncoder:
    return JointEncoder(small_body(store), JointShape(6, top, parts), seed=4)


def save(directory: Path, store: TokenStore, encoder: Encoder | JointEncoder, sharing: str) -> DualEncoder:
    """Write a retriever whose towers differ, unless ``sde``; returns it in evaluation mode."""
    dual = dual_encoder(encoder, sharing, seed=8)
    if sharing != "sde":
        with torch.no_grad():
            (dual.query.core if isinstance(encoder, JointEncoder) else dual.query).body.positions.weight.mul_(-0.5)
    save_retriever(directory, dual, about={"vocabulary_sha256": store.meta["vocabulary_sha256"]})
    return dual.eval()


def main() -> None:
    store, retriever, out = TokenStore(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
    windows, pause = int(sys.argv[4]), float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
    processes = Processes.join()
    torch.set_num_threads(1)
    embed.CHUNK_ROWS, embed.SHARDS = CHUNK, 1000
    plain = embed.encode_parts

    def slow(*arguments):
        time.sleep(pause)
        return plain(*arguments)

    embed.encode_parts = slow
    task = StoreTask(store)
    tokens = embed_task(TaskTexts(task, QUERY_LENGTH, PASSAGE_LENGTH, windows), retriever, out, CPU, processes)
    (out / f"tokens.{processes.rank}").write_text(str(tokens))
    processes.leave()


if __name__ == "__main__":
    main()
