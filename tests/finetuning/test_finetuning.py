"""Fine-tuning: it learns, keeps its best snapshot, resumes, and names what is wrong.

Seen to fail when: the last snapshot is kept, or the later of two equal ones; the validation target is not the question's own
candidate; a resumed run forgets the best weights; questions without answer are trained on; duplicates count as negatives; the
encoder's similarity is kept in place of the recipe's; micro-batches have negatives of their own alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pretrieve.errors import DataError
from pretrieve.finetuning import reqa
from pretrieve.finetuning.reqa import BestSnapshot, ReqaConfig, ReqaObjective
from pretrieve.finetuning.run import finetune
from pretrieve.models.batch import Batch
from pretrieve.models.hf_format import load_encoder
from pretrieve.retrieval.embed import encode
from pretrieve.tasks.dataset import Dataset
from pretrieve.training import loop
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

OPTIONS = {"dim": 16, "batch": 16, "steps": 60, "epochs": 1000, "learning_rate": 1e-2} | {
    "query_length": 8,
    "passage_length": 12,
    "temperature": 0.1,
    "similarity": "cosine",
}
CONFIG = ReqaConfig(16, 60, 1000, 8, 12, 0.1)


def tune(task: Dataset, encoder_dir: Path, directory: Path, options: dict = OPTIONS, seconds: float = 60.0):
    out = directory / "system" / "task" / "seed1"
    checkpoints = directory / "ckpt"
    return finetune(options, encoder_dir, task, "60pct", out, 1, choose_device("fp32"), checkpoints, seconds), out


def ranks(task: Dataset, directory: Path, rows: np.ndarray) -> np.ndarray:
    """Rank of each question's positive among all candidates, from 1."""
    encoder, _ = load_encoder(directory)
    device = choose_device("fp32")
    queries = encode(encoder, lambda r: task.pack_queries(r, 8), rows, device)
    documents = encode(encoder, lambda r: task.pack_candidates(r, 12), np.arange(len(task.candidate_passage)), device)
    scores = queries @ documents.T
    return 1 + (scores > scores[np.arange(len(rows)), task.positive[rows]][:, None]).sum(axis=1)


def test_learns(task: Dataset, encoder_dir: Path, tmp_path: Path) -> None:
    test = task.split("60pct", "test")
    before = ranks(task, encoder_dir, test).mean()
    outcome, out = tune(task, encoder_dir, tmp_path)
    after = ranks(task, out, test).mean()
    assert before > 3 and after < 1.5
    about = json.loads((out / "pretrieve.json").read_text())
    losses = [look["loss"] for look in about["validation"]]
    assert [look["step"] for look in about["validation"]] == [0, 15, 30, 45, 60]
    assert losses[0] > min(losses) + 0.5
    assert about["best_step"] == about["validation"][int(np.argmin(losses))]["step"]
    assert (about["training_questions"], about["validation_questions"], about["size"]) == (24, 8, "60pct")
    assert about["encoder"]["seed"] == 3 and about["trained_projection"] is True
    assert len(outcome.curve) == 60 and (out / "curve.csv").is_file() and not (tmp_path / "ckpt").exists()


