"""A disk that runs full, at every stage that writes much: one sentence, nothing half-written, and it goes on after there is room.

The disk is a small one of the test's own (see conftest.py). Seen to fail when: half-written arrays of the token store are left;
numpy's short write goes unnoticed; a download passes the disk's error on as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from fault_places import DISK
from miniature import Workflow, clone

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file
from pretrieve.corpora.tables import TableWriter, read_table
from pretrieve.models.hf_format import write_tensors
from pretrieve.raw.checksums import Checksum
from pretrieve.raw.download import Download
from pretrieve.raw.hub import fetch_checkpoint
from pretrieve.retrieval import bm25
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.shards import Shards
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.text.corpus_tokens import build_vocabulary
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.training.checkpoint import Checkpoints, State

#: Bytes that are left when a stage begins; each of them wants more.
ROOM = 256 << 10
NOISE = random.Random(4)


@contextmanager
def filled(disk: Path, room: int = ROOM) -> Iterator[None]:
    """Leave ``room`` bytes on the disk; all of it again behind the block."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - room)))
    try:
        yield
    finally:
        ballast.unlink()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(disk: Path, work: Callable[[], object], file: str, room: int = ROOM) -> str:
    """Do ``work`` on a disk that is nearly full: what it says; nothing else may be left of it."""
    with filled(disk, room):
        before = tree(disk)
        with pytest.raises(DataError) as raised:
            work()
        message = str(raised.value)
        assert file in message and "no space left on the disk" in message
        assert "it needs" in message and " are free in " in message and "Make room" in message
        assert "\n" not in message and len(message) < 500
        assert tree(disk) == before, "something half-written is left"
    return message


def words(number: int) -> str:
    return "".join(NOISE.choices("abcdefghijklmnopqrstuvwxyz ", k=number))


def test_a_whole_file(small_disk):
    path, content = small_disk / "results/metrics.json", NOISE.randbytes(2 * ROOM)

    def work() -> None:
        with whole_file(path) as stream:
            stream.write(content)

    path.parent.mkdir()
    path.write_bytes(b"before")
    message = refused(small_disk, work, "results/metrics.json")
    assert path.read_bytes() == b"before", "what stood there stays"
    free = int(message.partition(", and ")[2].split()[0].replace(",", ""))
    assert abs(free - ROOM) < 16 << 10, "what is free is counted without the half-written file"
    work()
    assert path.read_bytes() == content


def test_a_corpus_table(small_disk):
    schema = pa.schema([("id", pa.int32()), ("text", pa.string())])
    rows = [(number, words(900)) for number in range(1500)]

    def work() -> None:
        with TableWriter(small_disk / "passages.parquet", schema, row_group=100) as table:
            for row in rows:
                table.append(row)

    refused(small_disk, work, "passages.parquet")
    work()
    assert read_table(small_disk / "passages.parquet")["id"].to_pylist() == list(range(1500))


def test_a_collection(small_disk):
    texts = [words(900) for _ in range(1500)]

    def work() -> None:
        with CollectionWriter(small_disk / "collection", "beir") as writer:
            writer.at(Path("raw.jsonl"))
            for number, text in enumerate(texts):
                writer.add_document(f"d{number}", "", text)
            writer.add_query("q", "what", "test")
            writer.add_judgement("q", "d1", 1, "test")

    refused(small_disk, work, "collection.parquet")
    work()
    assert read_table(small_disk / "collection/collection.parquet").num_rows == 1500


def test_a_vocabulary(small_disk, tiny_corpus):
    place = small_disk / "tokenizer.json"
    place.write_text("before")
    refused(small_disk, lambda: build_vocabulary(tiny_corpus, 200, None, place), "tokenizer.json", room=0)
    assert place.read_text() == "before"
    build_vocabulary(tiny_corpus, 200, None, place)
    assert json.loads(place.read_text())["model"]["vocab"]


