"""ANCE: negatives are those that brute force finds with the weights of the refresh; they change; a kill changes nothing.

Two processes: test_finetuning_processes.py.

Seen to fail when: the corpus is embedded with the query tower; dropout is on while it is; relevant documents stay in;
what is drawn is the first of the pool, or the same at every refresh; hits with an answer stay in open QA; the lists are
not used; a refresh comes a step late; the thread that makes batches ahead is let past a refresh; a resumed run searches
again in the middle of a period, or takes another run's file; the stale embeddings of a killed refresh are used; a file
that no refresh wrote is asked for at the end.
"""

from __future__ import annotations

import gzip
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from ranking_small import CPU, lists
from small_body import interrupt_after
from teacher_small import ANCE, CONFIG, SAMPLE, ance

from pretrieve.base.errors import DataError
from pretrieve.finetuning.groups import Groups
from pretrieve.models.batch import Batch
from pretrieve.retrieval.negatives import Negatives, read_negatives
from pretrieve.tasks.answers import Answers, write_answers
from pretrieve.tasks.dataset import Dataset
from pretrieve.training import loop
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.device import Device
from pretrieve.training.loop import Prefetch, RunSettings, train

REFRESHES = (0, 3, 6)


def brute_force(data, model, rows: np.ndarray) -> dict[str, list[tuple[str, float]]]:
    """Query id → irrelevant documents among its first ``pool``, best first, each text embedded by itself."""
    was = model.training
    model.eval()
    found = {}
    with torch.no_grad():
        corpus = range(len(data.document_ids))
        one = lambda tower, packed: tower(Batch.of(packed, "cpu"))[0].double()
        documents = [one(model.document, data.pack_candidates(np.array([row]), 12)) for row in corpus]
        for row in rows:
            query = one(model.query, data.pack_queries(np.array([row]), 8))
            scored = sorted((-float(query @ document), data.document_ids[i]) for i, document in enumerate(documents))
            relevant = {data.document_ids[document] for document in data.relevant[row]}
            kept = [(name, -score) for score, name in scored[: ANCE["pool"]] if name not in relevant]
            found[data.query_ids[row]] = kept
    model.train(was)
    return found


def check(negatives: Negatives, expected: dict[str, list[tuple[str, float]]]) -> None:
    """Are they ``SAMPLE`` of the expected ones for each query, in their order?"""
    assert negatives.query_ids == list(expected)
    for query_id, documents, scores in zip(negatives.query_ids, negatives.doc_ids, negatives.scores, strict=True):
        wanted = dict(expected[query_id])
        assert len(documents) == min(SAMPLE, len(wanted)) and set(documents) <= set(wanted)
        assert documents == [name for name in wanted if name in documents]
        np.testing.assert_allclose(scores, [wanted[name] for name in documents], atol=1e-5)


def test_a_refresh_finds_what_brute_force_finds(task, tmp_path: Path) -> None:
    """With another pool of candidates left out; texts are embedded without dropout though the model is being trained."""
    objective = ance(task, tmp_path, dropout=0.3)
    fresh, model = objective.groups, objective.model.train()
    stale = tmp_path / "negatives/embeddings"
    fresh._present._embed(None, "run-0")
    shutil.move(stale, tmp_path / "stale")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter, memory_format=torch.contiguous_format))
    shutil.copytree(tmp_path / "stale", stale)  # as a killed refresh of the same step would have left it
    negatives = fresh.find(0)
    expected = brute_force(task, model, fresh.rows)
    check(negatives, expected)
    assert model.training and not stale.exists()
    counts = [len(kept) for kept in expected.values()]
    assert {len(documents) for documents in negatives.doc_ids} == {SAMPLE}
    assert min(counts) == ANCE["pool"] - 1 and max(counts) == ANCE["pool"]  # some relevant ones were taken out
    first = [[name for name, _ in kept[:SAMPLE]] for kept in expected.values()]
    assert negatives.doc_ids != first  # drawn, not the first ones
    again = [fresh.find(step).doc_ids for step in (0, 3)]
    assert again[0] == negatives.doc_ids != again[1]
    assert negatives.about == {
        **{"source": "ance", "step": 0, "key": "run", "sample": SAMPLE, "depth": 5, "queries": 24},
        "without_negatives": 0,
    }


