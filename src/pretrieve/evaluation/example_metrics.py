"""Metrics of tasks without retrieval, from predictions: accuracy, Spearman's correlation, and MIND's four.

=============  ===================================================================================================
``accuracy``   share of examples that are right: the class with the highest logit (the first of equal ones) is the
               label; of a triplet, the positive is strictly nearer than the negative
``spearman``   Spearman's rank correlation of scores and labels over all examples (scipy; mean ranks for ties). It
               has no value of an example. Scores that are all equal tell nothing: 0
``auc``        share of (clicked, not clicked) pairs of an impression in the right order; an equal pair counts half
``mrr``        of an impression: Σ over *all* its clicked candidates of 1/rank, divided by their number
``ndcg@5``     DCG@k / best DCG@k of an impression, DCG@k = Σ_{r ≤ k} (2^label − 1) / log2(r + 1)
``ndcg@10``
=============  ===================================================================================================

The last four are those of MIND's official evaluate.py (msnews/MIND), and its mean is over impressions. Its MRR is
*not* the usual reciprocal rank of the first hit: an impression with clicks at ranks 1 and 2 has (1 + 1/2) / 2 = 0.75.
evaluate.py reads ranks, in which nothing ties. Scores can tie: here a candidate that was not clicked comes first among
equals, so that no metric depends on the order of a file and a model that scores everything alike gains nothing in MRR
and nDCG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import scipy

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of
from pretrieve.evaluation.chance import example_chance
from pretrieve.evaluation.predictions import Prediction, read_predictions

#: Kind of task → its metrics.
METRICS = {
    "regression": ("spearman",),
    "triplet": ("accuracy",),
    "classification": ("accuracy",),
    "clicks": ("auc", "mrr", "ndcg@5", "ndcg@10"),
}


def spearman(scores: np.ndarray, labels: np.ndarray) -> float:
    """Spearman's correlation of (n,) and (n,); 0 where one of them is constant.

    >>> spearman(np.array([0.1, 0.2, 0.9]), np.array([0.0, 5.0, 2.5]))
    0.5
    """
    if np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(scipy.stats.spearmanr(scores, labels).statistic)


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve of one impression, (n,) and (n,) of 0 and 1, both of them.

    >>> auc(np.array([3.0, 2.0, 1.0]), np.array([0, 1, 0]))
    0.5
    """
    clicked = labels > 0
    hits, rest = int(clicked.sum()), int((~clicked).sum())
    # Mann-Whitney: the mean rank of what was clicked, ties sharing theirs.
    return float((scipy.stats.rankdata(scores)[clicked].sum() - hits * (hits + 1) / 2) / (hits * rest))


def ranked_labels(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels (n,), the best score first; of equal scores, the lower label first."""
    return labels[np.lexsort((labels, -np.asarray(scores, dtype=np.float64)))]


def mrr(scores: np.ndarray, labels: np.ndarray) -> float:
    """MIND's mean reciprocal rank of one impression.

    >>> mrr(np.array([0.9, 0.8, 0.1]), np.array([1, 1, 0]))
    0.75
    """
    ranked = ranked_labels(scores, labels)
    return float((ranked / np.arange(1, len(ranked) + 1)).sum() / ranked.sum())


def ndcg(scores: np.ndarray, labels: np.ndarray, k: int) -> float:
    """MIND's nDCG@k of one impression.

    >>> round(ndcg(np.array([0.9, 0.8, 0.1]), np.array([0, 1, 0]), 5), 4)  # 1 / log2(3)
    0.6309
    """

    def dcg(ranked: np.ndarray) -> float:
        return float(((2.0 ** ranked[:k] - 1) / np.log2(np.arange(2, len(ranked[:k]) + 2))).sum())

    return dcg(ranked_labels(scores, labels)) / dcg(np.sort(labels)[::-1])


_OF_EXAMPLE: dict[tuple[str, str], Callable[[np.ndarray, np.ndarray], float]] = {
    ("classification", "accuracy"): lambda scores, labels: float(np.argmax(scores) == int(labels[0])),
    ("triplet", "accuracy"): lambda scores, labels: float(scores[0] < scores[1]),
    ("clicks", "auc"): auc,
    ("clicks", "mrr"): mrr,
    ("clicks", "ndcg@5"): lambda scores, labels: ndcg(scores, labels, 5),
    ("clicks", "ndcg@10"): lambda scores, labels: ndcg(scores, labels, 10),
}


def evaluate_examples(
    kind: str, predictions: Iterable[Prediction], metrics: Sequence[str] = ()
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Metric → mean, and metric → example id → value; of those that examples have.

    metrics: those of the kind, unless given.

    Raises ConfigError for an unknown kind, or a metric that it does not have, and DataError when there is no prediction.
    """
    if kind not in METRICS:
        raise ConfigError(f"kind {kind!r} is unknown; choose from {list(METRICS)}.")
    metrics = metrics or METRICS[kind]
    unknown = [name for name in metrics if name not in METRICS[kind]]
    if unknown:
        raise ConfigError(f"metric '{unknown[0]}' is not one of a {kind} task's; these are {', '.join(METRICS[kind])}.")
    predictions = list(predictions)
    if not predictions:
        raise DataError("no prediction to evaluate; expected at least one test example.")
    means: dict[str, float] = {}
    per_example: dict[str, dict[str, float]] = {}
    for name in metrics:
        if name == "spearman":
            scores, labels = (np.array([p[place][0] for p in predictions]) for place in (1, 2))
            means[name] = spearman(scores, labels)
        else:
            value = _OF_EXAMPLE[kind, name]
            per_example[name] = {p.example_id: value(p.scores, p.labels) for p in predictions}
            means[name] = float(np.mean(list(per_example[name].values())))
    return means, per_example


def example_record(path: Path, kind: str, metrics: Sequence[str] = ()) -> dict:
    """The content of a metrics file, in the form of :func:`pretrieve.evaluation.metrics_record.metrics_record`: ``run`` is
    the file of predictions, ``n_candidates`` the mean number of scores of an example. Numbers are rounded to 10
    decimals.

    Raises ConfigError or DataError as :func:`evaluate_examples`; a DataError also for a damaged file.
    """
    predictions = read_predictions(path)
    means, per_example = evaluate_examples(kind, predictions, metrics)
    sizes, levels = np.array([len(p.scores) for p in predictions]), example_chance(kind, predictions)
    return {
        "run": Path(path).as_posix(),
        "run_sha256": sha256_of(Path(path)),
        "n_queries": len(predictions),
        "n_candidates": round(float(sizes.mean()), 10),
        "metrics": {name: round(value, 10) for name, value in means.items()},
        "chance": {name: round(value, 10) for name, value in levels.items() if name in means},
        "per_query": {
            name: {example_id: round(value, 10) for example_id, value in values.items()}
            for name, values in per_example.items()
        },
    }
