"""Distillation: teacher scores and their file, both losses, what a student learns. Two processes: test_finetuning_processes.py.

Seen to fail when: the teacher's scores are taken from another row or column of the group; the student's scores are not divided by
the temperature, or the teacher's are; the KL form is a mean over queries, or lacks the contrastive term; a missing pair gets a
neighbour's score; scores lose a digit in the file; a file of another teacher, of other lengths, or with too few pairs is used;
a fitting one is not; a pair is scored twice.
"""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from ranking_small import CPU, gradients, largest_difference
from safetensors.torch import save_file
from small_body import interrupt_after
from teacher_small import CONFIG, DISTILLATION, cross_encoder, distillation, groups_of, teacher_scores
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import DataError
from pretrieve.finetuning import train_distillation as module
from pretrieve.finetuning.cross_encoding import score_pairs
from pretrieve.finetuning.groups import Group
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_distillation import TeacherScores, describe_teacher, pairs_of, read_teacher_scores
from pretrieve.models.batch import Batch
from pretrieve.models.dual_encoder import DualEncoder, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate


def vectors(data, model: DualEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all queries and of all candidates, without dropout."""
    model.eval()
    with torch.no_grad():
        queries = model.query(Batch.of(data.pack_queries(np.arange(len(data.query_ids)), 8), "cpu"))
        return queries, model.document(Batch.of(data.pack_candidates(np.arange(len(data.document_ids)), 12), "cpu"))


def scores_of(data, model: DualEncoder, factor: float = 1.0) -> TeacherScores:
    """A teacher that scores every pair as this dual encoder does."""
    queries, documents = vectors(data, model)
    rows = np.indices((len(queries), len(documents))).reshape(2, -1)
    return TeacherScores(data, *rows, (factor * queries @ documents.T).numpy().reshape(-1))


def one_step(objective, step: int = 2) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Mean loss terms of a step, and the gradient."""
    objective.module.zero_grad(set_to_none=True)
    done = accumulate(objective, objective.micro_batches(step), CPU, Processes(), (3, step))
    return done.means, gradients(objective.module)


def test_a_perfect_teacher_leaves_nothing_to_learn(task, tmp_path: Path) -> None:
    """The loss is the entropy of the teacher's probabilities, its least value; the divergence is 0. No gradient in either."""
    student = distillation(task, tmp_path).model
    perfect = scores_of(task, student, 1 / DISTILLATION["temperature"])
    group = groups_of(task).at(2, 8)
    likely = torch.softmax(torch.from_numpy(perfect.of(group)).double(), dim=1)
    entropy = float(-(likely * likely.log()).sum(dim=1).mean())
    shifted = TeacherScores(task, perfect.queries, perfect.documents, perfect.scores + perfect.queries)
    for teacher in (perfect, shifted):  # a constant for each query changes nothing
        means, gradient = one_step(distillation(task, tmp_path, teacher=teacher))
        assert means == {"distillation": pytest.approx(entropy, rel=1e-5)}
        assert max(float(value.abs().max()) for value in gradient.values()) < 2e-6
        objective = distillation(task, tmp_path, teacher=teacher, distillation="kl", contrastive_weight=0.0)
        means, gradient = one_step(objective)
        assert means["distillation"] == pytest.approx(0, abs=1e-6)
        assert max(float(value.abs().max()) for value in gradient.values()) < 2e-6
    assert 0.1 < entropy < np.log(4)
    other = TeacherScores(task, perfect.queries, perfect.documents, perfect.scores[::-1].copy())
    means, gradient = one_step(distillation(task, tmp_path, teacher=other))
    assert max(float(value.abs().max()) for value in gradient.values()) > 1e-2


def test_both_losses_are_those_of_torch(task, tmp_path: Path) -> None:
    teacher = teacher_scores(task, tmp_path)
    soft = distillation(task, tmp_path, teacher=teacher)
    queries, documents = vectors(task, soft.model)
    group = groups_of(task).at(2, 8)
    student = torch.einsum("bk,bgk->bg", queries[group.queries], documents[group.documents]) / 0.2
    wanted = torch.from_numpy(teacher.of(group))
    assert np.ptp(teacher.scores) > 0.1 and student.shape == (8, 4)
    means, _ = one_step(soft)
    expected = functional.cross_entropy(student, wanted.softmax(dim=1))  # torch's own soft labels, a mean over queries
    assert means == {"distillation": pytest.approx(float(expected), rel=1e-5)}
    kl = distillation(task, tmp_path, teacher=teacher, distillation="kl")
    means, _ = one_step(kl)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises against this mean, which the released code takes
        divergence = nn.KLDivLoss(reduction="mean")(student.log_softmax(dim=1), wanted.softmax(dim=1))
    plain = RankingObjective(kl.model, task, groups_of(task), DISTILLATION | {"loss": "softmax"})
    assert means["distillation"] == pytest.approx(float(divergence), rel=1e-4)
    assert means["contrastive"] == pytest.approx(one_step(plain)[0]["contrastive"], rel=1e-6)
    assert kl.terms == {"distillation": 1.0, "contrastive": 1e-4} and soft.terms == {"distillation": 1.0}


@pytest.mark.parametrize("form", ["soft-labels", "kl"])
def test_a_cut_batch_has_the_same_gradient(task, tmp_path: Path, form: str) -> None:
    teacher = teacher_scores(task, tmp_path)
    found = []
    for budget, pieces in ((10**6, 1), (200, 2), (1, 8)):
        objective = distillation(task, tmp_path, budget, teacher=teacher, distillation=form, contrastive_weight=0.5)
        assert len(objective.micro_batches(2)) == pieces
        found.append(one_step(objective))
    for means, gradient in found[1:]:
        assert means == pytest.approx(found[0][0], rel=1e-5)
        assert largest_difference(gradient, found[0][1]) < 1e-5
    assert max(float(value.abs().max()) for value in found[0][1].values()) > 1e-3


def ranking(data, model: DualEncoder, group: Group) -> np.ndarray:
    queries, documents = vectors(data, model)
    scores = torch.einsum("bk,bgk->bg", queries[group.queries], documents[group.documents])
    return scores.argsort(dim=1, descending=True).numpy()


def test_the_student_ranks_as_its_teacher_does(task, tmp_path: Path) -> None:
    """A teacher that a student of this size can equal: another dual encoder. Its rankings are not those of the judgements."""
    objective = distillation(task, tmp_path, teacher=scores_of(task, distillation(task, tmp_path).model))
    model, objective.options = objective.model, DISTILLATION | {"batch": 24}
    other = Encoder(model.config, 8, "mean", 11, "cosine")
    objective.teacher = scores_of(task, dual_encoder(other, "sde", 11), 1 / DISTILLATION["temperature"])
    groups = [groups_of(task).at(step, 8) for step in range(12)]
    # Rankings of documents that the teacher can hardly tell apart are chance.
    clear = [np.diff(np.sort(objective.teacher.of(group), axis=1), axis=1).min(axis=1) > 0.4 for group in groups]
    wanted = [np.argsort(-objective.teacher.of(group), axis=1) for group in groups]
    equal = lambda: [
        (ranking(task, model, group) == order).all(axis=1)[kept]
        for group, order, kept in zip(groups, wanted, clear, strict=True)
    ]
    before = np.concatenate(equal()).mean()
    curve = train(objective, OptimiserConfig(200, 2e-2, weight_decay=0.0), RunSettings(CPU, 1)).curve
    after = np.concatenate(equal())
    assert len(after) > 20 and before < 0.3 and after.mean() > 0.95
    assert curve[-1]["distillation"] < curve[0]["distillation"]
    assert np.mean([order[:, 0] == 0 for order in wanted]) < 0.6  # the relevant document is column 0


@pytest.mark.parametrize("form", ["soft-labels", "kl"])
def test_a_killed_run_ends_with_the_same_bits(task, tmp_path: Path, form: str) -> None:
    def go(directory: Path, stop: int | None) -> dict[str, torch.Tensor]:
        objective = distillation(task, directory, budget=200, distillation=form, dropout=0.1)
        checkpoints = Checkpoints(directory / "checkpoints", "k")
        train(objective, CONFIG, RunSettings(CPU, 3, 0.0), checkpoints, interrupt_after(stop))
        return objective.module.state_dict()

    straight = go(tmp_path / "straight", None)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "cut", 4)
    resumed = go(tmp_path / "cut", None)
    assert all(torch.equal(tensor, straight[name]) for name, tensor in resumed.items())