def test_hits_with_an_answer_are_no_negatives_in_open_qa(changed_task, tmp_path: Path) -> None:
    """SEED-Encoder run_ann_data_gen_dpr.py:321-323; the answer of a topic's questions stands in the next two passages."""
    texts = ["nothing", *(f"Here is word{k - 1}, and Word{k - 2}." for k in range(8))]
    directory = changed_task("corpus", passage=texts)
    names = [f"q{k}-{i}" for k in range(8) for i in range(5)]
    write_answers(directory / "answers.parquet", [(name, Answers([f"word{name[1]}", "none"])) for name in names])
    data = Dataset(directory)
    objective = ance(data, tmp_path, without_answers=True)
    found, model = objective.groups.find(0), objective.model
    expected, left_out = {}, 0
    for query, kept in brute_force(data, model, objective.groups.rows).items():
        answered = {f"d{int(query[1]) + k}" for k in (1, 2)}
        expected[query] = [pair for pair in kept if pair[0] not in answered]
        left_out += len(kept) - len(expected[query])
    check(found, expected)
    assert left_out > 9 and found.about["with_answer"] == left_out
    usual = ance(data, tmp_path / "usual").groups.find(0)
    assert "with_answer" not in usual.about


def run(data, directory: Path, stop: int | None = None, given: bool = False, searched: bool = False):
    """Train, with a checkpoint after every step; returns the objective, what brute force finds at each refresh (if it is
    ``searched``), and what each step was trained with."""
    objective, models, used = ance(data, directory, given=given, dropout=0.1), {}, {}
    plain = objective.micro_batches
    begins = lambda step: step % objective.groups.refresh == 0 and (step > 0 or not given)

    def watched(step: int, parts: int = 1):
        if begins(step):
            models[step] = brute_force(data, objective.model, objective.groups.rows) if searched else None
        used[step] = [batch.data.group for batch in plain(step, parts)]
        return plain(step, parts)

    objective.micro_batches = watched
    checkpoints = Checkpoints(directory / "checkpoints", "run")
    train(objective, CONFIG, RunSettings(CPU, 3, 0.0), checkpoints, interrupt_after(stop))
    return objective, models, used


def test_negatives_are_those_of_the_weights_of_each_refresh(task, tmp_path: Path) -> None:
    objective, models, used = run(task, tmp_path, searched=True)
    assert sorted(models) == list(REFRESHES) and sorted(used) == list(range(CONFIG.steps))
    assert sorted(path.name for path in (tmp_path / "negatives").iterdir()) == [f"step{n}.jsonl.gz" for n in REFRESHES]
    found = {step: read_negatives(objective.groups.path(step)) for step in REFRESHES}
    for step in REFRESHES:
        check(found[step], models[step])
        ranked = {query: [name for name, _ in kept] for query, kept in models[step].items()}
        earlier = {query: [name for name, _ in kept] for query, kept in models[max(step - 3, 0)].items()}
        assert step == 0 or ranked != earlier  # the model has moved far enough to be seen
    for step, groups in used.items():
        lists_now = dict(zip(found[step - step % 3].query_ids, found[step - step % 3].doc_ids, strict=True))
        for group in groups:
            for query, documents in zip(group.queries, group.documents, strict=True):
                allowed = lists_now[task.query_ids[query]]
                assert documents[0] == task.positive[query]
                assert {task.document_ids[document] for document in documents[1:]} <= set(allowed)


def test_the_queries_of_a_step_do_not_depend_on_the_lists(task, tmp_path: Path) -> None:
    _, _, used = run(task, tmp_path)
    rows = task.split("60pct", "train")
    fixed = Groups(task, rows, ANCE, [lists(task, rows)], 5)
    for step, groups in used.items():
        queries = np.concatenate([group.queries for group in groups])
        assert np.array_equal(queries, fixed.at(step, ANCE["batch"]).queries)


