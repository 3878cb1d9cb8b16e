"""Contrastive entropy: how well a dense retriever tells a relevant document from sampled others.

At small sizes ``mrr@10`` is a handful of hits, and most queries say nothing. Fang et al. (2024, arXiv 2403.18684, section 3.2)
measure a dense retriever by what it is trained on instead: for query q, relevant document d and 256 others N(q),

    −log( e^{s(q, d)/τ} / (e^{s(q, d)/τ} + Σ_{n ∈ N(q)} e^{s(q, n)/τ}) )

s is the score that the search uses (inner product, joint score, best window) and τ the temperature of the recipe. Lower is
better. A retriever that scores all alike has log 257 = 5.549; one that is surely wrong has more. Of several relevant documents
the mean counts. N(q) depends on the query's id and the corpus alone: all systems and seeds see the same documents.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from pretrieve.files import write_json
from pretrieve.retrieval.rerank import Windows, score_rows
from pretrieve.retrieval.search import Scorer

METRIC = "contrastive_entropy"
#: Of the paper.
OTHERS = 256


def sample_others(query_id: str, relevant: Collection[int], rows: int, count: int = OTHERS) -> np.ndarray:
    """Numbers (at most ``count``,) of documents 0..rows−1 that are not relevant; all of them where there are not more."""
    wanted = min(rows, count + len(relevant))
    seed = int.from_bytes(hashlib.sha256(query_id.encode()).digest()[:8], "little")
    drawn = np.random.default_rng(seed).choice(rows, wanted, replace=False)
    return drawn[~np.isin(drawn, list(relevant))][:count]


def contrastive_entropy(
    scorer: Scorer,
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    qrels: Mapping[str, Mapping[str, int]],
    documents: np.ndarray | None = None,
    temperature: float = 1.0,
) -> dict[str, tuple[float, float]]:
    """Query → (its entropy, that of a retriever that scores all alike); queries without a relevant document are left out.

    Parameters
    ----------
    scorer : made with the vectors of ``query_ids``
    doc_ids : ids of the store's rows, or of the documents where its rows are windows
    documents : (rows,) document of each window (:mod:`pretrieve.retrieval.maxp`)
    """
    number = {doc_id: i for i, doc_id in enumerate(doc_ids)}
    windows = None if documents is None else Windows(documents)
    found = {}
    for query, query_id in enumerate(query_ids):
        relevant = [number[name] for name, grade in qrels.get(query_id, {}).items() if grade > 0 and name in number]
        if not relevant:
            continue
        others = sample_others(query_id, relevant, len(doc_ids))
        rows, scores = score_rows(scorer, query, np.concatenate([np.array(relevant), others]), doc_ids, windows)
        logits, right = scores.astype(np.float64) / temperature, np.isin(rows, relevant)
        rest = np.logaddexp.reduce(logits[~right], initial=-np.inf)
        found[query_id] = (float((np.logaddexp(logits[right], rest) - logits[right]).mean()), math.log(1 + len(others)))
    return found


def entropy_file(run: Path) -> Path:
    """Where the entropies of a run's system lie: beside the run, for a run alone does not have the scores."""
    return run.with_name(run.name.replace(".trec.gz", ".entropy.json"))


def write_entropy(run: Path, found: Mapping[str, tuple[float, float]]) -> None:
    """Write what :func:`contrastive_entropy` gives, rounded to 10 decimals."""
    levels = {query_id: [round(value, 10) for value in pair] for query_id, pair in found.items()}
    write_json(entropy_file(run), {"entropy_and_chance": levels})


def add_entropy(record: dict, run: Path) -> None:
    """Add the metric to the record of a dense run: mean, chance and the value of each of its queries that have one."""
    if not entropy_file(run).is_file():
        return
    found = json.loads(entropy_file(run).read_text(encoding="utf-8"))["entropy_and_chance"]
    if found:
        values = {query_id: value for query_id, (value, _) in found.items()}
        record["metrics"][METRIC] = round(float(np.mean(list(values.values()))), 10)
        record["chance"][METRIC] = round(float(np.mean([level for _, level in found.values()])), 10)
        record["per_query"][METRIC] = values
