"""How broadly [CLS] attends, layer by layer, before and after fine-tuning (paper ``condenser`` §5, figure 2).

A head's attention from [CLS] is a distribution p over the L tokens of the text ([CLS] and [SEP] among them)::

    p = softmax_j(q_CLS · k_j / √d_head)          H(p) = −Σ_j p_j ln p_j     nats, 0 … ln L

The figure has, for each layer, the mean of H over all heads and over 1,000 random Wikipedia sections, as Clark et al.
(2019, §3.3) do it. Broad attention has a high entropy: uniform attention has ln L, whose mean over the texts is the
dashed line of Clark et al. and is written beside every value; the paper normalises nothing else.

Differences: Clark et al.'s notebook mixes each p with 10⁻⁴ of the uniform distribution against ln 0; here 0 · ln 0 is
0. The paper does not say at how many tokens a section is cut (Clark et al.: 128); here it is a number of the
configuration.

Only [CLS] asks, so one row of each attention matrix is computed: (T, heads) numbers of a packed batch, no padding.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from pretrieve.analysis.shared import Row, batches, draw_sections, load_body, summary
from pretrieve.models.batch import Batch
from pretrieve.models.transformer import Attention, Transformer
from pretrieve.text.token_store import TokenStore


def cls_attention(attention: Attention, x: torch.Tensor, batch: Batch) -> torch.Tensor:
    """What the first token of each sequence attends to: (n, heads, longest), each row a distribution over its
    sequence's tokens, 0 beyond the sequence's end. x (T, d) is what the layer reads; sequences are in packed
    order."""
    hidden, heads = x.shape[-1], attention.heads
    weight, bias = attention.qkv.weight, attention.qkv.bias
    query = functional.linear(x[batch.starts], weight[:hidden], bias[:hidden])
    key = functional.linear(x, weight[hidden : 2 * hidden], bias[hidden : 2 * hidden])
    products = (query[batch.sequence] * key).view(-1, heads, hidden // heads).sum(-1) / math.sqrt(hidden // heads)
    scores = x.new_full((len(batch), int(batch.lengths.max()), heads), -math.inf)
    scores[batch.sequence, batch.positions] = products
    return scores.transpose(1, 2).softmax(dim=-1)


def layer_entropies(body: Transformer, batch: Batch) -> torch.Tensor:
    """(n, layers) entropy in nats of the attention from [CLS], mean over heads; packed order."""
    states = body.all_states(batch)
    rows = [cls_attention(layer.attention, x, batch) for layer, x in zip(body.layers, states[:-1], strict=True)]
    return torch.stack([torch.special.entr(row).sum(-1).mean(-1) for row in rows], dim=1)


def measure(directory: Path, store: TokenStore, device: torch.device, texts: int, length: int, seed: int) -> list[Row]:
    """One row a layer (from 1) of the encoder or retriever in ``directory``: ``entropy`` (nats, mean over texts of
    the mean over heads), ``sd`` over texts, ``n`` texts, ``uniform`` (nats; what uniform attention would have).

    texts: sections to draw with ``seed``, the same for every encoder; length: tokens at which one is cut.

    Raises DataError when the directory has no Transformer that reads this store's vocabulary and this length, or the store no
    text.
    """
    body = load_body(directory, store, length, device)
    starts, lengths = draw_sections(store, texts, seed)
    entropies, sizes = np.empty((len(starts), len(body.layers))), np.empty(len(starts))
    with torch.inference_mode():
        for rows, packed in batches(store, starts, lengths, length, device):
            entropies[rows] = layer_entropies(body, Batch.of(packed, device)).cpu().numpy()
            sizes[rows] = packed.lengths
    uniform = float(np.log(sizes).mean())
    return [
        {"layer": layer, **summary("entropy", values), "uniform": uniform}
        for layer, values in enumerate(entropies.T, start=1)
    ]
