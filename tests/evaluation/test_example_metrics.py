"""Metrics of labelled examples against hand-worked numbers and plain loops, and the file of predictions.

Seen to fail when: MRR counts the first click only; the clicks of an impression are not divided by their number; nDCG's
best is that of one click; the cut is ignored; AUC counts a tie as right; ties in MRR follow the order of the file;
accuracy of a triplet counts equal distances; accuracy takes the last of equal logits; Spearman ranks ties by their
order, or is Pearson's; constant scores give NaN; scores lose bits in the file; the gzip header has a time; a repeated
example passes.
"""

from __future__ import annotations

import gzip
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.evaluation.example_metrics import (
    METRICS,
    auc,
    evaluate_examples,
    example_record,
    mrr,
    ndcg,
    spearman,
)
from pretrieve.evaluation.predictions import Prediction, read_predictions, write_predictions


def prediction(name: str, scores: list[float], labels: list[float]) -> Prediction:
    return Prediction(name, np.array(scores, dtype=np.float32), np.array(labels, dtype=np.float32))


def impressions(seed: int, ties: bool) -> list[Prediction]:
    """300 impressions of 2 to 15 candidates with at least one click and one other."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(300):
        size = int(rng.integers(2, 16))
        labels = rng.permutation(np.arange(size) < rng.integers(1, size)).astype(np.float32)
        scores = rng.integers(0, 4, size) if ties else rng.permutation(size * 3)[:size]
        found.append(prediction(f"i{i}", scores.tolist(), labels.tolist()))
    return found


def plain(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The four metrics by loops over pairs and ranks, from their definitions; ties: what was not clicked comes
    first."""
    pairs = [(scores[i], scores[j]) for i in range(len(labels)) for j in range(len(labels)) if labels[i] > labels[j]]
    right = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs)
    order = sorted(range(len(labels)), key=lambda i: (-scores[i], labels[i]))
    ranks = [rank for rank, i in enumerate(order, 1) if labels[i]]
    result = {"auc": right / len(pairs), "mrr": sum(1 / rank for rank in ranks) / len(ranks)}
    for k in (5, 10):
        gained = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= k)
        result[f"ndcg@{k}"] = gained / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(ranks)) + 1))
    return result


def test_an_impression_by_hand() -> None:
    scores, labels = np.array([0.1, 0.9, 0.5, 0.7]), np.array([1, 0, 1, 0])
    # Best first: not, not, clicked (rank 3), clicked (rank 4).
    assert mrr(scores, labels) == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert auc(scores, labels) == 0.0 and auc(-scores, labels) == 1.0
    best = 1 + 1 / math.log2(3)
    assert ndcg(scores, labels, 3) == pytest.approx((1 / math.log2(4)) / best)
    assert ndcg(scores, labels, 10) == pytest.approx((1 / math.log2(4) + 1 / math.log2(5)) / best)
    assert ndcg(-scores, labels, 10) == ndcg(-scores, labels, 1) == mrr(-scores, np.array([1, 0, 0, 0])) == 1.0


@pytest.mark.parametrize("ties", [False, True])
def test_impressions_against_plain_loops(ties: bool) -> None:
    some = impressions(4, ties)
    means, per_example = evaluate_examples("clicks", some)
    tied = 0
    for p in some:
        for name, value in plain(p.scores, p.labels).items():
            assert per_example[name][p.example_id] == pytest.approx(value, abs=1e-12)
        tied += len(set(p.scores.tolist())) < len(p.scores)
    assert (tied > 200) == ties and list(means) == list(METRICS["clicks"])
    for name, value in means.items():
        assert value == pytest.approx(np.mean(list(per_example[name].values()))) and 0.2 < value < 0.9


def test_ties_do_not_depend_on_the_order_of_candidates() -> None:
    for scores, labels in (([1, 1, 1, 0], [0, 1, 0, 1]), ([2, 2, 1, 1], [1, 0, 1, 0])):
        values = {
            tuple(round(f(np.array(s, float), np.array(y)), 12) for f in (auc, mrr, lambda a, b: ndcg(a, b, 5)))
            for s, y in (zip(*p, strict=True) for p in itertools.permutations(zip(scores, labels, strict=True)))
        }
        assert len(values) == 1
    flat, labels = np.zeros(4), np.array([1, 0, 0, 0])
    assert auc(flat, labels) == 0.5 and mrr(flat, labels) == 0.25


