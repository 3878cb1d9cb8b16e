"""Two processes write the store that one writes, byte for byte; a killed pair goes on.

Seen to fail when: a process looks at what is missing while another one writes; the second process takes the first one's
shards; tokens are those of one process; finished shards are embedded again; the documents of the windows are not written.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from store_task import CHUNK, CPU, PASSAGE_LENGTH, QUERY_LENGTH, StoreTask, joint, save

from pretrieve.retrieval import embed
from pretrieve.retrieval.embed_task import TaskTexts, embed_task
from pretrieve.retrieval.embeddings import EmbeddingReader, LexicalReader

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
WINDOWS = 3


def pair(store, retriever: Path, out: Path, *more: object) -> list[subprocess.Popen[str]]:
    """Two processes, with the environment that torchrun gives them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = ["tests/retrieval/store_task.py", store.directory, retriever, out, WINDOWS, *more]
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, *map(str, script)],
            cwd=ROOT,
            env=ENVIRONMENT | group | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]


def finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What they printed; both must have ended well."""
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    return errors


def stores(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.suffix in (".json", ".npy")}


@pytest.fixture(scope="module")
def retriever(store, tmp_path_factory) -> Path:
    """Two towers and all four stores."""
    directory = tmp_path_factory.mktemp("retriever")
    save(directory, store, joint(store), "ade")
    return directory


@pytest.fixture(scope="module")
def alone(store, retriever: Path, tmp_path_factory) -> tuple[dict[str, bytes], int]:
    """Files and tokens of one process."""
    out = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embed, "CHUNK_ROWS", CHUNK)
        patch.setattr(embed, "SHARDS", 1000)
        tokens = embed_task(TaskTexts(StoreTask(store), QUERY_LENGTH, PASSAGE_LENGTH, WINDOWS), retriever, out, CPU)
    files = stores(out)
    assert sum(name.startswith("queries-0") for name in files) == 4  # of seven queries
    assert sum(name.startswith("corpus-0") for name in files) > 4 and "corpus-documents.npy" in files
    return files, tokens


def test_a_killed_pair_goes_on_to_the_same_bytes(store, retriever: Path, alone, tmp_path: Path) -> None:
    wanted, tokens = alone
    processes = pair(store, retriever, tmp_path, 0.2)
    try:
        patience = time.monotonic() + 60
        while len(list(tmp_path.glob("*-0*.npy"))) < 4:
            assert all(process.poll() is None for process in processes) and time.monotonic() < patience
            time.sleep(0.01)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    there = stores(tmp_path)
    finished = {name: content for name, content in there.items() if "-0" in name}
    assert finished.items() <= wanted.items() and 4 <= len(finished) < len(wanted) - 6
    assert not {"corpus.json", "queries.json", "queries-lexical.json"} & there.keys()
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in finished if "lexical" not in name}
    errors = finish(pair(store, retriever, tmp_path))
    assert stores(tmp_path) == wanted
    # A shard is kept when it is there in all stores; the dense one is written first, so one a process may be written again.
    kept = [name for name, time in before.items() if (tmp_path / name).stat().st_mtime_ns == time]
    assert len(kept) >= len(before) - 2 and kept
    counts = {(tmp_path / f"tokens.{rank}").read_text() for rank in (0, 1)}
    assert len(counts) == 1 and 0 < int(counts.pop()) < tokens
    # Both had something to do.
    assert "embed corpus:" in errors[0] and "embed corpus [1]:" in errors[1]


def test_two_processes_from_the_start(store, retriever: Path, alone, tmp_path: Path) -> None:
    wanted, tokens = alone
    (tmp_path / "corpus-00000.npy").write_bytes(b"of another run")
    (tmp_path / "corpus-00090.npy").write_bytes(b"of another run")
    finish(pair(store, retriever, tmp_path))
    assert stores(tmp_path) == wanted
    assert [int((tmp_path / f"tokens.{rank}").read_text()) for rank in (0, 1)] == [tokens, tokens]
    corpus, lexical = EmbeddingReader(tmp_path, "corpus"), LexicalReader(tmp_path, "corpus-lexical")
    documents = np.load(tmp_path / "corpus-documents.npy")
    assert corpus.rows == lexical.rows == len(documents) > store.n_passages == documents[-1] + 1
