"""Training by a document's best window, and searching by it on the way.

Seen to fail when: the first window counts; windows of two documents are mixed up; a cut batch counts documents from 0 in each
part; the search for negatives, or a run on the way, is by the first window.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from ranking_small import CPU, KINDS, OPTIONS, dual, gradients, largest_difference, lists

from pretrieve.finetuning.groups import Groups
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_ance import FreshGroups
from pretrieve.finetuning.train_curve import keep_run, look_on
from pretrieve.finetuning.train_maxp import MaxPRanking
from pretrieve.models.batch import Batch
from pretrieve.retrieval.trec_run import read_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.windows import PassageWindows
from pretrieve.training.loop import Watcher
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

#: Passages of the tiny task have 3 tokens and their sentences 2: [CLS] s s [SEP] v [SEP] leaves one token for each window.
SHORT = 6


def make(data: Dataset, kind: str, windows: int, length: int, budget: int | None = None, base=MaxPRanking):
    options = OPTIONS | KINDS[kind] | {"windows": windows, "passage_length": length}
    rows = data.split("60pct", "train")
    groups = Groups(data, rows, options, [lists(data, rows)], 7)
    similarity = "dot" if options["loss"] != "softmax" else "cosine"
    return base(dual(data, similarity=similarity), data, groups, options, CPU.device, budget)


@pytest.mark.parametrize("kind", KINDS)
def test_one_window_is_firstp(task: Dataset, kind: str) -> None:
    """Where a document has one window the loss and its gradients are those of the ranking objective."""
    found = []
    for made in (make(task, kind, 1, 12), make(task, kind, 4, 12), make(task, kind, 1, 12, base=RankingObjective)):
        made.module.eval()
        means = accumulate(made, made.micro_batches(0), CPU, Processes(), (7, 0)).means
        found.append((means["contrastive"], gradients(made.module)))
    for value, own in found[1:]:
        assert value == pytest.approx(found[0][0], abs=1e-5) and largest_difference(own, found[0][1]) < 1e-5


def cut(data: Dataset, documents: np.ndarray, length: int, windows: int) -> PassageWindows:
    return PassageWindows(
        data.passages, data.candidate_sentence[documents], data.candidate_passage[documents], length, windows
    )


@pytest.mark.parametrize("budget", [None, 40])
@pytest.mark.parametrize("kind", ["dpr", "pairwise-more"])
def test_scores_are_those_of_the_best_windows(task: Dataset, kind: str, budget: int | None, monkeypatch) -> None:
    made = make(task, kind, 3, SHORT, budget)
    made.module.eval()
    seen = []
    monkeypatch.setattr(made, "_loss", lambda scores, group: seen.append((scores, group)) or scores.sum())
    batches = made.micro_batches(0)
    assert (len(batches) > 1) == (budget is not None)
    vectors = [made.vectors(batch, False)[0] for batch in batches]
    made.contrast(vectors, batches)
    [(scores, group)] = seen
    most = 0
    with torch.no_grad():
        for row, query in enumerate(group.queries):
            own = made.model.query(Batch.of(task.pack_queries(np.array([query]), 8)))[0]
            for column, document in enumerate(group.documents.ravel()):
                windows = cut(task, np.array([document]), SHORT, 3)
                most = max(most, len(windows))
                values = made.model.document(Batch.of(windows.pack(np.arange(len(windows))))) @ own
                assert float(scores[row, column]) == pytest.approx(float(values.max()) / 0.1, abs=1e-4)
    assert most > 1 and scores.shape == (len(group.queries), group.documents.size)


def test_a_cut_batch_has_the_same_gradients(task: Dataset) -> None:
    found = []
    for budget in (10**6, 60, 1):
        made = make(task, "dpr", 3, SHORT, budget)
        made.module.eval()
        accumulate(made, made.micro_batches(0), CPU, Processes(), (7, 0))
        found.append(gradients(made.module))
    assert max(float(gradient.abs().max()) for gradient in found[0].values()) > 1e-3
    assert largest_difference(found[0], found[1]) < 1e-5 and largest_difference(found[0], found[2]) < 1e-5


def products_of(data: Dataset, model: torch.nn.Module, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, documents) products of query rows (n,) with each document's best window, and with its first one."""
    every = np.arange(len(data.document_ids))
    windows = cut(data, every, SHORT, 3)
    with torch.no_grad():
        queries = model.query(Batch.of(data.pack_queries(rows, 8))).double()
        vectors = model.document(Batch.of(windows.pack(np.arange(len(windows))))).double()
    products, owners = (queries @ vectors.T).numpy(), windows.windows.documents
    best = np.stack([products[:, owners == d].max(axis=1) for d in every], axis=1)
    return best, products[:, np.searchsorted(owners, every)]


def test_negatives_are_searched_by_the_best_window(task: Dataset, tmp_path: Path) -> None:
    rows = task.split("60pct", "train")
    options = OPTIONS | KINDS["pairwise"] | {"windows": 3, "passage_length": SHORT, "pool": 4, "refresh": 5}
    options |= {"sample": 4}
    model = dual(task, similarity="dot").eval()
    search = PresentSearch(model, task, options, CPU, tmp_path / "negatives")
    fresh = FreshGroups(search, rows, options, 7, "key", None)
    made = MaxPRanking(model, task, fresh, options, CPU.device)
    made.micro_batches(0)
    found = fresh.read(0)
    best, first = products_of(task, model, rows)
    differs = 0
    for place, row in enumerate(rows):
        ranked = [
            task.document_ids[d] for d in np.argsort(-best[place], kind="stable")[:4] if d not in task.relevant[row]
        ]
        by_first = [
            task.document_ids[d] for d in np.argsort(-first[place], kind="stable")[:4] if d not in task.relevant[row]
        ]
        assert found.doc_ids[place] == ranked
        differs += ranked != by_first
    assert differs > 3


def test_a_run_on_the_way_is_by_the_best_window(task: Dataset, tmp_path: Path) -> None:
    """Of each test query all documents, in the order of their best windows; not in that of their first ones."""
    rows = task.split("60pct", "test")
    options = OPTIONS | {"windows": 3, "passage_length": SHORT, "curve": 2}
    model = dual(task, similarity="dot")
    search, watcher = PresentSearch(model, task, options, CPU, tmp_path / "steps"), Watcher()
    look_on(watcher, partial(keep_run, search, rows), 2, 4)
    for step in range(4):
        watcher.after_step(step)
    search.keep(sorted(search.directory.glob("*.trec.gz")), tmp_path / "kept")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["2.trec.gz", "4.trec.gz"]
    run = read_trec(tmp_path / "kept/4.trec.gz")
    best, first = products_of(task, model.eval(), rows)
    found = dict(zip(run.query_ids, zip(run.doc_ids, run.scores, strict=True), strict=True))
    assert len(found) == len(rows) == 8
    for place, row in enumerate(rows):
        doc_ids, scores = found[task.query_ids[row]]
        places = [task.document_row[name] for name in doc_ids]
        assert sorted(places) == list(range(9))
        np.testing.assert_allclose(scores, best[place][places], atol=1e-5)
        assert (np.diff(best[place][places]) <= 1e-5).all()
    assert (np.abs(best - first).max(axis=1) > 0.05).sum() > 5
