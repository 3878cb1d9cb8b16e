"""Fine-tuning runs from end to end: they learn, resume, keep what they found, and name what is wrong.

The parts are tested by themselves: losses, groups, ranking, validation, ance, distillation, cross_encoding, example_objectives.

Seen to fail when: the last snapshot is kept; a resumed run forgets the best weights; questions without answer are trained
on; the encoder's similarity is kept in place of the recipe's; a continued recipe begins with the encoder; the key of a run's
checkpoints leaves out its negatives; epochs are chosen by the highest loss, or by that of weights that are not kept, or trained
again; the first process removes a search of epochs that others have not read; the lists of ANCE, the
teacher's scores or the runs on the way are not kept; snapshots are looked for where there are no steps.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.finetuning import validation
from pretrieve.finetuning.fine_tuning import FineTuning, options_of_size
from pretrieve.finetuning.finetune import finetune
from pretrieve.finetuning.recipes import resolve_recipe
from pretrieve.finetuning.trainers import prepare
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import load_encoder, read_encoder, save_encoder
from pretrieve.models.retriever_files import load_cross_encoder, load_retriever
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.retrieval.embed import encode
from pretrieve.retrieval.negatives import Negatives, read_negatives, write_negatives
from pretrieve.retrieval.trec_run import read_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes

SMALL = {
    "query_length": 8,
    "passage_length": 12,
    "learning_rate": 1e-2,
    "optimiser": "adamw",
    "epochs": 1e6,
    "warmup": 0.1,
}


def options_of(recipe: str, **changes: Any) -> dict[str, Any]:
    return resolve_recipe(recipe, {"options": changes}, {"all": SMALL})


REQA = {"dim": 16, "batch": 16, "steps": 60, "temperature": 0.1, "similarity": "cosine", "pooling": "mean"}
OPTIONS = options_of("reqa", **REQA)


def tune(
    task: Dataset, encoder_dir: Path, directory: Path, options: dict = OPTIONS, seconds: float = 60.0, **parts: Any
):
    out, work = directory / "system" / "task" / "seed1", directory / "work"
    run = FineTuning(options, encoder_dir, task.directory, "60pct", 1, choose_device("fp32"), work, **parts)
    return finetune(run, out, seconds), out


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
    assert len(outcome.curve) == about["steps"] == 60 and (out / "curve.csv").is_file()
    assert not (tmp_path / "work" / "state").exists()


def test_the_best_snapshot_is_what_is_saved(task: Dataset, encoder_dir: Path, tmp_path: Path, monkeypatch) -> None:
    values = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr(validation.BestSnapshot, "_loss", lambda self: next(values))
    _, out = tune(task, encoder_dir, tmp_path)
    before, after = (load_file(place / "model.safetensors") for place in (encoder_dir, out))
    assert all(torch.equal(before[name], after[name]) for name in after)
    assert json.loads((out / "pretrieve.json").read_text())["best_step"] == 0


@pytest.mark.parametrize("snapshots", [0, 1, 4])
def test_without_steps_the_retriever_is_the_encoder(task, encoder_dir, tmp_path: Path, snapshots: int) -> None:
    """Also with the snapshots that ``reqa`` has of itself: there is no step to look at."""
    _, out = tune(task, encoder_dir, tmp_path, options_of("reqa", **REQA | {"steps": 0, "snapshots": snapshots}))
    before, after = (load_file(place / "model.safetensors") for place in (encoder_dir, out))
    assert all(torch.equal(before[name], after[name]) for name in after)
    assert "validation" not in json.loads((out / "pretrieve.json").read_text())


def test_epochs_are_searched_by_validation_loss(task, encoder_dir, tmp_path, monkeypatch, cut_at) -> None:
    """The ends of 1, 3 and 2 epochs: 3 ends lowest. It is the model of a run with 3 epochs: the start is no choice. A killed
    search goes on."""
    searched = options_of("reqa", **REQA, snapshots=1) | {"epochs": [1, 3, 2]}
    _, plain = tune(task, encoder_dir, tmp_path / "plain", searched | {"epochs": 3})
    losses = iter([5.0, 2.0, 4.0])
    monkeypatch.setattr(validation.BestSnapshot, "_loss", lambda self: next(losses))
    seen = cut_at(3)  # of the second one: the first has two steps
    with pytest.raises(KeyboardInterrupt):
        tune(task, encoder_dir, tmp_path, searched)
    assert seen == [0, 1, 0, 1, 2, 3]
    first = json.loads(next((tmp_path / "work").glob("epochs1/done.json")).read_text())["spent"]
    outcome, out = tune(task, encoder_dir, tmp_path, searched)
    assert [*outcome.earlier] == first and outcome.earlier.wall_s < outcome.spent.wall_s
    about = json.loads((out / "pretrieve.json").read_text())
    assert about["epochs_searched"] == {"1": 5.0, "3": 2.0, "2": 4.0} and about["finetuning"]["epochs"] == 3
    assert seen[6:8] == [0, 1] and len(seen) == 6 + 4 + 3  # not the first one again
    one, other = (load_file(place / "model.safetensors") for place in (plain, out))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not (tmp_path / "work").exists()


def test_a_search_of_epochs_compares_the_weights_that_are_kept(task, encoder_dir, tmp_path, monkeypatch) -> None:
    """Of 1 and 3 epochs: start, half, end. 3 ends lower, but of each the weights of the half are kept."""
    losses = iter([5.0, 1.0, 4.0, 5.0, 2.0, 3.0])
    monkeypatch.setattr(validation.BestSnapshot, "_loss", lambda self: next(losses))
    _, out = tune(task, encoder_dir, tmp_path, options_of("reqa", **REQA, snapshots=2) | {"epochs": [1, 3]})
    about = json.loads((out / "pretrieve.json").read_text())
    assert about["epochs_searched"] == {"1": 1.0, "3": 2.0}
    assert about["finetuning"]["epochs"] == 1 and about["best_step"] == 1


def test_no_process_removes_a_search_that_another_one_reads(task, encoder_dir, tmp_path, monkeypatch) -> None:
    """A search that was killed while its model was copied: nothing is left to train, where processes would wait."""
    searched, there = options_of("reqa", **REQA, snapshots=1) | {"epochs": [1, 3]}, []

    class Slow(Processes):
        def wait(self) -> None:
            there.append((tmp_path / "work").is_dir())

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr("shutil.copytree", interrupted)
        tune(task, encoder_dir, tmp_path, searched)
    tune(task, encoder_dir, tmp_path, searched, processes=Slow())
    # Before and after each number is looked up, and once more before all is removed; the end.
    assert there == [True] * 5 + [False]


def interrupted(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


def test_a_killed_search_of_epochs_begins_again_with_other_code(
    task, encoder_dir, tmp_path, monkeypatch, cut_at
) -> None:
    """Or the model could be one that the code before has made."""
    searched = options_of("reqa", **REQA, snapshots=1) | {"epochs": [1, 3]}
    seen = cut_at(3)
    with pytest.raises(KeyboardInterrupt):
        tune(task, encoder_dir, tmp_path, searched)
    monkeypatch.setenv("PRETRIEVE_CODE", "other")
    tune(task, encoder_dir, tmp_path, searched)
    assert seen == [0, 1, 0, 1, 2, 3] * 2


def test_which_sizes_are_searched() -> None:
    options = resolve_recipe("sts", {}, {})
    assert (
        options_of_size(options, "1k", ())["epochs"] == [4, 8] and options_of_size(options, "full", ())["epochs"] == 4
    )
    assert options_of_size(options | {"few_epochs": []}, "1k", ())["epochs"] == 4
    assert options_of_size(options | {"steps": 0}, "1k", ())["epochs"] == 4  # nothing to choose among


def negatives_of(task: Dataset, path: Path) -> Path:
    """For each query all other topics' candidates, the next topic's first."""
    documents = [[f"d{(k + i) % 8}" for i in range(1, 8)] for k in range(8) for _ in range(5)]
    scores = [np.arange(7, 0, -1, dtype=np.float32)] * 40
    write_negatives(path, Negatives(task.query_ids, documents, scores, {"source": "test"}))
    return path


RECIPES = {
    "reqa": REQA | {"steps": 12},
    "dpr-bm25": {"batch": 6, "group": 3, "steps": 8},
    "seed-pairwise": {"batch": 6, "steps": 8, "curve": 2},
    "ance": {"batch": 6, "steps": 8, "pool": 5, "refresh": 3, "curve": 1},
    "dupmae-1stage": {"batch": 6, "steps": 6, "cls_dim": 8, "top": 4},
    "dupmae-teacher": {"batch": 4, "group": 3, "steps": 6},
    "dupmae-3stage": {"batch": 4, "group": 3, "steps": 6, "representation": "dense"},
}


@pytest.fixture
def worded_dir(encoder_dir: Path, task: Dataset, tmp_path: Path) -> Path:
    """An encoder whose objective trained a word head, as the joint representation needs."""
    saved, directory = read_encoder(encoder_dir), tmp_path / "worded"
    encoder = Encoder(saved.config, 16, "cls", 3)
    save_encoder(directory, encoder, {"mlm": MaskedWordHead(saved.config, 3)}, dict(saved.about) | {"pooling": "cls"})
    return directory


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_killed_run_goes_on_to_the_same_bits(task, worded_dir, tmp_path, cut_at, recipe: str) -> None:
    options = options_of(recipe, **RECIPES[recipe])
    parts: dict[str, Any] = (
        {"negatives": {"bm25": negatives_of(task, tmp_path / "n.jsonl.gz")}} if options["negatives"] else {}
    )
    if options.get("teacher"):
        teacher = options_of("dupmae-teacher", **RECIPES["dupmae-teacher"])
        parts["teacher"] = tune(task, worded_dir, tmp_path / "teacher", teacher, **parts)[1]
    _, reference = tune(task, worded_dir, tmp_path / "straight", options, **parts)
    seen = cut_at(5)
    with pytest.raises(KeyboardInterrupt):
        tune(task, worded_dir, tmp_path / "cut", options, seconds=0.0, **parts)
    _, out = tune(task, worded_dir, tmp_path / "cut", options, **parts)
    assert seen == [*range(6), *range(5, RECIPES[recipe]["steps"])]
    files = sorted(path.relative_to(reference) for path in reference.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()) and len(files) >= 5
    for name in files:
        if name.name != "curve.csv":
            assert (reference / name).read_bytes() == (out / name).read_bytes(), name
    assert not any(path.is_file() for path in (tmp_path / "cut/work").rglob("*")), (
        "what only a killed run needs is gone"
    )
    weights = load_file(out / "model.safetensors")
    before = load_file(worded_dir / "model.safetensors")
    assert any(not torch.equal(weights[name], before[name]) for name in weights), "it was trained"


def test_a_finished_model_is_not_trained_again(task: Dataset, worded_dir: Path, tmp_path: Path) -> None:
    """A job that runs again for its scores keeps its model; other options, or a file that is not as it was, train anew."""
    options = options_of("reqa", **(REQA | {"steps": 3}))
    first, out = tune(task, worded_dir, tmp_path, options)
    weights = (out / "model.safetensors").read_bytes()
    again, _ = tune(task, worded_dir, tmp_path, options)
    assert first.tokens and again.tokens == 0 and (out / "model.safetensors").read_bytes() == weights
    (out / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    (out / "left-over.txt").write_text("of another run")
    repaired, _ = tune(task, worded_dir, tmp_path, options)
    assert repaired.tokens == first.tokens and (out / "model.safetensors").read_bytes() == weights
    assert not (out / "left-over.txt").exists()
    longer, _ = tune(task, worded_dir, tmp_path, options | {"steps": 4})
    assert longer.tokens > first.tokens


def test_a_search_of_epochs_is_made_again_for_another_task(
    task, changed_task, encoder_dir: Path, tmp_path: Path
) -> None:
    """Neither the model that is there nor what a killed search has left is taken where the task's judgements have changed."""
    searched = options_of("reqa", **REQA | {"steps": 2}, snapshots=1) | {"epochs": [1, 2]}
    first, out = tune(task, encoder_dir, tmp_path, searched)
    again, _ = tune(task, encoder_dir, tmp_path, searched)
    assert first.tokens and again.tokens == 0
    relevant = [f"d{(k + 1) % 8}" for k in range(8) for _ in range(10)]
    other = Dataset(changed_task("qrels", doc_id=relevant))
    assert other.relevant[0].tolist() != task.relevant[0].tolist()
    before = load_file(out / "model.safetensors")
    changed, _ = tune(other, encoder_dir, tmp_path, searched)
    after = load_file(out / "model.safetensors")
    assert changed.tokens and any(not torch.equal(before[name], after[name]) for name in after)


