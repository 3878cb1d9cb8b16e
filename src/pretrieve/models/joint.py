"""DupMAE's joint representation: one part from [CLS], one from the other tokens, in the space of words (paper ``dupmae``
§3.2, "Representation").

For the last states h_0 ([CLS]), h_1, …, h_n of a text::

    ĥ    = W_c·h_0 + b_c                    (cls_dim,)       [CLS] in a lower dimension                (equation 10)
    μ_i  = word head of h_i                 (V,)             as in pre-training                        (equation 6)
    μ    = max over i ≥ 1 of μ_i            (V,)                                                       (equation 7)
    I_d  = the ``top`` words with the largest μ of document d                                          (equation 11)
    s(q, d) = ĥ_q·ĥ_d + Σ_{v in I_d} μ_q[v]·μ_d[v]                                                     (equation 12)

Only documents are made sparse; a query keeps its whole μ and is looked up at the document's words. So with
``z_d = (ĥ_d, μ_d where v in I_d, else 0)`` and ``z_q = (ĥ_q, μ_q)`` the score is the inner product z_q·z_d, and every
ranking loss works on these vectors as it is (:class:`JointTower`). An index stores the ``top`` pairs (word, value) instead
(:meth:`JointEncoder.sparse`): with 384 + 384 numbers a document costs as many multiplications as a dense one of 768;
384 + 260 costs as much memory too, indices included (§4.4).

Parts: ``both``; ``cls`` ("CLS:768": with head ``none`` it is the state itself); ``ot`` ("OT:768").

**Not stated in the paper**, and no code for it was ever released. What is done, and the option where there is one:

=================  ================  ==================================================================================
option             default           reason
=================  ================  ==================================================================================
``lexical_head``   as pre-trained    μ is what pre-training made: of a word head (``mlm``: released code) or of a matrix
                                     of its own (``bow``: the paper)
``activation``     ``none``          equation 7 has none; ``relu`` and ``log1p`` (= ln(1 + relu), SPLADE's) are there
``sep``            True              [SEP] takes part in the maximum: it did in pre-training (modeling_duplex.py:53)
``zeroed``         ()                ids of words whose entry is 0 and never chosen, e.g. special tokens; equation 11
                                     has no exception
``head``           ``linear``        of ĥ; with a bias, N(0, 1/hidden). ``linear-no-bias`` and the other heads work
=================  ================  ==================================================================================

Query and document share W_c, b_c and the word head unless the sharing of the dual encoder says otherwise. Documents are
made sparse in training too, with the gradient through the chosen entries: what is trained is what is searched with. No mask
is applied to the texts, so no position is omitted for being masked.

Ties: of equal entries the word with the lower id is chosen, so a document's words do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import ConfigError, check_choice
from pretrieve.models.bag_of_words import BagOfWordsProjection, pooled_words
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import make_body
from pretrieve.models.projection import make_projection
from pretrieve.models.word_head import MaskedWordHead

PARTS = ("cls", "ot", "both")
LEXICAL_HEADS = {"mlm": MaskedWordHead, "bow": BagOfWordsProjection}
ACTIVATIONS = ("none", "relu", "log1p")


def largest(values: torch.Tensor, top: int) -> torch.Tensor:
    """(n, V) bool: the ``top`` largest entries of each row; of equal ones those further left. All if V ≤ top.

    >>> largest(torch.tensor([[1.0, 3.0, 3.0, 3.0], [0.0, -1.0, -2.0, -1.0]]), 2).int().tolist()
    [[0, 1, 1, 0], [1, 1, 0, 0]]
    """
    if top >= values.shape[1]:
        return torch.ones_like(values, dtype=torch.bool)
    # NaN is larger than any number for topk and smaller for >; as infinity it is chosen, and stays visible in the result.
    values = values.detach().nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    least = values.topk(top, dim=1).values[:, -1:]
    above, equal = values > least, values == least
    room = top - above.sum(1, keepdim=True)
    return above | (equal & (equal.cumsum(1) <= room))


@dataclass(frozen=True)
class JointShape:
    """``cls_dim``: of h_0's part; ``top``: words of μ that are kept; ``parts``: one of :data:`PARTS`; ``lexical_head``: what
    makes μ; ``sep``: whether [SEP] counts as a token; ``zeroed``: words that are omitted."""

    cls_dim: int
    top: int
    parts: str = "both"
    lexical_head: str = "mlm"
    activation: str = "none"
    sep: bool = True
    zeroed: Sequence[int] = ()


class JointEncoder(nn.Module):
    """A body and the two heads of equations 6 to 11.

    ``dim``, ``pooling``, ``similarity`` and ``head`` are those of the [CLS] part, as an
    :class:`~pretrieve.models.encoder.Encoder` has them; words: the module behind μ.

    Raises ConfigError for an unknown word, a ``top`` below 1 or above V, or a body other than a Transformer.
    """

    def __init__(self, config: BodyConfig, shape: JointShape, seed: int, head: str = "linear", tower: int = 0) -> None:
        super().__init__()
        parts, top, choices = shape.parts, shape.top, config.vocabulary_size - len(set(shape.zeroed))
        check_choice("joint representation: parts", parts, PARTS)
        check_choice("joint representation: lexical_head", shape.lexical_head, LEXICAL_HEADS)
        check_choice("joint representation: activation", shape.activation, ACTIVATIONS)
        if config.kind != "transformer":
            raise ConfigError(
                f"the joint representation needs [CLS] and a word head; a {config.kind} body has neither."
            )
        if parts != "cls" and not 1 <= top <= choices:
            raise ConfigError(f"top={top}: expected 1 to {choices}, the number of words it chooses from.")
        self.config, self.top, self.parts, self.head = config, top, parts, head
        self.lexical_head, self.activation, self.sep = shape.lexical_head, shape.activation, shape.sep
        self.zeroed = tuple(shape.zeroed)
        self.pooling, self.similarity, self.dim = "cls", "dot", shape.cls_dim
        self.body = make_body(config, seed)
        if parts == "ot":
            self.dim, self.head = config.hidden, "none"
        self.projection = make_projection(self.head, config, self.dim, seed, tower)
        self.words = None if parts == "cls" else LEXICAL_HEADS[shape.lexical_head](config, seed)
        #: Numbers of the part from [CLS], and of μ.
        self.cls_width = 0 if parts == "ot" else self.dim
        self.lexical_width = 0 if parts == "cls" else config.vocabulary_size

    def heads(self) -> dict[str, nn.Module]:
        """What heads.safetensors holds beside the projection, by name."""
        return {} if self.words is None else {self.lexical_head: self.words}

    def options(self) -> dict:
        """What, with the body and the projection, makes this representation (for pretrieve.json)."""
        names = ("parts", "top", "lexical_head", "activation", "sep")
        return {name: getattr(self, name) for name in names} | {"cls_dim": self.dim, "zeroed": list(self.zeroed)}

    def _rows(self, batch: Batch) -> tuple[torch.Tensor | None, list[int]]:
        """Rows of the states that μ is the maximum of, and how many each text has.

        A text without any (nothing between [CLS] and [SEP], where ``sep`` is False) keeps its last one.
        """
        taken = torch.ones_like(batch.tokens, dtype=torch.bool)
        taken[batch.starts] = False
        last = batch.starts + batch.lengths - 1
        if not self.sep:
            # Every text ends with [SEP], so this needs no vocabulary; it finds those inside as well.
            taken &= batch.tokens != batch.tokens[last][batch.sequence]
        counts = torch.zeros_like(batch.lengths).index_add(0, batch.sequence, taken.long())
        taken[last[counts == 0]] = True
        return taken.nonzero()[:, 0], counts.clamp(min=1).tolist()

    def _lexical(self, states: torch.Tensor, batch: Batch) -> torch.Tensor:
        """μ (n, V) float32 in packed order, from the last states (T, d)."""
        rows, lengths = self._rows(batch)
        words = pooled_words(self.words, states.index_select(0, rows), self.body.words.weight, lengths)
        if self.activation != "none":
            words = functional.relu(words)
        if self.activation == "log1p":
            words = torch.log1p(words)
        if self.zeroed:
            kept = words.new_ones(words.shape[1])
            kept[list(self.zeroed)] = 0.0
            words = words * kept
        return words

    def represent(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """ĥ (n, cls_width) and the whole μ (n, lexical_width), float32, in the caller's order."""
        if self.parts == "cls":
            dense = self.projection(self.body(batch, first_only=True)).float()
            return dense[batch.inverse], dense.new_zeros(len(batch), 0)
        states = self.body(batch)
        words = self._lexical(states, batch)[batch.inverse]
        if self.parts == "ot":
            return words.new_zeros(len(batch), 0), words
        return self.projection(states[batch.starts]).float()[batch.inverse], words

    def chosen(self, words: torch.Tensor) -> torch.Tensor:
        """I_d of equation 11: (n, V) bool, ``top`` true entries in each row."""
        if self.zeroed:
            words = words.detach().clone()
            words[:, list(self.zeroed)] = -torch.inf
        return largest(words, self.top)

    def sparse(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Documents as an index keeps them, in the caller's order: ĥ (n, cls_width) float32, words (n, top) int32 in
        ascending order, and their entries of μ (n, top) float32. Without μ (``parts: cls``) the last two are (n, 0)."""
        dense, words = self.represent(batch)
        if self.words is None:
            return dense, words.int(), words
        indices = self.chosen(words).nonzero()[:, 1].view(len(words), self.top)
        return dense, indices.int(), words.gather(1, indices)


class JointTower(nn.Module):
    """One ``side`` of the score, ``query`` or ``document``, as a vector (n, width): (ĥ, μ), where a document's μ is zero outside
    of I_d.

    width = cls_dim + V (``both``), V (``ot``) or cls_dim (``cls``).
    """

    def __init__(self, core: JointEncoder, side: str) -> None:
        super().__init__()
        self.core, self.side = core, side
        self.config, self.similarity = core.config, core.similarity
        self.width = core.cls_width + core.lexical_width

    def forward(self, batch: Batch) -> torch.Tensor:
        """(n, width) float32 in the caller's order."""
        dense, words = self.core.represent(batch)
        if self.core.words is None:
            return dense
        if self.side == "document":
            words = words.where(self.core.chosen(words), 0.0)
        return torch.cat([dense, words], dim=1)
