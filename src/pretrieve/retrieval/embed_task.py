"""Both sides of a task, its queries and its candidates, embedded by one retriever."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pretrieve.models.hf_format import load_encoder
from pretrieve.retrieval.embed import embed_rows
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.loop import content_key


def embed_task(
    data: Dataset, retriever: Path, out: Path, query_length: int, passage_length: int, device: Device
) -> int:
    """Write the stores ``corpus`` and ``queries`` into ``out``, rows as in the task's Parquet files; returns the number of
    tokens encoded. A run that was killed keeps its finished shards if retriever and task are the same."""
    encoder, about = load_encoder(retriever)
    data.check_vocabulary(about, retriever)
    encoder.to(device.device)
    digests = []
    for name in ("model.safetensors", "heads.safetensors"):
        with open(retriever / name, "rb") as stream:
            digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    rows = hashlib.sha256(data.candidate_sentence.tobytes() + data.candidate_passage.tobytes()).hexdigest()
    key = content_key(about, digests, data.passages.key, data.queries.key, rows, query_length, passage_length)
    sides = (
        ("queries", lambda rows: data.pack_queries(rows, query_length), len(data.query_ids)),
        ("corpus", lambda rows: data.pack_candidates(rows, passage_length), len(data.candidate_passage)),
    )
    return sum(embed_rows(encoder, pack, rows, out, name, key, device) for name, pack, rows in sides)
