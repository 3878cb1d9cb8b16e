"""What the analyses share: texts, drawn from a token store by a seed, the models that read them, means over texts.

Texts are of two kinds. *Sections*, as the corpus has them, for the entropy of attention, of which the paper takes 1,000 at random
(paper ``condenser`` §5). And *pieces of one length*, for what depends on length or position (paper ``seed_encoder``
§3.2, §4.6): a piece begins with a random sentence of a random article and is cut where the length is full, within its
article. Every article that is long enough is as likely as any other. A text's length counts [CLS] and [SEP], as
everywhere in this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from pretrieve.base.errors import DataError
from pretrieve.models.hf_format import load_encoder
from pretrieve.models.transformer import Transformer
from pretrieve.retrieval.embed import CHUNK_ROWS, TOKEN_BUDGET
from pretrieve.text.packing import Packed, pack_spans
from pretrieve.text.token_store import TokenStore

#: Tokens of a text that are no words: [CLS] and [SEP].
SPECIAL_TOKENS = 2

#: One line of a CSV file: column → value.
Row = dict[str, object]


def draw_sections(store: TokenStore, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """``count`` different sections with a word in them (all, if there are fewer), each as likely as any other: first tokens in
    ``store.tokens`` (n,) and numbers of tokens (n,), both int64.

    Raises DataError when no section has a token.
    """
    # From the coarse level to the fine: no array is as long as the corpus has passages.
    bounds = np.asarray(store.sentence_starts[store.passage_starts[store.section_starts]])
    lengths = np.diff(bounds)
    full = np.flatnonzero(lengths > 0)
    if not len(full):
        raise DataError(f"{store.directory}: no section has a token; there is no text to look at.")
    chosen = full[np.random.default_rng([seed, 301]).permutation(len(full))[:count]]
    return bounds[chosen], lengths[chosen]


def _long_articles(store: TokenStore, length: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Articles that a text of ``length`` tokens fits in: their first sentences, and the last sentences that such a
    text can begin with, both (m,) int64, with m ≥ ``least``."""
    first = np.asarray(store.passage_starts[store.section_starts[store.article_starts]])
    bounds = np.asarray(store.sentence_starts[first])
    room, words = np.diff(bounds), length - SPECIAL_TOKENS
    if words < 1:
        raise DataError(f"a text of {length} tokens has no word besides [CLS] and [SEP]; set a length of at least 3.")
    long = np.flatnonzero(room >= words)
    if len(long) < least:
        longest = f"at most {np.sort(room)[-least] + SPECIAL_TOKENS}" if len(room) >= least else "with a larger corpus"
        raise DataError(
            f"{store.directory}: {len(long)} articles have a text of {length} tokens, at least {least} are needed. Set "
            f"shorter lengths in config.yaml's analyses, {longest}."
        )
    last = np.searchsorted(store.sentence_starts, bounds[long + 1] - words, side="right") - 1
    return first[long], last


def _pieces(store: TokenStore, first: np.ndarray, last: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """First tokens of random sentences from ``first`` to ``last``."""
    return np.asarray(store.sentence_starts[rng.integers(first, last + 1)])


def draw_pieces(store: TokenStore, count: int, length: int, seed: int) -> np.ndarray:
    """(n,) first tokens of texts of exactly ``length`` tokens from ``count`` different articles (all, if there are
    fewer).

    Raises DataError when no article is long enough.
    """
    rng = np.random.default_rng([seed, 302])
    first, last = _long_articles(store, length, 1)
    chosen = rng.permutation(len(first))[:count]
    return _pieces(store, first[chosen], last[chosen], rng)


def draw_pairs(store: TokenStore, count: int, length: int, seed: int) -> np.ndarray:
    """(2, count) first tokens of pairs of texts of exactly ``length`` tokens; the two are of different articles, and
    every such pair of articles is as likely as any other.

    Raises DataError when fewer than two articles are long enough.
    """
    rng = np.random.default_rng([seed, 303])
    first, last = _long_articles(store, length, 2)
    one = rng.integers(len(first), size=count)
    other = (one + rng.integers(1, len(first), size=count)) % len(first)
    return np.stack([_pieces(store, first[side], last[side], rng) for side in (one, other)])


def batches(
    store: TokenStore, starts: np.ndarray, lengths: np.ndarray | int, length: int, device: torch.device
) -> Iterator[tuple[np.ndarray, Packed]]:
    """The texts ``[CLS] words [SEP]`` of spans (n,), cut to ``length`` tokens, as many at a time as ``device`` should
    take: ``(rows (b,), packed)`` with sequence i of the packed batch being text ``rows[i]``."""
    lengths = np.broadcast_to(np.asarray(lengths, dtype=np.int64), (len(starts),))
    for begin in range(0, len(starts), CHUNK_ROWS):
        chunk = slice(begin, begin + CHUNK_ROWS)
        packed = pack_spans(store, starts[chunk], lengths[chunk], length)
        for first, last in packed.slices(TOKEN_BUDGET[device.type]):
            yield begin + packed.order[first:last], packed.part(first, last)


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