def test_a_token_store(small_disk, vocabulary):
    sentence = lambda: " ".join(NOISE.choices("abcdefgh", k=200))  # a token for each letter
    passages = [PassageText([sentence(), sentence()], number, number) for number in range(600)]
    directory = small_disk / "tokens"
    refused(small_disk, lambda: write_token_store(directory, vocabulary, passages), "tokens/")
    with pytest.raises(DataError, match="no such token store"):
        TokenStore(directory)
    assert write_token_store(directory, vocabulary, passages).n_passages == 600


def test_a_checkpoint(small_disk):
    checkpoints = Checkpoints(small_disk / "checkpoints", "key")
    state = lambda step: State(step, {"w": torch.full((ROOM // 8,), float(step))}, {"loss": step})
    checkpoints.save(state(1))
    message = refused(small_disk, lambda: checkpoints.save(state(2)), "step-00000002.safetensors", room=ROOM // 4)
    assert f"it needs {ROOM // 2:,} bytes" in message
    assert checkpoints.latest().step == 1, "the one before is still good"
    checkpoints.save(state(2))
    assert checkpoints.latest().tensors["w"][0] == 2


def test_a_model(small_disk):
    tensors = {"w": torch.ones(ROOM)}
    refused(small_disk, lambda: write_tensors(tensors, small_disk / "model.safetensors"), "model.safetensors")
    write_tensors(tensors, small_disk / "model.safetensors")


def test_embeddings_keep_the_shards_that_are_whole(small_disk):
    rows, dim, size = 1000, 128, 200  # 100 KB a shard: two fit
    matrix = np.random.default_rng(3).normal(size=(rows, dim)).astype(np.float32)
    writer = lambda: EmbeddingWriter(small_disk / "embeddings", "corpus", rows, dim, "key", Shards(size))
    with filled(small_disk):
        first = writer()
        with pytest.raises(DataError, match="no space left on the disk") as raised:
            for shard, start, stop in first.pending():
                first.write(shard, matrix[start:stop])
        assert "corpus-00002.npy" in str(raised.value)
        names = {path.name for path in (small_disk / "embeddings").iterdir()}
        assert names == {"corpus.plan.json", "corpus-00000.npy", "corpus-00001.npy"}
    again = writer()
    assert [shard for shard, _, _ in again.pending()] == [2, 3, 4], "whole shards are kept"
    for shard, start, stop in again.pending():
        again.write(shard, matrix[start:stop])
    again.finish()
    assert np.array_equal(EmbeddingReader(small_disk / "embeddings", "corpus").read(), matrix)


def test_a_lucene_index(small_disk):
    documents = [(f"d{number}", words(3000)) for number in range(600)]
    refused(small_disk, lambda: bm25.build_index(documents, small_disk / "index"), "index")
    assert bm25.build_index(documents, small_disk / "index") == 600


# ------------------------------------------------------------------------------------------------------------ downloads


class Handler(BaseHTTPRequestHandler):
    """One file; ``server.told``: whether its length is said. A range is served where one is asked for."""

    def do_GET(self) -> None:
        content, start = self.server.content, 0
        self.server.asked.append(self.headers.get("Range"))
        if asked := self.headers.get("Range"):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"one"')
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.told:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content[start:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.content, made.asked, made.told = NOISE.randbytes(4 * ROOM), [], False
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def fetch(server, disk: Path) -> None:
    expected = Checksum("sha256", hashlib.sha256(server.content).hexdigest())
    download = Download(attempts=2, wait=0.01, timeout=5.0)
    download(f"http://127.0.0.1:{server.server_address[1]}/file.bin", disk / "file.bin", expected)


def test_a_download_that_cannot_fit_is_not_begun(small_disk, server):
    server.told = True
    with filled(small_disk):
        with pytest.raises(DataError, match=f"{4 * ROOM:,} bytes to come.* free: make room"):
            fetch(server, small_disk)
        assert not (small_disk / "file.bin").exists()
    fetch(server, small_disk)
    assert (small_disk / "file.bin").read_bytes() == server.content


def test_a_download_goes_on_where_the_disk_was_full(small_disk, server):
    """Its length is not known before; what came is no half-written file but the beginning that the next try goes on from."""
    with filled(small_disk):
        with pytest.raises(DataError, match="no space left on the disk") as raised:
            fetch(server, small_disk)
        assert "bytes are kept" in str(raised.value)
        kept = (small_disk / ".file.bin.part").stat().st_size
        assert 0 < kept <= ROOM and not (small_disk / "file.bin").exists()
    fetch(server, small_disk)
    assert server.asked == [None, f"bytes={kept}-"]
    assert tree(small_disk) == {"file.bin": server.content}


def test_a_checkpoint_of_a_mirror(small_disk, tmp_path):
    mirror = tmp_path / "mirror/hub/some/model"
    mirror.mkdir(parents=True)
    (mirror / "config.json").write_text("{}")
    write_tensors({"x": torch.randn(ROOM // 2)}, mirror / "model.safetensors")
    size = (mirror / "model.safetensors").stat().st_size
    work = lambda: fetch_checkpoint("hub:some/model", small_disk / "model", tmp_path / "mirror")
    with filled(small_disk):
        with pytest.raises(DataError, match=rf"model.safetensors: no space left on the disk: it needs {size:,} bytes"):
            work()
        assert not [name for name in tree(small_disk) if name.endswith(".part")]
    work()
    assert (small_disk / "model/model.safetensors").stat().st_size == size


# ------------------------------------------------------------------------------------------------ programs, workflow


def test_a_program_says_it_in_one_line_though_its_log_is_on_the_same_disk(small_disk, program, tiny_corpus):
    place, log = small_disk / "corpus/tokenizer.json", small_disk / "logs/vocabulary.log"
    command = ["workflow_scripts/tokens.py", "vocabulary", "--corpus", tiny_corpus, "--size", 200]
    command += ["--out", place, "--log", log]
    log.parent.mkdir()
    with filled(small_disk, room=0):
        ended = program(*command)
        assert ended.returncode == 1 and "Traceback" not in ended.stderr + ended.stdout
        assert "Exception ignored" not in ended.stderr
        (line,) = [line for line in ended.stderr.splitlines() if line.startswith("DataError: ")]
        assert "tokenizer.json: no space left on the disk" in line and "free" in line and "Make room" in line
        assert not place.exists()
    assert program(*command).returncode == 0
    assert log.read_text().startswith("started in ") and place.exists()


def test_it_is_said_too_where_temporary_files_have_no_room_either(program):
    """``/tmp`` is on the same disk, and an error that names no file is met; here no file at all may have a byte."""
    code = """if True:
        import resource
        from pretrieve.base.program import run_program
        def write():
            raise OSError(28, "No space left on device")
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        run_program(write)
    """
    ended = program("-c", code)
    assert ended.returncode == 1 and ended.stderr.startswith("DataError: a file could not be written: no space left on")
    assert ended.stderr.count("\n") == 1


def test_a_table_of_the_workflow(small_disk, undisturbed: Workflow, fault_folders):
    """Snakemake shows the sentence, keeps what it has, and makes the table when there is room."""
    workflow = clone(undisturbed, fault_folders / "tables")
    tables = workflow.folder / "results/demo/tables"
    made = {path.name: path.read_bytes() for path in tables.rglob("*.csv")}
    shutil.rmtree(tables)
    tables.symlink_to(small_disk)
    target = "results/demo/tables/pretraining_tasks/table3.csv"
    (small_disk / "pretraining_tasks").mkdir()
    with filled(small_disk, room=0):
        ended = workflow.run("--cores", "1", target)
        assert ended.code != 0 and "Traceback" not in ended.text
        assert "table3.csv: no space left on the disk" in ended.stderr
        assert [name for name in tree(small_disk) if name != "ballast"] == []
    ended = workflow.run("--cores", "1", target)
    assert ended.code == 0, ended.text
    assert (tables / "pretraining_tasks/table3.csv").read_bytes() == made["table3.csv"]


def test_the_disk_is_the_small_one(small_disk):
    assert shutil.disk_usage(small_disk).total == DISK and os.path.ismount(small_disk)