def test_what_is_kept_beside_a_retriever(task: Dataset, worded_dir: Path, tmp_path: Path) -> None:
    negatives = {"mined:x": negatives_of(task, tmp_path / "n.jsonl.gz")}
    _, out = tune(task, worded_dir, tmp_path / "a", options_of("ance", **RECIPES["ance"]), negatives=negatives)
    steps = {path.name: read_negatives(path) for path in (out / "negatives").iterdir()}
    assert set(steps) == {"step3.jsonl.gz", "step6.jsonl.gz"}  # the given ones are used before the first refresh
    assert steps["step3.jsonl.gz"].doc_ids != steps["step6.jsonl.gz"].doc_ids
    runs = {path.name: read_trec(path) for path in (out / "steps").iterdir()}
    test = [task.query_ids[row] for row in task.split("60pct", "test")]
    assert set(runs) == {"0.trec.gz", "8.trec.gz"} and all(
        sorted(run.query_ids) == sorted(test) for run in runs.values()
    )
    assert runs["0.trec.gz"].doc_ids != runs["8.trec.gz"].doc_ids
    teacher = options_of("dupmae-teacher", **RECIPES["dupmae-teacher"])
    _, taught_by = tune(task, worded_dir, tmp_path / "t", teacher, negatives=negatives)
    assert load_cross_encoder(taught_by)[0].classes == 1
    third = options_of("dupmae-3stage", **RECIPES["dupmae-3stage"])
    _, out = tune(task, worded_dir, tmp_path / "s", third, negatives=negatives, teacher=taught_by)
    with gzip.open(out / "teacher.jsonl.gz", "rt") as stream:
        header = json.loads(stream.readline())
        assert header["directory"] == str(taught_by) and len(stream.readlines()) > 10
    with pytest.raises(ConfigError, match="needs a teacher"):
        tune(task, worded_dir, tmp_path / "u", third, negatives=negatives)


