"""coCondenser: two spans of one document should be nearer to each other than to those of other documents.

Gao & Callan 2022, *Unsupervised Corpus Aware Language Model Pre-training for Dense Passage Retrieval*, §3.2.

Condenser's losses, and a contrast between spans of the corpus. From each of B documents two different spans are drawn
at random. With h_1 … h_2B the late [CLS] states of all of them (last layer, no projection) and s(i) the sibling of
span i::

    L_co = mean_i −log( exp(h_i·h_s(i)) / Σ_{j≠i} exp(h_i·h_j) )        over all 2B spans of the batch
    L    = mlm_weight · (L_head + L_late) + contrastive_weight · L_co

Raw dot products, no temperature; a span is not compared with itself (modeling.py:239-243). The negatives are those of
the *global* batch, which has to be large (the README: about 2048 documents): the gradient cache of
:mod:`pretrieve.training.step` makes it as large as one likes. A document that is drawn twice in a step, where one
epoch ends and the next begins, is not a negative of itself, unless ``false_negatives: kept``, as in the released code.

With gradient caching, the released code weighs the word losses of a micro-batch by its spans over the *documents* of
the step, which adds up to 2 (modeling.py:227); without, by 1. Here the weight is an option, and does not depend on
the cache. It also takes the mean of the chunks' means, a chunk being the spans that are computed at once
(trainer.py:161-184), in place of the mean over all masked words of the step: ``chunk`` spans, or 0 for the step's
mean. The same code keeps the targets in a buffer of the model, of the size of the batch, so that a checkpoint fits no
other batch; here they are not part of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.pretraining.condenser import Condenser
from pretrieve.pretraining.examples import Masked, MaskedExamples, Setting
from pretrieve.pretraining.masking import Masking
from pretrieve.text.blocks import build_blocks
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore
from pretrieve.training.objective import MicroBatch, epoch_order


class MaskedSpans(MaskedExamples):
    """Two different spans of each of ``documents`` articles a step, of at most ``length`` tokens with [CLS] and [SEP].

    Articles come without replacement within an epoch; those with fewer than two spans are omitted. Spans 2i and 2i +
    1 of a step are siblings, in random order. Ids are those of the articles.

    Raises DataError when no article has two spans.
    """

    def __init__(
        self, store: TokenStore, seed: int, documents: int, length: int, masking: Masking, budget: int | None = None
    ) -> None:
        super().__init__(store, seed, 2 * documents, masking, budget)
        self._blocks = build_blocks(store, length - 2)
        articles, first, count = np.unique(self._blocks.article, return_index=True, return_counts=True)
        enough = count >= 2
        if not enough.any():
            raise DataError(
                f"{store.directory}: none of {len(articles):,} articles has two spans of at most {length} tokens, and a "
                "span is contrasted with another one of its article. Set cocondenser's option span_length lower, or use "
                "longer articles."
            )
        self._articles, self._first, self._count = articles[enough], first[enough], count[enough]

    def __len__(self) -> int:
        """Articles of an epoch."""
        return len(self._articles)

    def sequences(self, step: int) -> tuple[Packed, np.ndarray]:
        """A step's spans, and their articles (n,)."""
        documents = self._batch // 2
        chosen = epoch_order(len(self._articles), self._seed, step * documents, documents)
        rng = np.random.default_rng([self._seed, 112, step])
        count = self._count[chosen]
        one = rng.integers(0, count)
        other = rng.integers(0, count - 1)
        pairs = np.stack([one, other + (other >= one)], axis=1)  # all ordered pairs are equally likely
        packed = self._blocks.pack(self.store, (self._first[chosen][:, None] + pairs).reshape(-1))
        return packed, self._articles[chosen][packed.order // 2]


def span_contrast(
    vectors: torch.Tensor, spans: torch.Tensor, articles: torch.Tensor, masked: bool = True
) -> torch.Tensor:
    """Summed loss of finding each span's sibling among all other spans; a scalar in float32.

    vectors (2B, d) in any order; spans (2B,): 2i and 2i + 1 are siblings, counted from any even number; articles
    (2B,): spans of one article that are not siblings are not compared if ``masked``.

    >>> v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])  # spans 0, 2, 1 and 3: siblings are equal
    >>> round(float(span_contrast(v, torch.tensor([0, 2, 1, 3]), torch.tensor([5, 6, 5, 6]))), 4)  # 4·log(1 + 2/e)
    2.2058
    """
    order = spans.argsort()
    vectors, articles = vectors[order].float(), articles[order]
    sibling = torch.arange(len(vectors), device=vectors.device) ^ 1
    excluded = articles[:, None] == articles[None, :] if masked else torch.eye(len(vectors), device=vectors.device) > 0
    excluded.scatter_(1, sibling[:, None], False)
    scores = (vectors @ vectors.T).masked_fill(excluded, -torch.inf)
    return functional.cross_entropy(scores, sibling, reduction="sum")


def chunk_weights(pieces: list[Masked], chunk: int) -> list[np.ndarray]:
    """Weights (n,) of the sequences of a step's pieces that make the step's mean over masked words the mean, over chunks of
    ``chunk`` spans in the order of drawing, of the chunks' own means, each counted by its spans: M · n_c / (N · m_c), for
    chunk c with n_c of N spans and m_c of M masked words."""
    draws, words = (np.concatenate(column) for column in zip(*((p.draws, p.words) for p in pieces), strict=True))
    chunks = (draws - draws.min()) // chunk
    spans, masked = np.bincount(chunks), np.bincount(chunks, weights=words)
    weights = (words.sum() * spans / (len(draws) * np.maximum(masked, 1)))[chunks].astype(np.float32)
    return np.split(weights, np.cumsum([len(piece.draws) for piece in pieces])[:-1])


class CoCondenser(Condenser):
    """Terms ``head`` and, with ``late_mlm``, ``mlm``, of weight ``mlm_weight``; and ``contrastive``.

    Raises ConfigError when a span is longer than the body has positions.
    """

    def __init__(self, setting: Setting) -> None:
        options, longest = setting.options, setting.encoder.config.max_positions
        length, masking = options["span_length"], setting.masking()
        if length > longest:
            raise ConfigError(f"config: cocondenser.span_length: {length} is more than body.max_positions={longest}")
        super().__init__(
            setting, MaskedSpans(setting.store, setting.seed, setting.batch, length, masking, setting.token_budget)
        )
        self.terms = dict.fromkeys(self.word_terms, options["mlm_weight"])
        self.terms["contrastive"] = options["contrastive_weight"]
        self._masked, self._chunk = options["false_negatives"] == "masked", options["chunk"]

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """Spans of a step, siblings together or not; the contrast has one item for each span."""
        batches = super().micro_batches(step, parts)
        if self._chunk:
            weights = chunk_weights([batch.data for batch in batches], self._chunk)
            # A piece without a masked word, as of [UNK] alone, has none to weigh.
            batches = [
                replace(b, data=replace(b.data, weights=w)) if len(b.data.positions) else b
                for b, w in zip(batches, weights, strict=True)
            ]
        return [replace(b, counts=b.counts | {"contrastive": len(b.ids)}, rows=len(b.ids)) for b in batches]

    def vectors(self, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(rows, d) late [CLS] states. Without losses, the head and the word head are not computed."""
        packed = batch.data.batch(self.device)
        if not with_losses:
            # All rows that the second pass reads, though only the first are wanted: both must draw the same dropout.
            return self.body(packed, asking=self.read(packed, batch.data))[packed.starts], {}
        states = self.body.all_states(packed, self.read(packed, batch.data))
        return states[-1][packed.starts], self.word_losses(states, packed, batch.data)

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """Summed contrast of all spans of the batch."""
        joined = torch.cat(vectors)
        spans, articles = (
            torch.from_numpy(np.concatenate(column)).to(joined.device)
            for column in ([batch.data.draws for batch in batches], [batch.ids for batch in batches])
        )
        return {"contrastive": span_contrast(joined, spans, articles, self._masked)}


build = CoCondenser
