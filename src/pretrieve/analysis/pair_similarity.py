"""How alike the vectors of unrelated texts are, by the texts' length (paper ``seed_encoder`` §3.2 and §4.6.2,
figures 1b and 5).

For random pairs of texts (x, y) of L tokens each, the mean of ``cos(h(x), h(y))``, with h the last state of [CLS] as
the encoder gives it: no projection, no fine-tuning. An autoencoder with a strong decoder (Optimus) has cosines near
0.8 at 256 and 512 tokens: it hardly tells long texts apart; a weak decoder brings 512 tokens down to 0.48.

The paper's texts seem to be MS MARCO's, and it does not say how one gets its length. Here texts are the corpus's: a
pair's two texts begin at the same sentences for every length and are cut where the length is full, so that from one
length to the next nothing changes but the length; the two are of different articles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from pretrieve.analysis.shared import Row, batches, draw_pairs, load_body, summary
from pretrieve.models.batch import Batch
from pretrieve.models.transformer import Transformer
from pretrieve.text.token_store import TokenStore


def cls_states(
    body: Transformer, store: TokenStore, starts: np.ndarray, length: int, device: torch.device
) -> torch.Tensor:
    """(n, d) float32 last states of [CLS], of the texts of exactly ``length`` tokens whose first words are ``starts``
    (n,)."""
    result = torch.empty(len(starts), body.config.hidden)
    with torch.inference_mode():
        for rows, packed in batches(store, starts, length, length, device):
            result[torch.from_numpy(rows)] = body(Batch.of(packed, device), first_only=True).cpu()
    return result


def measure(
    directory: Path, store: TokenStore, device: torch.device, pairs: int, lengths: Sequence[int], seed: int
) -> list[Row]:
    """One row for each length of the encoder in ``directory``: ``length`` (tokens, [CLS] and [SEP] counted),
    ``cosine`` (mean over pairs), ``sd`` over pairs, ``n`` pairs.

    pairs: to draw with ``seed``, the same for every encoder and length.

    Raises DataError when the directory has no Transformer that reads this store's vocabulary and the longest length, or fewer
    than two articles of the store are that long.
    """
    longest = max(lengths)
    body = load_body(directory, store, longest, device)
    starts = draw_pairs(store, pairs, longest, seed)
    result = []
    for length in lengths:
        states = cls_states(body, store, starts.reshape(-1), length, device).view(2, pairs, -1)
        cosines = functional.cosine_similarity(states[0], states[1], dim=-1)
        result.append({"length": length, **summary("cosine", cosines.numpy())})
    return result
