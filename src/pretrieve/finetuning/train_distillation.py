"""Distillation: a retriever learns the scores that a cross-encoder gives each query's group.

``dupmae`` §3.2, third stage: with t_ig the teacher's score of query i's document g, and s_ig = q_i·d_ig / τ the student's::

    p_i = softmax(t_i),   L = mean_i −Σ_g p_ig log softmax(s_i)_g                       (1), form 'soft-labels'

Its minimum is the entropy of p, reached when the student's scores are the teacher's but for a constant. What RetroMAE
released (bi_encoder/modeling.py) is the same gradient in other units, plus a little of the usual loss::

    L = mean_ig p_ig (log p_ig − log softmax(s_i)_g) + λ · mean_i (in-batch softmax)    (2), form 'kl', λ = 1e-4

Its first mean is over all B·G entries (``KLDivLoss(reduction="mean")``), so the gradient is that of (1) divided by G.

The teacher is slow, and the groups are a function of the step, so it scores every pair that training will need once, before it
begins. The scores are a file next to the retriever (``teacher.jsonl.gz``), gzip'd text, one JSON object a line:

1. the header ``{"teacher_scores": 1, "directory": …, "sha256": {file: …}, "query_length": …, "passage_length": …}``;
2. ``{"query": id, "documents": [ids], "scores": [as long]}`` for each query, in the order of the task's rows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of
from pretrieve.base.progress import Progress
from pretrieve.finetuning.cross_encoding import score_pairs
from pretrieve.finetuning.fine_tuning import Beside, FineTuning, Trainable
from pretrieve.finetuning.groups import Group, Groups
from pretrieve.finetuning.losses import distillation_loss, kl_mean
from pretrieve.finetuning.ranking import RankingObjective, own_scores, split_groups, whole_group
from pretrieve.finetuning.train_ranking import ranking_parts
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.retriever_files import load_cross_encoder
from pretrieve.retrieval.negatives import FORMAT, read_lists, write_lists
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.objective import MicroBatch
from pretrieve.training.processes import ALONE, Processes


def describe_teacher(directory: Path) -> dict[str, Any]:
    """Header entries that say which teacher it was: its directory, and the sha256 of its weight files by name.

    Raises DataError when there are no weights.
    """
    files = sorted(Path(directory).glob("*.safetensors"))
    if not files:
        raise DataError(f"{directory}: no *.safetensors, expected a trained cross-encoder; train the teacher first.")
    return {"directory": str(directory), "sha256": {file.name: sha256_of(file) for file in files}}


class TeacherScores:
    """Scores of pairs: queries, documents (n,) rows of the task, sorted by both, each pair once; scores (n,) float32."""

    def __init__(self, data: Dataset, queries: np.ndarray, documents: np.ndarray, scores: np.ndarray) -> None:
        self._data, self.scores = data, np.asarray(scores, dtype=np.float32)
        self.queries, self.documents = np.asarray(queries), np.asarray(documents)
        self._keys = self._key(self.queries, self.documents)

    def _key(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        return queries.astype(np.int64) * len(self._data.document_ids) + documents

    def places(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """The places of pairs (...,) among ours; -1 for those that are missing."""
        keys = self._key(queries, documents)
        places = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        return np.where(self._keys[places] == keys, places, -1) if len(self._keys) else np.full(keys.shape, -1)

    def of(self, group: Group) -> np.ndarray:
        """(B, G) scores of the groups of a step.

        Raises DataError when a pair has no score; the ids are named.
        """
        places = self.places(group.queries[:, None], group.documents)
        if (places < 0).any():
            row, column = (int(numbers[0]) for numbers in np.nonzero(places < 0))
            query, document = group.queries[row], group.documents[row, column]
            raise DataError(
                f"teacher scores: query {self._data.query_ids[query]!r} with document {self._data.document_ids[document]!r} "
                "has none; delete teacher.jsonl.gz, so that the teacher scores the groups of this run."
            )
        return self.scores[places]


def pairs_of(groups: Groups, steps: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """(queries, documents), each (n,): the different pairs in the groups of all steps of a run, sorted."""
    seen = []
    for step in range(steps):
        group = groups.at(step, batch)
        seen.append(np.stack([np.repeat(group.queries, group.documents.shape[1]), group.documents.reshape(-1)], axis=1))
    pairs = np.unique(np.concatenate([np.empty((0, 2), np.int64), *seen]), axis=0)
    return pairs[:, 0], pairs[:, 1]


class Teacher(NamedTuple):
    """A trained cross-encoder, and what :func:`describe_teacher` says of it."""

    model: CrossEncoder
    about: Mapping[str, Any]


def score_groups(
    teacher: Teacher,
    data: Dataset,
    pairs: tuple[np.ndarray, np.ndarray],
    options: Mapping[str, Any],
    path: Path,
    device: Device,
    processes: Processes = ALONE,
) -> TeacherScores:
    """The teacher's scores for the ``pairs`` of a run (:func:`pairs_of`): from ``path`` when that file was made by this teacher
    and has all of them, else computed, every process its share, and written there by the first.

    options: query_length and passage_length of the recipe. All processes end with the same scores.
    """
    lengths = (options["query_length"], options["passage_length"])
    header = {**teacher.about, "query_length": lengths[0], "passage_length": lengths[1]}
    queries, documents = pairs
    stored, about = read_teacher_scores(path, data) if path.is_file() else (None, None)
    usable = about == json.loads(json.dumps(header)) and not (stored.places(queries, documents) < 0).any()
    if min(processes.every(float(usable))):
        return stored
    own = slice(processes.rank, None, processes.world)
    scores = torch.zeros(len(queries), dtype=torch.float32, device=device.device)
    teacher.model.to(device.device)
    with Progress("teacher scores", len(queries[own]), "pairs") as progress:
        found = score_pairs(teacher.model, data, queries[own], documents[own], lengths, device, progress)
    scores[own] = torch.from_numpy(found).to(device.device)
    result = TeacherScores(data, queries, documents, processes.add(scores).cpu().numpy())
    if processes.first:
        write_teacher_scores(path, result, data, header)
    processes.wait()
    return result


def write_teacher_scores(path: Path, scores: TeacherScores, data: Dataset, about: Mapping[str, Any]) -> None:
    """Write the file whole or not at all; equal scores and headers give equal bytes. Scores keep every bit of float32."""
    rows, starts = np.unique(scores.queries, return_index=True)
    documents, values = (np.split(array, starts)[1:] for array in (scores.documents, scores.scores))
    ids = ([data.document_ids[document] for document in own] for own in documents)
    write_lists(path, {"teacher_scores": FORMAT, **about}, (data.query_ids[row] for row in rows), ids, values)


def read_teacher_scores(path: Path, data: Dataset) -> tuple[TeacherScores, dict[str, Any]]:
    """What :func:`write_teacher_scores` wrote: the scores, and the header but for the format.

    Raises DataError when the file is damaged or of another format, or names a query or a document that the task does not have.
    """
    again = "delete the file, and the teacher scores the groups again"
    about, query_ids, doc_ids, scores = read_lists(path, "teacher_scores", again)
    queries = [data.query_row(query_id) for query_id, own in zip(query_ids, doc_ids, strict=True) for _ in own]
    documents = [data.document_row.get(doc_id, -1) for own in doc_ids for doc_id in own]
    together = np.concatenate([np.empty(0, np.float32), *scores])
    if len(together) != len(documents) or -1 in queries or -1 in documents:
        raise DataError(
            f"{path}: names a query or a document that the task {data.directory} does not have, or has not one score for each "
            f"document; {again}."
        )
    pairs = np.array([queries, documents], dtype=np.int64)
    order = np.lexsort(pairs[::-1])
    return TeacherScores(data, *pairs[:, order], together[order]), about


class DistillationObjective(RankingObjective):
    """Loss (1) or (2) over the groups of each step.

    teacher: scores of all groups; the other arguments are those of :class:`~pretrieve.finetuning.ranking.RankingObjective`. Of
    the options, ``distillation`` is the form, and ``contrastive_weight`` the λ of form 'kl', whose softmax follows ``in_batch``
    and ``direction``.
    """

    def __init__(
        self,
        model: DualEncoder,
        data: Dataset,
        groups: Groups,
        options: Mapping[str, Any],
        device: torch.device | str = "cpu",
        budget: int | None = None,
        *,
        teacher: TeacherScores,
    ) -> None:
        super().__init__(model, data, groups, {**options, "loss": "softmax"}, device, budget)
        self.teacher, self.form = teacher, self.options["distillation"]
        self.terms = {"distillation": 1.0}
        if self.form == "kl":
            self.terms["contrastive"] = self.options["contrastive_weight"]

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """The terms summed over the B queries of the step."""
        queries, documents = split_groups(vectors, batches)
        group = whole_group(batches)
        student = own_scores(queries, documents)
        teacher = torch.from_numpy(self.teacher.of(group)).to(student.device)
        loss = kl_mean if self.form == "kl" else distillation_loss
        terms = {"distillation": loss(student, teacher, self.options["temperature"])}
        if "contrastive" in self.terms:
            terms["contrastive"] = self.ranking_loss(queries, documents, group)
        return terms


def prepare(run: FineTuning) -> Trainable:
    """The teacher scores every pair that training will see, before it begins; its scores are kept next to the retriever.

    Raises ConfigError when there is no teacher.
    """
    if run.teacher is None:
        raise ConfigError("loss 'distillation' needs a teacher: set teacher to a recipe that trains a cross-encoder.")
    parts, options = ranking_parts(run), run.options
    task = parts.data.task
    model, about = load_cross_encoder(run.teacher)
    task.check_vocabulary(about, run.teacher)
    file = run.work / "teacher.jsonl.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    teacher = Teacher(model, describe_teacher(run.teacher))
    pairs = pairs_of(parts.data.groups, parts.steps, options["batch"])
    scores = score_groups(teacher, task, pairs, options, file, run.device, run.processes)

    def keep(out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out / file.name)

    trained = parts.trainable(partial(DistillationObjective, teacher=scores), parts.data.groups)
    return trained.leaving(Beside(keep, lambda: file.unlink(missing_ok=True)))
