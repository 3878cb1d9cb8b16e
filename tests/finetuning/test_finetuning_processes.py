"""Gradients, ANCE, distillation and a look on the way in two processes: they do what one process does.

Gradients agree to 1e-6 on the same micro-batches, with largest entries above 1e-2. Weights 2e-6 as in
tests/training/test_processes.py; both processes have the same bits, lists and teacher scores.

Seen to fail when: gradients are averaged over the processes; the second process draws negatives of its own; it does not wait
for the first one's file; teacher scores are not added over the processes; each process embeds and writes for itself what it
looks at.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ranking_small import CPU, KINDS, dual, gradients, largest_difference, objective
from safetensors.torch import load_file
from teacher_small import CONFIG, CURVE, OBJECTIVES

from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.train_curve import keep_run
from pretrieve.finetuning.train_distillation import read_teacher_scores
from pretrieve.retrieval.negatives import read_negatives
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.processes import ALONE
from pretrieve.training.step import accumulate

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pair(program, task_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that both processes wrote into."""
    out, path = tmp_path_factory.mktemp("two"), f"{TESTS.parent / 'src'}:{TESTS}"
    done = program(TESTS / "finetuning/two_finetuning_processes.py", task_dir, out, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_have_the_gradients_of_one(task: Dataset, pair: Path, kind: str) -> None:
    for budget in (10**6, 100):
        made = objective(task, kind, budget, sharing="ade-ste")
        accumulate(made, made.micro_batches(1, 2), CPU, ALONE, (3, 1))
        wanted = gradients(made.module)
        assert max(float(gradient.abs().max()) for gradient in wanted.values()) > 1e-2
        both = [load_file(pair / f"{kind}-{budget}.{rank}.safetensors") for rank in (0, 1)]
        assert largest_difference(both[0], both[1]) == 0
        assert largest_difference(both[0], wanted) <= 1e-6


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_processes_train_what_one_does(task, pair: Path, tmp_path: Path, name: str) -> None:
    alone = OBJECTIVES[name](task, tmp_path, budget=10**6)
    start = {n: t.clone() for n, t in alone.module.state_dict().items()}
    train(alone, CONFIG, RunSettings(CPU, 3))
    weights = alone.module.state_dict()
    assert largest_difference(weights, start) > 1e-2
    both = [load_file(pair / f"{name}.{rank}.safetensors") for rank in (0, 1)]
    assert largest_difference(both[0], both[1]) == 0
    assert largest_difference(both[0], weights) <= 2e-6
    if name == "ance":
        for step in (0, 3, 6):
            lists = [read_negatives(out / f"negatives/step{step}.jsonl.gz").doc_ids for out in (pair, tmp_path)]
            assert lists[0] == lists[1]
        assert not (pair / "negatives/embeddings").exists()
    else:
        scores = [read_teacher_scores(out / "teacher.jsonl.gz", task)[0] for out in (pair, tmp_path)]
        assert np.array_equal(scores[0].queries, scores[1].queries) and np.ptp(scores[0].scores) > 0.1
        np.testing.assert_allclose(scores[0].scores, scores[1].scores, atol=1e-5)


def test_two_processes_look_as_one_does(task, pair: Path, tmp_path: Path) -> None:
    search = PresentSearch(dual(task, "ade"), task, CURVE, CPU, tmp_path / "steps")
    keep_run(search, task.split("60pct", "test"), 0)
    assert (pair / "steps/0.trec.gz").read_bytes() == (tmp_path / "steps/0.trec.gz").read_bytes()
    assert [path.name for path in (pair / "steps").iterdir()] == ["0.trec.gz"]
