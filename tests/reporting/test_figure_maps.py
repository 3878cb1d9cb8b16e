"""t-SNE maps: which texts are drawn, which vectors they have, and that the number says what the eye would see.

Seen to fail when: answers are drawn from all candidates; vectors keep their lengths; answers come before questions; a point is
its own nearest neighbour; a map is made anew for each panel.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny_figure import write_figure, write_run

from pretrieve.base.errors import DataError
from pretrieve.references.figures import load_figure
from pretrieve.reporting.figures import maps
from pretrieve.reporting.figures.measure import measure_figure
from pretrieve.retrieval.embeddings import EmbeddingWriter
from pretrieve.retrieval.search_task import TaskIds
from pretrieve.tasks.splits import shuffled

FIGURE = """\
paper: tiny
figure: figure1
caption: Maps.
source: §4.3
claim: They mix.
map: {texts: 30, seed: 1, perplexity: 30}
panels:
  apart:
    title: Apart
    draw: scatter
    x: {label: t-SNE 1, scale: linear}
    y: {label: t-SNE 2, unit: coordinate}
    series:
      - &questions {name: questions, method: questions, from: map, part: questions, role: qa, system: ours.reqa-full}
      - {<<: *questions, name: answers, method: answers, part: answers}
  all:
    title: Separation
    draw: line
    x: {label: Sharing, scale: category}
    y: {label: Same kind, unit: fraction}
    series:
      - &separation
        name: separation
        method: separation
        from: separation
        space: map
        role: qa
        points: {apart: ours.reqa-full, mixed: other.reqa-full, absent: third.reqa-full}
      - {<<: *separation, name: vectors, space: vectors}
