"""Which snapshot becomes the retriever.

Seen to fail when: the later of two equal snapshots is kept, or the last; the start is not looked at, or again by a run
that goes on; weights are kept without a copy, or of one tower; both sides go through one tower; the target is another
document; other answers stay in the sum; training answers are left out; there is no cap, or no temperature; snapshots:
0 looks at the start; a run without validation queries begins.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranking_small import CPU, OPTIONS, dual

from pretrieve.base.errors import DataError
from pretrieve.finetuning.validation import BestSnapshot
from pretrieve.models.batch import Batch
from pretrieve.tasks.dataset import Dataset


def make(data: Dataset, steps: int = 8, sharing: str = "ade", **changes) -> BestSnapshot:
    train, valid = data.split("60pct", "train"), data.split("60pct", "valid")
    return BestSnapshot(dual(data, sharing), data, train, valid, OPTIONS | changes, steps, CPU)


def become(watcher: BestSnapshot, value: float) -> None:
    with torch.no_grad():
        for weight in watcher._model.state_dict().values():
            weight.fill_(value)


@pytest.mark.parametrize("two", [False, True])
def test_the_loss_by_hand(task: Dataset, changed_task, two: bool) -> None:
    """Over the answers of validation and training queries: not of test queries, not x, which answers none. Of two
    answers the first is the target, and the other is left out."""
    data = Dataset(changed_task("qrels", relevance=[1] * 80)) if two else task
    train = data.split("60pct", "train")[[0, 1, 20]]  # q0 and q6
    valid = data.split("60pct", "valid")[[4, 1, 2, 0]]
    model = dual(data, "ade").eval()
    watcher = BestSnapshot(model, data, train, valid, OPTIONS, 8, CPU)
    candidates = sorted({int(data.positive[row]) for row in (*train, *valid)})
    assert candidates == ([2, 3, 4, 6, 8] if two else [1, 2, 3, 5, 7])
    expected = 0.0
    for row in valid:
        with torch.no_grad():
            query = model.query(Batch.of(data.pack_queries(np.array([row]), 8)))[0]
            score = {
                d: float(query @ model.document(Batch.of(data.pack_candidates(np.array([d]), 12)))[0]) / 0.1
                for d in candidates
            }
        target = data.positive[row]
        kept = [np.exp(s) for d, s in score.items() if d == target or d not in data.relevant[row]]
        assert len(kept) == 5 - (two and row in valid[1:3])  # d1 and d2 are the first answers of q0 and q1
        expected += (np.log(sum(kept)) - score[target]) / 4
    assert watcher._loss() == pytest.approx(expected, rel=1e-4) and expected > 0.3


@pytest.mark.parametrize("sharing", ["sde", "ade", "ade-ste", "ade-fte"])
@pytest.mark.parametrize(
    ("losses", "best"), [([3, 2, 2, 1.5, 4], 3), ([1, 2, 3, 4, 5], 0), ([3, 2, 2, 2, 2], 1), ([5, 4, 3, 2, 1], 4)]
)
def test_the_best_of_four_snapshots_and_the_start(task, monkeypatch, sharing: str, losses: list, best: int) -> None:
    """Of two equal ones the earlier; both towers, and what they share, are those of that step."""
    watcher = make(task, sharing=sharing)
    values = iter(map(float, losses))
    monkeypatch.setattr(watcher, "_loss", lambda: next(values))
    become(watcher, 0)
    watcher.start()
    watcher.start()  # as a run does that goes on
    for step in range(8):
        become(watcher, (step + 1) // 2 if step % 2 else 99)  # looks come after steps 1, 3, 5, 7
        watcher.after_step(step)
    assert next(values, None) is None
    become(watcher, -1)
    watcher.restore()
    assert all(bool((weight == best).all()) for weight in watcher._model.parameters())
    record = watcher.record()
    assert [look["step"] for look in record["validation"]] == [0, 2, 4, 6, 8]
    assert [look["loss"] for look in record["validation"]] == losses and record["best_step"] == 2 * best


def test_no_snapshots_keep_the_last_weights(task: Dataset, monkeypatch) -> None:
    rows = task.split("60pct", "train")
    watcher = BestSnapshot(dual(task), task, rows, rows[:0], OPTIONS | {"snapshots": 0}, 8, CPU)
    monkeypatch.setattr(watcher, "_loss", lambda: pytest.fail("it looked"))
    watcher.start()
    for step in range(8):
        watcher.after_step(step)
    become(watcher, 5)
    watcher.restore()
    assert all(bool((weight == 5).all()) for weight in watcher._model.parameters())
    assert watcher.tensors == {} and watcher.info == {} and watcher.record() == {}


def test_the_state_is_enough_to_go_on(task: Dataset, monkeypatch) -> None:
    """A checkpoint keeps ``tensors`` and ``info``; the run that goes on ends with the best of both parts."""
    first = make(task)
    become(first, 1)
    monkeypatch.setattr(first, "_loss", lambda: 1.0)
    first.start()
    second = make(task)
    second.tensors, second.info = dict(first.tensors), dict(first.info)
    monkeypatch.setattr(second, "_loss", lambda: 2.0)
    become(second, 2)
    second.start()
    second.after_step(7)
    second.restore()
    assert all(bool((weight == 1).all()) for weight in second._model.parameters())
    assert [look["step"] for look in second.record()["validation"]] == [0, 8]


def test_what_cannot_be_validated_is_named(task: Dataset, changed_task) -> None:
    rows = task.split("60pct", "train")
    with pytest.raises(DataError, match=r"splits.parquet: no validation query for 4 snapshots.*snapshots: 0"):
        BestSnapshot(dual(task), task, rows, rows[:0], OPTIONS, 8, CPU)
    relevance = [0, 1] * 40
    relevance[2 * 8 + 1] = 0  # q1-3 validates
    with pytest.raises(DataError, match=r"1 training questions have no answer, e.g. 'q1-3'"):
        make(Dataset(changed_task("qrels", relevance=relevance)))