def test_a_recipe_that_goes_on_begins_with_the_other_retriever(task: Dataset, worded_dir: Path, tmp_path: Path) -> None:
    """One step of a tiny rate changes next to nothing, so the weights say what it began with."""
    first = options_of("dupmae-1stage", **RECIPES["dupmae-1stage"])
    _, begun = tune(task, worded_dir, tmp_path / "first", first)
    changes = {"batch": 4, "group": 3, "steps": 1, "cls_dim": 8, "top": 4, "learning_rate": 1e-9}
    negatives = {"mined:dupmae-1stage": negatives_of(task, tmp_path / "n.jsonl.gz")}
    second = options_of("dupmae-2stage", **changes)
    _, out = tune(task, worded_dir, tmp_path / "second", second, negatives=negatives, start=begun)
    for name in ("model.safetensors", "heads.safetensors"):
        before, after = load_file(begun / name), load_file(out / name)
        assert before.keys() == after.keys() and all(
            torch.allclose(before[key], after[key], atol=1e-6) for key in after
        )
    # Other negatives are another run, whose checkpoints are never taken up.
    runs = [
        FineTuning(
            second, worded_dir, task.directory, "60pct", 1, choose_device("fp32"), tmp_path, begun, negatives=own
        )
        for own in (negatives, {"mined:dupmae-1stage": _without_last(task, tmp_path)})
    ]
    keys = {prepare(run).key for run in runs}
    assert len(keys) == 2


