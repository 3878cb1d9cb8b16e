"""t-SNE maps of questions and answers (paper ``dual_encoders`` §4.3, figure 2; van der Maaten and Hinton 2008).

Questions are test queries, answers are candidates that are relevant to a test query; equally many of each, drawn at random
and independently of each other, from their ids alone, so that every system and seed shows the same texts. Their vectors
come from the embedding stores of retrieval, scaled to unit length, for the models compare them by cosine. The paper does
not say which perplexity or start it has; here both are scikit-learn's defaults (30, and the first two principal components).

The share of points whose nearest neighbour is of the same kind says in a number what the eye sees: with as many questions
as answers it is near 0.5 where they mix and 1 where they lie apart, and below 0.5 where questions lie with their answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.tasks.split_table import SplitTable
from pretrieve.tasks.splits import shuffled


class Texts(NamedTuple):
    """Rows of the embedding stores: ``questions`` (n,) of ``queries``, ``answers`` (m,) of ``corpus``."""

    questions: np.ndarray
    answers: np.ndarray


def draw_texts(task: Path, size: str, count: int, seed: int) -> Texts:
    """``count`` test questions of a training-set size and as many answers; all, where there are fewer.

    Raises DataError when the task lacks the size, or a drawn text is not in its tables.
    """
    tested = SplitTable(task / "splits.parquet").needed(size)
    qrels = read_qrels(task / "qrels.parquet")
    relevant = {doc_id for query in tested for doc_id, grade in qrels.get(query, {}).items() if grade > 0}
    questions = _rows(task / "queries.parquet", "query_id", tested)
    drawn = _rows(task / "queries.parquet", "query_id", shuffled(tested, seed)[:count])
    return Texts(
        np.searchsorted(np.sort(questions), drawn),  # the store has the test questions alone, in the task's order
        _rows(task / "corpus.parquet", "doc_id", shuffled(relevant, seed)[:count]),
    )


def _rows(path: Path, column: str, ids: Sequence[str]) -> np.ndarray:
    known = read_table(path, [column])[column].combine_chunks()
    rows = pc.index_in(pa.array(ids, type=known.type), value_set=known)
    if rows.null_count:
        missing = ids[rows.is_null().to_pylist().index(True)]
        raise DataError(f"{path}: no {column} '{missing}', which the task's other files name. Make the task again.")
    return rows.to_numpy().astype(np.int64)


def read_vectors(store: Path, texts: Texts) -> np.ndarray:
    """(questions + answers, dim) float64 vectors of unit length, questions first.

    Raises DataError when a store is missing or damaged, shorter than its task, or has a vector of length zero.
    """
    parts = []
    for name, rows in (("queries", texts.questions), ("corpus", texts.answers)):
        reader = EmbeddingReader(store, name)
        if len(rows) and rows.max() >= reader.rows:
            raise DataError(f"{reader.path}: {reader.rows} rows, row {rows.max()} is wanted. Embed the task again.")
        parts.append(reader[rows].astype(np.float64))
    vectors = np.concatenate(parts)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise DataError(f"{store}: a vector has length zero, so no direction; expected vectors of a trained retriever.")
    return vectors / lengths


def project(vectors: np.ndarray, seed: int, perplexity: float) -> np.ndarray:
    """The t-SNE map (n, 2) of vectors (n, dim): equal input gives an equal map on one machine."""
    from sklearn.manifold import TSNE  # seconds to import

    perplexity = min(perplexity, (len(vectors) - 1) / 3)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(
        vectors.astype(np.float32)
    )


def separation(points: np.ndarray, questions: int) -> float:
    """Share of points (n, d) whose nearest neighbour is of their own kind; the first ``questions`` are questions.

    >>> separation(np.array([[0.0], [1.0], [10.0], [11.0]]), 2), separation(np.array([[0.0], [10.0], [1.0], [11.0]]), 2)
    (1.0, 0.0)
    """
    squares = (points**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * points @ points.T
    np.fill_diagonal(distances, np.inf)
    kind = np.arange(len(points)) < questions
    return float((kind[distances.argmin(axis=1)] == kind).mean())
