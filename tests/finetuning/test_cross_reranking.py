"""A cross-encoder behind a first ranking.

Seen to fail when: hits below the cut move above those that were scored; all hits are scored.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pretrieve.commands import my_corpus_rerank
from pretrieve.finetuning import cross_encoding
from pretrieve.retrieval.trec_run import Run
from pretrieve.training.device import Device


class Task:
    """Rows of ids: document dN is row N."""

    document_row = {f"d{number}": number for number in range(9)}

    def query_row(self, query: str) -> int:
        return int(query[1:])


def test_the_best_hits_are_ordered_again_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def scores(model, data, queries, documents, lengths, device, progress):
        asked.extend(zip(queries.tolist(), documents.tolist(), strict=True))
        return np.where(documents % 2, 5.0, -5.0).astype(np.float32) + documents / 10  # odd ones first

    monkeypatch.setattr(cross_encoding, "score_pairs", scores)
    first = Run(
        ["q0", "q1", "q2"],
        [["d2", "d3", "d1", "d7", "d5"], ["d4"], []],
        [np.arange(5, 0, -1), np.ones(1), np.ones(0)],
    )
    device = Device(torch.device("cpu"), bf16=False)
    found = cross_encoding.rerank_hits(torch.nn.Identity(), Task(), first, 3, (8, 8), device)
    assert found.doc_ids == [["d3", "d1", "d2", "d7", "d5"], ["d4"], []]
    assert asked == [(0, 2), (0, 3), (0, 1), (1, 4)]
    assert first.doc_ids[0][0] == "d2", "the first run is left as it was"


def test_it_reads_what_it_was_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read as much as the dense retriever, whatever ``my_corpus_options.reranker`` said."""
    read = []
    own = {"finetuning": {"query_length": 8, "passage_length": 16}}
    for name, function in {
        "read_trec": lambda path: Run([], [], []),
        "Dataset": lambda task: SimpleNamespace(check_vocabulary=lambda *_: None),
        "load_cross_encoder": lambda directory: (None, own),
        "rerank_hits": lambda *given: read.append(given[4]),
        "write_trec": lambda *_: None,
        "score_runs": lambda *_: None,
    }.items():
        monkeypatch.setattr(my_corpus_rerank, name, function)
    systems = {"bm25": "b", "cross": "c", "reranked": "r"}
    request = {
        "root": str(tmp_path),
        "dataset": "d",
        "trained_on": "d",
        "systems": systems,
        "size": "full",
        "metrics": [],
    }
    request |= {"rerank": 2, "lengths": {"query_length": 64, "passage_length": 256}}
    my_corpus_rerank.main(Namespace(request=request, seed=1, precision="fp32", threads=1))
    assert read == [(8, 16)]