def test_given_negatives_are_used_until_the_first_refresh(task, tmp_path: Path) -> None:
    objective, models, used = run(task, tmp_path, given=True)
    rows = task.split("60pct", "train")
    given = Groups(task, rows, ANCE, [lists(task, rows)], 5)
    for step in range(3):
        assert np.array_equal(used[step][0].documents, given.at(step, 8).documents)
    assert not np.array_equal(used[3][0].documents, given.at(3, 8).documents)
    assert sorted(models) == [3, 6] and not objective.groups.path(0).exists()


@pytest.mark.parametrize("given", [False, True])
def test_a_killed_run_ends_with_the_same_bits(task, tmp_path: Path, given: bool) -> None:
    """Killed in the middle of a period, at its last step, and right behind a refresh; also with the last checkpoint lost, so
    that a refresh that was done comes again."""
    straight, _, _ = run(task, tmp_path / "straight", given=given)
    wanted = straight.module.state_dict()
    for stop, lost in ((1, 0), (2, 0), (3, 0), (4, 1), (5, 0)):
        directory = tmp_path / f"{stop}-{lost}"
        with pytest.raises(KeyboardInterrupt):
            run(task, directory, stop, given)
        for path in sorted((directory / "checkpoints").iterdir(), reverse=True)[:lost]:
            path.unlink()
        resumed, models, _ = run(task, directory, given=given)
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in resumed.module.state_dict().items())
        assert all(step >= stop - lost for step in models)  # it went on; it did not begin again
        for step in REFRESHES[given:]:
            assert resumed.groups.path(step).read_bytes() == straight.groups.path(step).read_bytes()


def test_no_batch_is_made_ahead_of_a_refresh(task, tmp_path: Path, monkeypatch) -> None:
    """With the thread that a GPU has (an object of that type is enough to start it): every search is done by the main thread,
    between two steps, and the run ends with the same bits as without a thread."""
    straight, _, _ = run(task, tmp_path / "straight")
    objective, threads = ance(task, tmp_path / "ahead", dropout=0.1), {}
    plain, find = objective.micro_batches, objective.groups.find

    def watched(step: int, parts: int = 1):
        threads[step] = threading.current_thread()
        return plain(step, parts)

    def found(step: int) -> Negatives:
        assert threading.current_thread() is threading.main_thread()
        return find(step)

    monkeypatch.setattr(objective, "micro_batches", watched)
    monkeypatch.setattr(objective.groups, "find", found)
    monkeypatch.setattr(loop, "Prefetch", lambda make, device: Prefetch(make, Device(torch.device("cuda"), False)))
    train(objective, CONFIG, RunSettings(CPU, 3))
    ahead = [step for step, thread in threads.items() if thread is not threading.main_thread()]
    assert ahead == [1, 2, 4, 5]
    wanted = straight.module.state_dict()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in objective.module.state_dict().items())


def test_files_are_kept_and_the_folder_goes(task, tmp_path: Path) -> None:
    objective, _, _ = run(task, tmp_path / "work")
    fresh = objective.groups
    stray = fresh.path(12)  # of a longer run that was in this folder
    shutil.copyfile(fresh.path(6), stray)
    contents = [fresh.path(step).read_bytes() for step in REFRESHES]
    kept = fresh.keep(tmp_path / "out/negatives", CONFIG.steps)
    assert [path.name for path in kept] == [f"step{step}.jsonl.gz" for step in REFRESHES]
    assert [path.read_bytes() for path in kept] == contents
    given, _, _ = run(task, tmp_path / "given", given=True)
    kept = given.groups.keep(tmp_path / "other", CONFIG.steps)
    assert [path.name for path in kept] == ["step3.jsonl.gz", "step6.jsonl.gz"]
    assert gzip.decompress(contents[0]).startswith(b'{"negatives": 1, "depth": 5')
    Checkpoints(tmp_path / "work/checkpoints", "run").clear()
    fresh._present.clear()
    assert not (tmp_path / "work").exists()


def test_refused(task, tmp_path: Path) -> None:
    ance(task, tmp_path).micro_batches(0)
    with pytest.raises(
        DataError, match=r"step0.jsonl.gz: made by run 'run' at step 0, expected 'other' at step 0; delete"
    ):
        ance(task, tmp_path, key="other").micro_batches(1)
    with pytest.raises(DataError, match=r"step3.jsonl.gz: no such file"):
        ance(task, tmp_path).micro_batches(4)