def test_resumes(task: Dataset, encoder_dir: Path, tmp_path: Path, monkeypatch) -> None:
    options = OPTIONS | {"steps": 20}
    _, reference = tune(task, encoder_dir, tmp_path / "straight", options)
    rate, seen = loop.learning_rate_at, []

    def interrupted(config, step):
        seen.append(step)
        if seen.count(13) == 1 and step == 13:
            raise KeyboardInterrupt
        return rate(config, step)

    monkeypatch.setattr(loop, "learning_rate_at", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(task, encoder_dir, tmp_path / "cut", options, seconds=0.0)
    _, out = tune(task, encoder_dir, tmp_path / "cut", options)
    assert seen == [*range(14), *range(13, 20)]
    for name in ("model.safetensors", "heads.safetensors"):
        a, b = load_file(reference / name), load_file(out / name)
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert (reference / "pretrieve.json").read_text() == (out / "pretrieve.json").read_text()


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_retriever_has_the_recipes_similarity(task, encoder_dir, tmp_path, cpu, similarity: str) -> None:
    """Whatever the encoder was pre-trained with; the loss, the validation and the retriever use the same vectors."""
    assert load_encoder(encoder_dir)[0].similarity == "cosine"
    outcome, out = tune(task, encoder_dir, tmp_path, OPTIONS | {"similarity": similarity, "steps": 3})
    encoder, about = load_encoder(out)
    assert encoder.similarity == about["similarity"] == similarity
    rows = np.arange(40)
    norms = np.linalg.norm(encode(encoder, lambda r: task.pack_queries(r, 8), rows, cpu), axis=1)
    assert (np.abs(norms - 1).max() < 1e-5) == (similarity == "cosine")
    # The first loss is that of the untrained encoder with this similarity: dropout of 0.1 changes it by a little.
    fresh, _ = load_encoder(encoder_dir, 16, 1, similarity)
    objective = ReqaObjective(fresh.eval(), task, task.split("60pct", "train"), CONFIG, 1, cpu.device)
    (batch,) = objective.micro_batches(0)
    vectors, _ = objective.vectors(batch, False)
    loss = objective.contrast([vectors], [batch])["contrastive"].item() / batch.counts["contrastive"]
    assert outcome.curve[0]["loss"] == pytest.approx(loss, rel=0.25)


def test_any_cut_of_a_batch_is_the_same_batch(task, encoder_dir, cpu) -> None:
    """The gradient cache over micro-batches gives the gradient of the whole batch."""
    gradients = []
    for parts in (1, 3, 16):
        encoder, _ = load_encoder(encoder_dir)
        objective = ReqaObjective(encoder.eval(), task, task.split("60pct", "train"), CONFIG, 1, cpu.device)
        batches = objective.micro_batches(0, parts)
        assert len(batches) == parts and sum(b.counts["contrastive"] for b in batches) == 16
        accumulate(objective, batches, cpu, Processes(), (0, 0))
        gradients.append({name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None})
    assert max(float(gradient.abs().max()) for gradient in gradients[0].values()) > 1e-2
    for other in gradients[1:]:
        assert other.keys() == gradients[0].keys()
        assert all(float((other[name] - gradients[0][name]).abs().max()) <= 1e-5 for name in other)


@pytest.fixture
def watcher(task: Dataset, encoder_dir: Path, cpu) -> BestSnapshot:
    encoder, _ = load_encoder(encoder_dir)
    train, valid = task.split("60pct", "train"), task.split("60pct", "valid")
    return BestSnapshot(encoder, task, train, valid, ReqaConfig(16, 8, 10, 8, 12, 0.1, snapshots=4), 8, cpu)


@pytest.mark.parametrize(
    ("losses", "best"), [([3, 2, 2, 1.5, 4], 3), ([1, 2, 3, 4, 5], 0), ([3, 2, 2, 2, 2], 1), ([5, 4, 3, 2, 1], 4)]
)
def test_best_snapshot(watcher: BestSnapshot, monkeypatch, losses: list[float], best: int) -> None:
    values = iter(map(float, losses))
    monkeypatch.setattr(watcher, "_loss", lambda: next(values))
    weight = watcher._encoder.projection.weight

    def become(value: int) -> None:
        with torch.no_grad():
            weight.fill_(value)

    become(0)
    watcher.start()
    for step in range(8):
        become((step + 1) // 2 if step % 2 else 99)  # looks come after steps 1, 3, 5, 7
        watcher.after_step(step)
    assert [look["step"] for look in watcher.info["validation"]] == [0, 2, 4, 6, 8]
    assert next(values, None) is None
    watcher.restore()
    assert bool((weight == best).all()) and watcher.info["best_step"] == 2 * best


def test_validation_loss_by_hand(watcher: BestSnapshot, task: Dataset, cpu) -> None:
    valid = task.split("60pct", "valid")
    queries = encode(watcher._encoder, lambda r: task.pack_queries(r, 8), valid, cpu)
    documents = encode(watcher._encoder, lambda r: task.pack_candidates(r, 12), np.arange(1, 9), cpu)
    scores = np.exp(queries.astype(np.float64) @ documents.T / 0.1)  # candidates of all questions: x is nobody's
    expected = -np.log(scores[np.arange(8), task.positive[valid] - 1] / scores.sum(axis=1)).mean()
    assert watcher._loss() == pytest.approx(expected, abs=1e-5)


def test_more_validation_questions_than_candidates_are_looked_at(task, encoder_dir, cpu, monkeypatch) -> None:
    monkeypatch.setattr(reqa, "MAX_VALIDATION", 3)
    encoder, _ = load_encoder(encoder_dir)
    train, valid = task.split("60pct", "train"), task.split("60pct", "valid")
    watcher = BestSnapshot(encoder, task, train, valid, CONFIG, 8, cpu)
    assert 0 < watcher._loss() < 50 and len(valid) == 8


@pytest.mark.parametrize(
    ("questions", "batch", "steps", "epochs", "expected"),
    [(24, 16, 60, 1000, 60), (24, 16, 60, 10, 15), (24, 128, 60, 10, 10), (3, 128, 60, 0.1, 1), (1000, 100, 60, 5, 50)],
)
def test_steps_for(questions: int, batch: int, steps: int, epochs: float, expected: int) -> None:
    assert ReqaConfig(batch, steps, epochs, 8, 12, 0.1).steps_for(questions) == expected


def test_objective(task: Dataset, encoder_dir: Path, cpu) -> None:
    encoder, _ = load_encoder(encoder_dir)
    encoder.eval()
    rows = task.split("60pct", "train")
    objective = ReqaObjective(encoder, task, rows, CONFIG, 1, cpu.device)
    seen = []
    for step in range(3):  # 3 steps of 16 are two epochs over 24 questions; one step spans both
        (batch,) = objective.micro_batches(step)
        queries, documents, positives = batch.data
        assert len(queries.lengths) == len(documents.lengths) == len(positives) == batch.counts["contrastive"] <= 16
        seen += positives.tolist()
        assert batch.rows == 2 * len(positives) and (batch.ids == np.unique(batch.ids)).all()
        own, losses = objective.vectors(batch, True)
        assert losses == {}
        loss = objective.contrast([own], [batch])["contrastive"].item()
        vectors = [encoder(Batch.of(packed)).detach().double() for packed in (queries, documents)]
        expected = 0.0
        for i, own in enumerate(positives):
            scores = {j: float(vectors[0][i] @ vectors[1][j]) / 0.1 for j in range(len(positives))}
            others = [np.exp(s) for j, s in scores.items() if positives[j] != own]
            expected += -scores[i] + np.log(np.exp(scores[i]) + sum(others))
        assert loss == pytest.approx(expected, rel=1e-4)
        assert len(set(positives.tolist())) < len(positives)  # the case has duplicates
    assert set(seen) == set(range(1, 9))


def test_a_question_without_answer_is_named(changed_task, encoder_dir: Path, tmp_path: Path) -> None:
    relevance = [1] * 80
    relevance[2 * 6 : 2 * 7] = [0, 0]  # q1-1 trains
    with pytest.raises(DataError, match=r"1 training questions have no answer, e.g. 'q1-1'"):
        tune(Dataset(changed_task("qrels", relevance=relevance)), encoder_dir, tmp_path)
    relevance = [1] * 80
    relevance[2 * 9 : 2 * 10] = [0, 0]  # q1-4 tests: that is no error here
    assert Dataset(changed_task("qrels", relevance=relevance)).positive[9] == -1


def test_another_vocabulary(task: Dataset, store, body, tmp_path: Path) -> None:
    from pretrieve.models.encoder import Encoder
    from pretrieve.models.hf_format import save_encoder

    save_encoder(tmp_path / "e", Encoder(body, 16, "cls", 0))
    with pytest.raises(DataError, match="both must come from one tokenizer"):
        tune(task, tmp_path / "e", tmp_path)
    # One of the same size, so that every shape fits, is refused as well.
    fitting = replace(body, vocabulary_size=task.passages.vocabulary_size)
    save_encoder(tmp_path / "f", Encoder(fitting, 16, "cls", 0), about={"vocabulary_sha256": "0" * 64})
    with pytest.raises(DataError, match="vocabulary 000000000000, the task"):
        tune(task, tmp_path / "f", tmp_path)


def test_dataset_arrays(task: Dataset) -> None:
    assert task.positive.tolist() == [1 + k for k in range(8) for _ in range(5)]  # not the irrelevant ones before them
    assert task.candidate_sentence.tolist() == [-1, *range(0, 16, 2)]
    assert task.candidate_passage.tolist() == [0, *range(8)]
    assert [task.query_ids[row] for row in task.split("60pct", "valid")[:2]] == ["q0-3", "q1-3"]
    with pytest.raises(DataError, match=r"no size '1pct'; it has \['60pct'\]"):
        task.split("1pct", "train")


def test_unknown_names_in_qrels(changed_task) -> None:
    with pytest.raises(DataError, match="document 'd99' is not in the task"):
        Dataset(changed_task("qrels", doc_id=["d99"] * 80))
    with pytest.raises(DataError, match="query 'nobody' is not in the task"):
        Dataset(changed_task("qrels", query_id=["nobody"] * 80))
