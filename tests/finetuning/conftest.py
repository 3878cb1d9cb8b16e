"""The tiny task of :mod:`tiny_task`, and an encoder for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ranking_small import body
from tiny_task import make_task, make_tokenizer
from tokenizers import Tokenizer

from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import save_encoder
from pretrieve.tasks.dataset import Dataset


@pytest.fixture(scope="session")
def task_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("task") / "vocab.txt")


@pytest.fixture(scope="session")
def task_dir(tmp_path_factory: pytest.TempPathFactory, task_tokenizer: Tokenizer) -> Path:
    return make_task(tmp_path_factory.mktemp("task-files"), task_tokenizer)


@pytest.fixture
def task(task_dir: Path) -> Dataset:
    return Dataset(task_dir)


@pytest.fixture
def changed_task(task_dir: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the task with some columns of one table replaced."""

    def change(table: str, **columns: list) -> Path:
        directory = tmp_path / "changed"
        shutil.copytree(task_dir, directory, dirs_exist_ok=True)
        path = directory / f"{table}.parquet"
        rows = pq.read_table(path).to_pydict() | columns
        pq.write_table(pa.table(rows), path)
        return directory

    return change


@pytest.fixture
def two_answers(changed_task) -> Dataset:
    """A task where every query has two relevant documents: d(k+1) and d(k)."""
    return Dataset(changed_task("qrels", relevance=[1] * 80))


@pytest.fixture
def encoder_dir(tmp_path: Path, task: Dataset) -> Path:
    config = body(task.passages.vocabulary_size, 0.1)
    directory = tmp_path / "encoder"
    vocabulary = task.passages.meta["vocabulary_sha256"]
    about = {"trained_projection": False, "seed": 3, "vocabulary_sha256": vocabulary}
    save_encoder(directory, Encoder(config, 16, "mean", 3), about=about)
    return directory
