"""How much of [CLS] is in the decoder's states, position by position (paper ``seed_encoder`` §4.6.1, figure 4).

For each text, h is the encoder's last state of [CLS], and s_0 … s_n are the states of the decoder's last layer, from
which its words are predicted, when it reads ``[CLS] x_1 … x_n`` and h. The figure has the mean over texts of
``cos(s_t, h)`` for each position t, 0 being [CLS]. In the paper it falls along the text with full attention, for the
words before make up for h, and with a span of two it stays.

What the paper leaves open: here encoder and decoder read the text as it is, nothing masked, as in retrieval; the
decoder's states are taken behind its final LayerNorm, which belongs to a pre-LN decoder's last layer; all texts have
the same length, so that every position is a mean over the same texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from pretrieve.analysis.plan import WITH_DECODER
from pretrieve.analysis.shared import Row, batches, draw_pieces, load_body, summary
from pretrieve.base.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.models.decoder import Decoder, next_words
from pretrieve.models.hf_format import load_tensors, read_encoder
from pretrieve.models.transformer import Transformer
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore


def load_decoder(directory: Path, device: torch.device) -> Decoder:
    """The decoder that an encoder was pre-trained with, as deep and with the span that it had then; without dropout.

    Raises DataError when the encoder has none (the message says which have one), or its decoder reads a latent variable, not
    [CLS].
    """
    saved = read_encoder(directory)
    objective, state = saved.about.get("objective", {}), saved.head("decoder")
    if objective.get("name") not in WITH_DECODER or not state:
        raise DataError(
            f"{directory}: has no decoder that reads [CLS]; it was made with {objective.get('name', 'fine-tuning')!r}. "
            f"Encoders with objective {' or '.join(WITH_DECODER)} have one; name these in config.yaml's analyses."
        )
    if saved.head("latent"):
        raise DataError(
            f"{directory}: its decoder reads a latent variable, not [CLS]. Name an encoder without kl_weight in "
            "config.yaml's analyses."
        )
    decoder = Decoder(saved.config, objective["decoder_layers"], objective["span"], seed=0)
    load_tensors(decoder, state, saved.path / "heads.safetensors")
    return decoder.eval().to(device)


def decoder_cosines(body: Transformer, decoder: Decoder, packed: Packed, device: torch.device) -> torch.Tensor:
    """(T − n,) cosine of each decoder state with the [CLS] of its sequence, in packed order; the last token of a
    sequence has no state, since no word follows it."""
    read = Batch.of(next_words(packed, packed.tokens)[0], device)
    vectors = body(Batch.of(packed, device), first_only=True)
    states = decoder(read, vectors, body.words.weight)
    return functional.cosine_similarity(states, vectors[read.sequence], dim=-1)


def measure(directory: Path, store: TokenStore, device: torch.device, texts: int, length: int, seed: int) -> list[Row]:
    """One row for each position (from 0) of the encoder in ``directory``: ``span`` and ``layers`` of its decoder,
    ``position``, ``cosine`` (mean over texts), ``sd`` over texts, ``n`` texts.

    texts: articles to draw a text from, with ``seed``, the same for every encoder; length: tokens of each text, with
    [CLS] and [SEP]; the decoder has one position less.

    Raises DataError when the directory has no decoder, or no Transformer that reads this store's vocabulary and this length, or
    no article of the store is that long.
    """
    decoder = load_decoder(directory, device)
    body = load_body(directory, store, length, device)
    starts = draw_pieces(store, texts, length, seed)
    cosines = np.empty((len(starts), length - 1))
    with torch.inference_mode():
        for rows, packed in batches(store, starts, length, length, device):
            cosines[rows] = decoder_cosines(body, decoder, packed, device).view(len(rows), -1).cpu().numpy()
    about = {"span": decoder.span, "layers": len(decoder.layers)}
    return [{**about, "position": place, **summary("cosine", values)} for place, values in enumerate(cosines.T)]