"""


def write_task(folder: Path, queries: int = 60, candidates: int = 100) -> Path:
    """Query i is answered by document 2 i of those that are not extra; odd documents answer nothing; the last ten queries
    are trained on."""
    folder.mkdir(parents=True)
    ids = [f"q{i}" for i in range(queries)]
    pq.write_table(pa.table({"query_id": ids, "text": ids}), folder / "queries.parquet")
    pq.write_table(pa.table({"doc_id": [f"d{i}" for i in range(candidates)]}), folder / "corpus.parquet")
    relevant = [f"d{2 * i % candidates}" for i in range(queries)]
    judged = {"query_id": ids, "doc_id": relevant, "relevance": pa.array([1] * queries, pa.int32())}
    pq.write_table(pa.table(judged), folder / "qrels.parquet")
    split = ["test"] * (queries - 10) + ["train"] * 10
    pq.write_table(pa.table({"size": ["full"] * queries, "query_id": ids, "split": split}), folder / "splits.parquet")
    return folder


def write_store(folder: Path, queries: np.ndarray, corpus: np.ndarray) -> None:
    for name, matrix in (("queries", queries), ("corpus", corpus)):
        writer = EmbeddingWriter(folder, name, len(matrix), matrix.shape[1], "key")
        for shard, start, stop in writer.pending():
            writer.write(shard, matrix[start:stop].astype("<f4"))
        writer.finish()


def test_test_questions_and_relevant_answers_are_drawn(tmp_path):
    texts = maps.draw_texts(write_task(tmp_path / "task"), "full", 20, seed=1)
    assert len(set(texts.questions)) == len(set(texts.answers)) == 20
    assert texts.questions.max() < 50 and not (texts.answers % 2).any()
    again, other = (maps.draw_texts(tmp_path / "task", "full", 20, seed) for seed in (1, 2))
    assert (texts.questions == again.questions).all() and set(texts.questions) != set(other.questions)
    # independent of each other: the answers are not those of the drawn questions
    assert set(2 * texts.questions) != set(texts.answers)
    every = maps.draw_texts(tmp_path / "task", "full", 400, seed=1)
    assert len(every.questions) == 50 and set(texts.questions) == set(every.questions[:20])


def test_questions_are_rows_of_a_store_that_has_the_test_questions_alone(tmp_path):
    task, tested = write_task(tmp_path / "task"), [f"q{i}" for i in range(10, 60)]
    split = {"size": ["full"] * 60, "query_id": [f"q{i}" for i in range(60)], "split": ["train"] * 10 + ["test"] * 50}
    pq.write_table(pa.table(split), task / "splits.parquet")
    texts = maps.draw_texts(task, "full", 20, seed=1)
    store = TaskIds.read(task).store_of("queries", tested)
    assert [store.query_ids[row] for row in texts.questions] == shuffled(tested, 1)[:20]


def test_a_judged_text_that_is_not_there_is_named(tmp_path):
    task = write_task(tmp_path / "task")
    pq.write_table(pa.table({"doc_id": [f"d{i}" for i in range(50)]}), task / "corpus.parquet")
    with pytest.raises(DataError, match=r"corpus.parquet: no doc_id 'd\d\d'"):
        maps.draw_texts(task, "full", 400, seed=1)


def test_vectors_have_unit_length_and_questions_come_first(tmp_path):
    queries, corpus = np.eye(4)[:2] * 5, np.eye(4)[2:] * 0.1
    write_store(tmp_path, queries, corpus)
    vectors = maps.read_vectors(tmp_path, maps.Texts(np.array([1, 0]), np.array([1])))
    np.testing.assert_allclose(vectors, np.eye(4)[[1, 0, 3]], atol=1e-7)
    with pytest.raises(DataError, match=r"corpus.json: 2 rows, row 2 is wanted"):
        maps.read_vectors(tmp_path, maps.Texts(np.array([0]), np.array([2])))
    write_store(tmp_path / "zero", queries * 0, corpus)
    with pytest.raises(DataError, match="length zero"):
        maps.read_vectors(tmp_path / "zero", maps.Texts(np.array([0]), np.array([0])))


def test_separation_by_hand_and_against_all_pairs():
    line = np.array([[0.0], [1.0], [5.0], [6.0], [1.5]])
    assert maps.separation(line, 2) == pytest.approx(3 / 5)  # 1 is nearest to 1.5, and 1.5 to 1
    points = np.random.default_rng(0).normal(size=(60, 3))
    kind = np.arange(60) < 25
    slow = 0
    for i, point in enumerate(points):
        distances = [np.linalg.norm(point - other) if j != i else np.inf for j, other in enumerate(points)]
        slow += kind[int(np.argmin(distances))] == kind[i]
    assert maps.separation(points, 25) == pytest.approx(slow / 60) and 0 < slow < 60


def test_apart_and_mixed_systems(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    setting = write_run(tmp_path, seeds=(1,), kinds={})
    write_task(tmp_path / "results/demo/tasks/questions")
    queries, corpus = random.normal(size=(60, 8)), random.normal(size=(100, 8))
    corpus[::2][:50] = queries[:50] + 0.05 * random.normal(size=(50, 8))
    root = tmp_path / "results/demo/embeddings"
    write_store(root / "other.reqa-full/questions/seed1", queries, corpus)
    shift = 9 * np.eye(8)[0]
    write_store(root / "ours.reqa-full/questions/seed1", queries + shift, corpus - shift)
    made = []
    project = maps.project
    monkeypatch.setattr(maps, "project", lambda *arguments: made.append(1) or project(*arguments))
    points = measure_figure(load_figure(write_figure(tmp_path, FIGURE)), setting, {})
    found = {(point.series, point.x): point for point in points if point.panel == "all"}
    assert found["separation", "apart"].y == found["vectors", "apart"].y == "1.0000"
    assert float(found["separation", "mixed"].y) < 0.7 and float(found["vectors", "mixed"].y) < 0.7
    assert found["vectors", "absent"].status == "not-run" and "encoder third" in found["vectors", "absent"].note
    dots = [point for point in points if point.panel == "apart"]
    assert [point.series for point in dots] == ["questions"] * 30 + ["answers"] * 30
    assert len({(point.x, point.y) for point in dots}) > 55 and {point.note for point in dots} == {"seed 1"}
    assert len(made) == 2, "the map of a panel is the one that the separation is of"
    assert points == measure_figure(load_figure(write_figure(tmp_path, FIGURE)), setting, {}), "equal input, equal map"


def test_without_embeddings_a_map_has_failed(tmp_path):
    setting = write_run(tmp_path, seeds=(1,))
    points = measure_figure(load_figure(write_figure(tmp_path, FIGURE)), setting, {})
    assert {point.status for point in points} == {"failed", "not-run"}
    assert "embeddings/ours.reqa-full/questions/seed1/queries.json" in points[0].note
