"""What the analyses share beside their texts: the models they look at, means over texts, and files of rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_text
from pretrieve.models.hf_format import load_encoder
from pretrieve.models.transformer import Transformer
from pretrieve.text.token_store import TokenStore

#: One line of a CSV file: column → value.
Row = dict[str, object]


def load_body(directory: Path, store: TokenStore, length: int, device: torch.device) -> Transformer:
    """The Transformer of an encoder or retriever directory, without dropout, in float32; it can read texts of
    ``length`` tokens of the store.

    Raises DataError when the directory is damaged, its body is not a Transformer, its vocabulary is not the store's, or it has
    fewer positions.
    """
    encoder, about = load_encoder(directory)
    body, vocabulary = encoder.body, store.meta["vocabulary_sha256"]
    if not isinstance(body, Transformer):
        raise DataError(
            f"{directory}: its body is a {encoder.config.kind}, which has no attention and no [CLS] state. Name encoders "
            "with body: transformer in config.yaml's analyses."
        )
    if about.get("vocabulary_sha256", vocabulary) != vocabulary:
        raise DataError(
            f"{directory}: made with another vocabulary than the token store {store.directory}; its tokens would be "
            "other words. Make both with the same scale."
        )
    if length > encoder.config.max_positions:
        raise DataError(
            f"{directory}: has {encoder.config.max_positions} positions, a text of {length} tokens does not fit. Set "
            "shorter lengths in config.yaml's analyses."
        )
    return body.eval().to(device)


def summary(name: str, values: np.ndarray) -> Row:
    """Mean of values (n,) under ``name``, their standard deviation ``sd`` (n − 1; '' of a single one), and ``n``.

    >>> summary("cosine", np.array([0.25, 0.75]))["cosine"]
    0.5
    """
    values = np.asarray(values, dtype=np.float64)
    return {name: float(values.mean()), "sd": float(values.std(ddof=1)) if len(values) > 1 else "", "n": len(values)}


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows with equal columns as CSV; fractions with six significant digits."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()})
    write_text(path, text.getvalue())
