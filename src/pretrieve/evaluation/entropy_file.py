"""The contrastive entropies of a dense run, in a file next to it: ``seed1.entropy.json`` for ``seed1.trec.gz``.

A run has the ranks of a query's best documents; :mod:`pretrieve.retrieval.contrastive_entropy` needs the scores of others,
too. So the search writes them, and the evaluation adds them to the run's record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pretrieve.base.files import write_json

METRIC = "contrastive_entropy"


def entropy_file(run: Path) -> Path:
    """The file of the entropies of a run's system, next to the run: a run alone does not have the scores."""
    # Of any name: never the run itself, which would be overwritten.
    return run.with_name(re.sub(r"(\.trec)?(\.gz)?$", ".entropy.json", run.name, count=1))


def write_entropy(run: Path, found: Mapping[str, tuple[float, float]]) -> None:
    """Write what :func:`~pretrieve.retrieval.contrastive_entropy.contrastive_entropy` gives, rounded to 10 decimals."""
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