def test_spearman_against_ranks_counted_by_hand() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=200), rng.integers(0, 6, 200).astype(float)
    scores += labels

    def ranks(values: np.ndarray) -> np.ndarray:
        return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])

    expected = np.corrcoef(ranks(scores), ranks(labels))[0, 1]
    assert spearman(scores, labels) == pytest.approx(expected, abs=1e-12) and 0.5 < expected < 0.99
    assert abs(expected - np.corrcoef(np.exp(scores), labels)[0, 1]) > 0.05
    assert spearman(np.exp(scores), labels) == pytest.approx(expected, abs=1e-12)
    assert spearman(np.ones(5), np.arange(5.0)) == spearman(np.arange(5.0), np.ones(5)) == 0.0
    means, per_example = evaluate_examples(
        "regression", [prediction(f"e{i}", [s], [y]) for i, (s, y) in enumerate(zip(scores, labels, strict=True))]
    )
    assert means["spearman"] == pytest.approx(expected, abs=1e-3) and per_example == {}


def test_accuracies() -> None:
    logits = [([1, 2, 0], 1), ([3, 2, 0], 1), ([2, 2, 0], 0), ([2, 2, 0], 1)]
    means, per_example = evaluate_examples(
        "classification", [prediction(f"e{i}", s, [y]) for i, (s, y) in enumerate(logits)]
    )
    assert means == {"accuracy": 0.5} and per_example["accuracy"] == {"e0": 1, "e1": 0, "e2": 1, "e3": 0}
    distances = [[1, 2], [2, 1], [1, 1], [0, 0.5]]
    means, _ = evaluate_examples("triplet", [prediction(f"e{i}", s, []) for i, s in enumerate(distances)])
    assert means == {"accuracy": 0.5}


def test_record_and_file(tmp_path: Path) -> None:
    some = impressions(1, False)
    paths = [tmp_path / name / "p.tsv.gz" for name in "ab"]
    for path in paths:
        write_predictions(path, iter(some))
    assert paths[0].read_bytes() == paths[1].read_bytes() and paths[0].read_bytes()[4:8] == b"\0\0\0\0"
    assert gzip.decompress(paths[0].read_bytes()).decode().splitlines()[0] == "example_id\tscores\tlabels"
    record = example_record(paths[0], "clicks", ["mrr", "auc"])
    assert set(record) == {"run", "run_sha256", "n_queries", "n_candidates", "metrics", "chance", "per_query"}
    assert record["n_queries"] == 300 and record["n_candidates"] == round(np.mean([len(p.scores) for p in some]), 10)
    means, per_example = evaluate_examples("clicks", some)
    assert record["metrics"] == {name: pytest.approx(means[name], abs=1e-9) for name in ("mrr", "auc")}
    assert record["per_query"]["mrr"]["i7"] == pytest.approx(per_example["mrr"]["i7"], abs=1e-9)
    write_json(tmp_path / "m.json", record)


def test_a_file_keeps_every_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500), [0.0, -0.0]]).astype(np.float32)
    write_predictions(tmp_path / "p.tsv.gz", [Prediction("a b", scores, np.array([], np.float32))])
    (read,) = read_predictions(tmp_path / "p.tsv.gz")
    assert read.example_id == "a b" and read.scores.dtype == np.float32 and len(read.labels) == 0
    assert read.scores.tobytes() == scores.tobytes()


def test_what_cannot_be_evaluated(tmp_path: Path) -> None:
    good = prediction("e", [1], [1])
    with pytest.raises(ConfigError, match="kind 'ranking' is unknown"):
        evaluate_examples("ranking", [good])
    with pytest.raises(ConfigError, match="metric 'auc' is not one of a regression task's; these are spearman"):
        evaluate_examples("regression", [good], ["auc"])
    with pytest.raises(DataError, match="no prediction"):
        evaluate_examples("regression", [])
    for bad in (prediction("e", [math.nan], [1]), prediction("e\t", [1], [1]), prediction("", [1], [1])):
        with pytest.raises(DataError, match=r"p.tsv.gz: example"):
            write_predictions(tmp_path / "p.tsv.gz", [bad])
    assert not (tmp_path / "p.tsv.gz").exists()
    with pytest.raises(DataError, match="no such file"):
        read_predictions(tmp_path / "p.tsv.gz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\tscore\n", "begins with 'id"),
        ("example_id\tscores\tlabels\na\t1\n", "line 2: found 'a"),
        ("example_id\tscores\tlabels\na\tx\t1\n", "line 2"),
        ("example_id\tscores\tlabels\na\t1\t1\na\t1\t1\n", "line 3: example 'a' appears twice"),
        ("example_id\tscores\tlabels\na\t\t1\n", "line 2: example 'a' .* has no score"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=message):
        read_predictions(path)
    path.write_bytes(gzip.compress(b"example_id\tscores\tlabels\n" * 50)[:-9])
    with pytest.raises(DataError, match="damaged|line 2"):
        read_predictions(path)