def test_the_teacher_scores_every_pair_of_the_run_once(task, tmp_path: Path, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(module, "score_pairs", lambda *given: asked.append(given[2:4]) or score_pairs(*given))
    scores = teacher_scores(task, tmp_path)
    pairs = list(zip(*(rows.tolist() for rows in asked[0]), strict=True))
    groups = groups_of(task)
    needed = {
        (int(query), int(document))
        for step in range(CONFIG.steps)
        for query, row in zip(*vars(groups.at(step, 8)).values(), strict=True)
        for document in row
    }
    assert len(asked) == 1 and len(pairs) == len(set(pairs)) and set(pairs) == needed
    group, model = groups.at(4, 8), cross_encoder(task).eval()
    for place, query in enumerate(group.queries):
        for column, document in enumerate(group.documents[place]):
            single = score_pairs(model, task, np.array([query]), np.array([document]), (8, 12), CPU)
            assert scores.of(group)[place, column] == pytest.approx(single[0], abs=1e-5)
    # The file serves a run that goes on; not one with other texts or another teacher, nor one that needs more pairs.
    found = teacher_scores(task, tmp_path)
    assert len(asked) == 1 and np.array_equal(found.scores, scores.scores)
    first = (tmp_path / "teacher.jsonl.gz").read_bytes()
    about = {"directory": "teacher", "sha256": {"model.safetensors": "0"}}
    score = lambda about, steps, options: module.score_groups(
        module.Teacher(cross_encoder(task), about),
        task,
        module.pairs_of(groups, steps, options["batch"]),
        options,
        tmp_path / "teacher.jsonl.gz",
        CPU,
    )
    score(about, 3, DISTILLATION)
    assert len(asked) == 1
    for number, changed in enumerate(
        [
            (about | {"sha256": {"model.safetensors": "1"}}, CONFIG.steps, DISTILLATION),
            (about, CONFIG.steps, DISTILLATION | {"passage_length": 11}),
            (about, CONFIG.steps, DISTILLATION),
            (about, CONFIG.steps + 9, DISTILLATION),
        ]
    ):
        score(*changed)
        assert len(asked) == 2 + number
        assert ((tmp_path / "teacher.jsonl.gz").read_bytes() == first) == (number == 2)


def test_the_file_is_readable(task, tmp_path: Path) -> None:
    scores = teacher_scores(task, tmp_path)
    lines = [json.loads(line) for line in gzip.decompress((tmp_path / "teacher.jsonl.gz").read_bytes()).splitlines()]
    assert lines[0] == {
        **{"teacher_scores": 1, "directory": "teacher", "sha256": {"model.safetensors": "0"}},
        **{"query_length": 8, "passage_length": 12},
    }
    queries, _ = pairs_of(groups_of(task), CONFIG.steps, 8)
    assert [line["query"] for line in lines[1:]] == [task.query_ids[row] for row in np.unique(queries)]
    row = np.flatnonzero(scores.queries == task.query_row(lines[1]["query"]))
    assert lines[1]["documents"] == [task.document_ids[document] for document in scores.documents[row]]
    assert np.array_equal(np.float32(lines[1]["scores"]), scores.scores[row])
    again, about = read_teacher_scores(tmp_path / "teacher.jsonl.gz", task)
    assert np.array_equal(again.scores, scores.scores) and about == {
        k: v for k, v in lines[0].items() if k != "teacher_scores"
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (0, '{"negatives": 1}'),
        (0, '{"teacher_scores": 2}'),
        (1, '{"query": "q0-0", "documents": ["d0", "d1"], "scores": [1.0]}'),
        (1, '{"query": "nobody", "documents": ["d0"], "scores": [1.0]}'),
        (1, '{"query": "q0-0", "documents": ["nothing"], "scores": [1.0]}'),
        (1, "rubbish"),
    ],
)
def test_a_damaged_file_is_refused(task, tmp_path: Path, line: int, text: str) -> None:
    teacher_scores(task, tmp_path)
    path = tmp_path / "teacher.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines[line] = text
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(DataError, match=r"teacher.jsonl.gz.* delete the file"):
        read_teacher_scores(path, task)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="damaged after line .* delete the file"):
        read_teacher_scores(path, task)


def test_refused(task, tmp_path: Path) -> None:
    scores = teacher_scores(task, tmp_path)
    missing = TeacherScores(task, scores.queries[::2], scores.documents[::2], scores.scores[::2])
    with pytest.raises(DataError, match=r"query 'q\d-\d' with document 'd\d' has none; delete teacher.jsonl.gz"):
        missing.of(groups_of(task).at(0, 8))
    with pytest.raises(DataError, match="has none"):
        TeacherScores(task, *(np.empty(0, np.int64),) * 2, np.empty(0)).of(groups_of(task).at(0, 2))
    with pytest.raises(DataError, match="no \\*.safetensors, expected a trained cross-encoder"):
        describe_teacher(tmp_path)
    save_file({"x": torch.ones(1)}, tmp_path / "model.safetensors")
    about = describe_teacher(tmp_path)
    assert about["directory"] == str(tmp_path) and len(about["sha256"]["model.safetensors"]) == 64