def _without_last(task: Dataset, directory: Path) -> Path:
    whole = read_negatives(negatives_of(task, directory / "n.jsonl.gz"))
    fewer = Negatives(whole.query_ids, [ids[:-1] for ids in whole.doc_ids], [s[:-1] for s in whole.scores], whole.about)
    write_negatives(directory / "fewer.jsonl.gz", fewer)
    return directory / "fewer.jsonl.gz"


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_retriever_has_the_recipes_similarity(task, encoder_dir, tmp_path, cpu, similarity: str) -> None:
    """Whatever the encoder was pre-trained with."""
    assert load_encoder(encoder_dir)[0].similarity == "cosine"
    _, out = tune(task, encoder_dir, tmp_path, options_of("reqa", **REQA | {"similarity": similarity, "steps": 3}))
    model, about = load_retriever(out)
    assert model.similarity == about["similarity"] == similarity
    norms = np.linalg.norm(encode(model.query, lambda r: task.pack_queries(r, 8), np.arange(40), cpu), axis=1)
    assert (np.abs(norms - 1).max() < 1e-5) == (similarity == "cosine")


def test_a_question_without_answer_is_named(changed_task, encoder_dir: Path, tmp_path: Path) -> None:
    relevance = [1] * 80
    relevance[2 * 6 : 2 * 7] = [0, 0]  # q1-1 trains
    with pytest.raises(DataError, match=r"1 training questions have no answer, e.g. 'q1-1'"):
        tune(Dataset(changed_task("qrels", relevance=relevance)), encoder_dir, tmp_path)
    relevance = [1] * 80
    relevance[2 * 9 : 2 * 10] = [0, 0]  # q1-4 tests: that is no error here
    assert Dataset(changed_task("qrels", relevance=relevance)).positive[9] == -1


def test_another_vocabulary(task: Dataset, store, body, tmp_path: Path) -> None:
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
