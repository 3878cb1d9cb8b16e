"""A model measured by ``mteb`` as is usual in the field: NanoBEIR and other tasks by name, and folders in BEIR's layout.

The model is a directory of sentence-transformers, which mteb loads and runs in its own way. A folder becomes a retrieval task of
mteb without the hub. In one that is called as a BEIR set whose queries have ids of documents, a hit with the id of its query is
dropped, as in mteb's own task of that set. :func:`own_scores` computes the same numbers with this project's encoder, search and
metrics; the two agree, up to how documents with equal scores are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.benchmarks.official.beir import BeirTest, read_beir_test
from pretrieve.benchmarks.official.beir_sets import set_called
from pretrieve.evaluation.conventions import drop_identical_ids
from pretrieve.evaluation.metrics import evaluate
from pretrieve.models.sentence_files import check_directory
from pretrieve.retrieval.in_memory import search
from pretrieve.retrieval.retriever import load
from pretrieve.tasks.collection_tables import with_title

#: Our names of metrics → mteb's.
METRICS = {"ndcg@10": "ndcg_at_10", "mrr@10": "mrr_at_10", "recall@100": "recall_at_100"}
#: Of a data set's folder; mteb requires one and does not use it here.
_LANGUAGE = "eng-Latn"


@dataclass(frozen=True)
class Evaluated:
    """A task's name and split, its scores by mteb, and by this project, where requested."""

    task: str
    split: str
    scores: dict[str, float]
    own: dict[str, float] = field(default_factory=dict)


def evaluate_by_mteb(model: Path, tasks: Sequence[str], check: bool = False, device: str = "cpu") -> list[Evaluated]:
    """Measure a sentence-transformers directory.

    tasks: folders, names of mteb's tasks, or of one of its benchmarks (``NanoBEIR``); check: compute the scores of folders
    here too.

    Raises ConfigError when mteb is not installed, or has no such task, and DataError when the model or a folder is damaged, or
    the data of a task is not on this machine and cannot be fetched.
    """
    try:
        import mteb
        from sentence_transformers import SentenceTransformer
        from transformers import CONFIG_MAPPING
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install mteb sentence-transformers.") from None
    check_directory(Path(model), CONFIG_MAPPING)
    chosen = _tasks(mteb, tasks)  # all of them: a name that is wrong is found before hours of work
    try:
        loaded = SentenceTransformer(str(model), device=device, local_files_only=True)
    except (
        Exception
    ) as error:  # sentence-transformers, transformers, tokenizers and safetensors have types of their own
        said = next(iter(str(error).splitlines()), "")
        raise DataError(
            f"{model}: sentence-transformers cannot load it ({type(error).__name__}: {said[:300]}); expected a whole model: "
            "take it anew."
        ) from error
    found = []
    for data, task in chosen:
        options: Any = {"batch_size": 32, "show_progress_bar": False}
        _load_data(task)
        results = mteb.evaluate(
            loaded, task, cache=None, co2_tracker=False, encode_kwargs=options, show_progress_bar=False
        )
        for result in results.task_results:
            own = own_scores(model, data, device) if check and data else {}
            name = data.name if data else result.task_name
            found += [replace(one, own=own) for one in _evaluated(name, result.scores)]
    return found


def _evaluated(task: str, scores: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Evaluated]:
    """A row for each split, and for each subset (a language) of a task that has several, which its name says then."""
    for split, subsets in scores.items():
        for one in subsets:
            name = f"{task} ({one['hf_subset']})" if len(subsets) > 1 else task
            yield Evaluated(name, split, {ours: float(one[theirs]) for ours, theirs in METRICS.items()})


def _tasks(mteb: Any, names: Sequence[str]) -> list[tuple[BeirTest | None, Any]]:
    """The tasks of mteb, and the data of those that are folders."""
    chosen: list[tuple[BeirTest | None, Any]] = []
    known: dict[str, Sequence[Any]] = {}
    if not all(Path(name).is_dir() for name in names):  # mteb takes seconds to list what it has
        known = {task.metadata.name: [task] for task in mteb.get_tasks(task_types=["Retrieval"])}
        known |= {benchmark.name: benchmark.tasks for benchmark in mteb.get_benchmarks()}
    for name in names:
        if Path(name).is_dir():
            data = read_beir_test(Path(name))
            chosen.append((data, folder_task(data)))
            continue
        if name not in known:
            raise ConfigError(
                f"task {name!r} is not a folder, and mteb has no retrieval task or benchmark of this name"
                f"{nearest(name, known) or '.'}"
            )
        chosen += [(None, task) for task in known[name]]
    return chosen


def _load_data(task: Any) -> None:
    """A task's data: from the hub, or from the cache of ``datasets`` where the hub is out of reach.

    mteb first asks which configurations a data set has. Without the hub ``datasets`` answers "default" whatever its cache holds,
    so mteb looks for the judgements there, and NanoBEIR's are in "qrels": then the three parts are read by their names.
    """
    from datasets import load_dataset

    try:
        task.load_data()
    except (OSError, ValueError) as error:
        place, found = task.metadata.dataset, {}
        try:
            for split in task.metadata.eval_splits:
                corpus, queries, qrels = (
                    load_dataset(place["path"], name, split=split, revision=place["revision"])
                    for name in ("corpus", "queries", "qrels")
                )
                grades: dict[str, dict[str, int]] = {}
                for row in qrels:
                    grades.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row.get("score", 1))
                documents = {row["_id"]: (row.get("title") or "", row["text"]) for row in corpus}
                judged = {row["_id"]: row["text"] for row in queries if row["_id"] in grades}
                found[split] = _split(documents, judged, grades)
        except (OSError, ValueError):
            raise DataError(f"{task.metadata.name}: its data is not here and cannot be fetched: {error}") from error
        task.dataset, task.data_loaded = {"default": found}, True


def _split(
    documents: Mapping[str, tuple[str, str]], queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """A split in mteb's form. documents: id → (title, text); queries: id → text; qrels: query → document → grade."""
    from datasets import Dataset

    return {
        "corpus": Dataset.from_list(
            [{"id": i, "title": title, "text": text} for i, (title, text) in documents.items()]
        ),
        "queries": Dataset.from_list([{"id": i, "text": text} for i, text in queries.items()]),
        "relevant_docs": {query: dict(grades) for query, grades in qrels.items()},
        "top_ranked": None,
    }


def folder_task(data: BeirTest) -> Any:
    """A folder's questions as a retrieval task of mteb."""
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class FolderTask(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=data.name,
            description="A folder in BEIR's layout.",
            dataset={"path": data.name, "revision": "local"},
            type="Retrieval",
            category="t2t",
            eval_splits=[data.split],
            eval_langs=[_LANGUAGE],
            main_score="ndcg_at_10",
        )
        ignore_identical_ids = set_called(data.name).own_ids

        def load_data(self, *args: Any, **options: Any) -> None:
            split = _split(data.documents, data.queries, data.qrels)
            self.dataset, self.data_loaded = {"default": {data.split: split}}, True

    return FolderTask()


def own_scores(model: Path, data: BeirTest, device: str = "cpu") -> dict[str, float]:
    """The same metrics by this project's encoder, search and metrics."""
    retriever = load(model, device=device)
    vectors = retriever.encode_passages([with_title(title, text) for title, text in data.documents.values()])
    queries = retriever.encode_queries(list(data.queries.values()))
    dropped = set_called(data.name).own_ids
    run = search(queries, vectors, list(data.documents), depth=100 + dropped, query_ids=list(data.queries))
    run = drop_identical_ids(run) if dropped else run
    return evaluate(run, data.qrels, list(METRICS)).mean
