"""A tiny task that can be learnt: eight topics, each with one candidate and five questions that share no word with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import save_encoder
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.token_store import PassageText, write_token_store
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file

TOPICS, QUESTIONS = 8, 5


@pytest.fixture(scope="session")
def task_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("task") / "vocab.txt"
    words = [f"{kind}{i}" for kind in "tsuv" for i in range(TOPICS)]
    path.write_text("\n".join([*SPECIAL_TOKENS, *words]))
    return from_vocab_file(path)


@pytest.fixture(scope="session")
def task_dir(tmp_path_factory: pytest.TempPathFactory, task_tokenizer: Tokenizer) -> Path:
    """Question ``q{topic}-{i}`` is "t{topic} u{i}"; candidate ``d{topic}`` is the sentence "s{topic} v{…}" of its passage.
    Candidate ``x`` has no sentence, and stands first. Of each topic's questions 3 train, 1 validates, 1 tests."""
    directory = tmp_path_factory.mktemp("task-files")
    passages = [PassageText([f"s{k} v{(k + 3) % TOPICS}", f"v{k}"], k, k) for k in range(TOPICS)]
    write_token_store(directory / "passages", task_tokenizer, passages)
    questions = [(f"q{k}-{i}", f"t{k} u{i}", k) for k in range(TOPICS) for i in range(QUESTIONS)]
    write_token_store(
        directory / "queries", task_tokenizer, [PassageText([text], n, n) for n, (_, text, _) in enumerate(questions)]
    )
    write = lambda name, **columns: pq.write_table(pa.table(columns), directory / f"{name}.parquet")
    write(
        "corpus",
        passage_index=pa.array([0, *range(TOPICS)], pa.int32()),
        doc_id=["x", *(f"d{k}" for k in range(TOPICS))],
        sentence_index=pa.array([-1, *(2 * k for k in range(TOPICS))], pa.int32()),
    )
    write("queries", text=[text for _, text, _ in questions], query_id=[name for name, _, _ in questions])
    # Judged irrelevant first, then relevant; columns in another order than they are asked for.
    write(
        "qrels",
        relevance=[r for _ in questions for r in (0, 1)],
        doc_id=[d for _, _, k in questions for d in (f"d{(k + 1) % TOPICS}", f"d{k}")],
        query_id=[name for name, _, _ in questions for _ in (0, 1)],
    )
    (directory / "stats.json").write_text("{}")
    parts = ["train", "train", "train", "valid", "test"]
    write(
        "splits",
        split=[parts[n % QUESTIONS] for n in range(len(questions))],
        size=["60pct"] * len(questions),
        query_id=[name for name, _, _ in questions],
    )
    return directory


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
def encoder_dir(tmp_path: Path, task: Dataset) -> Path:
    config = BodyConfig(
        vocabulary_size=task.passages.vocabulary_size,
        hidden=16,
        layers=1,
        heads=2,
        feed_forward=32,
        max_positions=20,
        dropout=0.1,
        word_std=0.3,
    )
    directory = tmp_path / "encoder"
    vocabulary = task.passages.meta["vocabulary_sha256"]
    about = {"trained_projection": False, "seed": 3, "vocabulary_sha256": vocabulary}
    save_encoder(directory, Encoder(config, 16, "mean", 3), about=about)
    return directory
