"""Both sides of a task, its queries and its candidates, embedded by one retriever.

=====================  ============================  =================================================================
store                  retriever                     content
=====================  ============================  =================================================================
``queries``            all                           (Q, dim): vectors of the query tower, of the queries that are searched
                                                     with; ``mining`` of those that negatives are mined for
``corpus``             all                           (N, dim): of the document tower; of a joint representation ĥ, which has
                                                     no columns if ``parts`` is ``ot``
``queries-lexical``    joint, unless ``parts: cls``  (Q, V): μ (:mod:`pretrieve.models.joint`)
``corpus-lexical``     joint, unless ``parts: cls``  the ``top`` words of each candidate (:mod:`pretrieve.retrieval.embeddings`)
=====================  ============================  =================================================================

With ``windows`` above 1 (MaxP, :mod:`pretrieve.text.windows`) a row of the corpus is a window, and
``corpus-documents.npy`` (rows,) int64 has the candidate's row of each; ascending.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pretrieve.base.files import sha256_of, whole_file
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.joint import JointTower
from pretrieve.models.retriever_files import load_retriever
from pretrieve.retrieval.embed import Compute, Job, Pack, run_jobs, shard_rows
from pretrieve.retrieval.embeddings import DOCUMENTS, EmbeddingWriter, LexicalWriter
from pretrieve.retrieval.shards import Shards, ShardWriter, remove_store
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.loop import content_key
from pretrieve.training.processes import Processes


@dataclass(frozen=True)
class TaskTexts:
    """What a retriever reads of a task: ``query_length`` tokens of a query; of a candidate's passage ``passage_length`` tokens
    (FirstP), or up to ``windows`` windows of as many."""

    data: Dataset
    query_length: int
    passage_length: int
    windows: int = 1


def embed_task(
    texts: TaskTexts,
    retriever: Path,
    out: Path,
    device: Device,
    processes: Processes | None = None,
    code: str = "",
    queries: Mapping[str, np.ndarray] | None = None,
) -> int:
    """Write the stores of the module's table into ``out``, rows as in the task's Parquet files; returns the number of tokens
    encoded. Shards that an earlier run has finished are kept if retriever, texts and ``code`` are the same.

    queries: name of a store → rows of the task's queries that it has, in this order; by default ``queries`` has all.
    processes: all of them call this with the same arguments. code: what stands for the source files that vectors are made by.

    Raises DataError when the retriever is damaged, or was made with another vocabulary than the task.
    """
    dual, about = _load(texts.data, retriever, device)
    data, passage_length = texts.data.read_by(dual.config.kind), texts.passage_length
    corpus_rows, pack_corpus, documents = len(data.candidate_passage), None, None
    if texts.windows > 1:
        cut = data.windows(passage_length, texts.windows)
        corpus_rows, pack_corpus, documents = len(cut), cut.pack, cut.windows.documents
    key = _key(replace(texts, data=data), retriever, about, code)
    queries = {"queries": np.arange(len(data.query_ids))} if queries is None else queries
    sides = _query_sides(data, queries, texts.query_length, key)
    pack_corpus = pack_corpus or (lambda rows: data.pack_candidates(rows, passage_length))
    sides.append(("corpus", pack_corpus, corpus_rows, key))

    def jobs(owner: bool) -> list[Job]:
        return [_job(dual, out, *side, owner) for side in sides]

    def prepare() -> None:
        # What an earlier retriever or other windows left would be taken for a part of these stores.
        if not (isinstance(dual.document, JointTower) and dual.document.core.lexical_width):
            for name, *_ in sides:
                remove_store(Path(out), f"{name}-lexical")
        # The meta file of other windows is removed by now, and that of these is not written yet.
        if documents is None:
            (Path(out) / DOCUMENTS).unlink(missing_ok=True)
            return
        with whole_file(Path(out) / DOCUMENTS) as stream:
            np.save(stream, documents.astype("<i8"), allow_pickle=False)

    return run_jobs(jobs, device, processes, prepare)


def embed_queries(
    data: Dataset,
    retriever: Path,
    out: Path,
    query_length: int,
    device: Device,
    queries: Mapping[str, np.ndarray],
    code: str = "",
) -> int:
    """Write stores of queries alone, as :func:`embed_task` does; returns the tokens encoded."""
    dual, about = _load(data, retriever, device)
    data = data.read_by(dual.config.kind)
    sides = _query_sides(data, queries, query_length, _key(TaskTexts(data, query_length, 0), retriever, about, code))
    return run_jobs(lambda owner: [_job(dual, out, *side, owner) for side in sides], device)


def _load(data: Dataset, retriever: Path, device: Device) -> tuple[DualEncoder, dict]:
    dual, about = load_retriever(retriever)
    data.check_vocabulary(about, retriever)
    dual.to(device.device)
    return dual, about


#: Name of a store, what lays out its rows, their number, and its key.
Side = tuple[str, Pack, int, str]


def _query_sides(data: Dataset, queries: Mapping[str, np.ndarray], length: int, key: str) -> list[Side]:
    def pack_rows(rows: np.ndarray) -> Pack:
        return lambda chosen: data.pack_queries(rows[chosen], length)

    return [(name, pack_rows(rows), len(rows), content_key(key, rows.tolist())) for name, rows in queries.items()]


def _key(texts: TaskTexts, retriever: Path, about: dict, code: str) -> str:
    """What the vectors depend on. With one tower and one window it is what it was before there were others; a query
    tower's files are among those that ``about`` lists."""
    data, lengths = texts.data, (texts.query_length, texts.passage_length)
    digests = [sha256_of(Path(retriever) / name) for name in ("model.safetensors", "heads.safetensors")]
    rows = hashlib.sha256(data.candidate_sentence.tobytes() + data.candidate_passage.tobytes()).hexdigest()
    more = [*([texts.windows] if texts.windows > 1 else []), *data.form, *([code] if code else [])]
    return content_key(about, digests, data.passages.key, data.queries.key, rows, *lengths, *more)


def _job(dual: DualEncoder, out: Path, name: str, pack: Pack, rows: int, key: str, owner: bool) -> Job:
    """One side's texts and stores; what is computed of them follows from the kind of tower."""
    tower = dual.document if name == "corpus" else dual.query
    if not (isinstance(tower, JointTower) and tower.core.lexical_width):
        store = EmbeddingWriter(out, name, rows, tower.width, key, Shards(shard_rows(rows, 4 * tower.width), owner))
        return Job(name, tower, lambda batch: [tower(batch)], pack, rows, [store])
    core = tower.core
    dense, words = core.cls_width, core.lexical_width
    lexical: ShardWriter
    compute: Compute
    if name != "corpus":
        shards, compute = Shards(shard_rows(rows, 4 * (dense + words)), owner), core.represent
        lexical = EmbeddingWriter(out, f"{name}-lexical", rows, words, key, shards)
    else:
        shards, compute = Shards(shard_rows(rows, 4 * dense + 8 * core.top), owner), core.sparse
        lexical = LexicalWriter(out, f"{name}-lexical", rows, core.top, words, key, shards)
    store = EmbeddingWriter(out, name, rows, dense, key, shards)
    return Job(name, core, compute, pack, rows, [store, lexical])
