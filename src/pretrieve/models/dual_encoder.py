"""Dual encoders: one tower for queries, one for documents, and what they share (paper ``dual_encoders`` §2 and figure 1).

A tower is a module that makes ``(n, width)`` vectors of a batch: an :class:`~pretrieve.models.encoder.Encoder`, or one
side of DupMAE's joint representation (:class:`~pretrieve.models.joint.JointTower`). The score of a query and a document is
the inner product of their vectors. Both towers begin as copies of one pre-trained encoder; a fresh projection is drawn for
each tower by itself (§4).

============  =============================  ==============================  ==========================================
sharing       body without its words         word embeddings                 projection
============  =============================  ==============================  ==========================================
``sde``       one                            one                             one
``ade``       two                            two                             two
``ade-ste``   two                            one, trained from both sides    two
``ade-fte``   two                            two that stay as they were      two
                                             pre-trained, so equal
``ade-spl``   two                            two                             one
============  =============================  ==============================  ==========================================

Positions belong to the tower: BERT's position and segment tables, T5's relative biases, and the norms (figure 1 has three
blocks: token embedder, transformer encoder, projection). Of a joint representation, the word head is shared as the
projection is; where it multiplies with the word embeddings, it takes those of its own tower.

**One name for one tensor.** A shared tensor has a name in both towers. ``state_dict`` has it once, under the document's
name, and ``load_state_dict`` gives it to both; files of tensors do not allow two names for the same memory.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from pretrieve.base.errors import ConfigError, check_choice
from pretrieve.models.encoder import Encoder
from pretrieve.models.joint import JointEncoder, JointTower
from pretrieve.models.projection import make_projection

SHARINGS = ("sde", "ade", "ade-ste", "ade-fte", "ade-spl")


class DualEncoder(nn.Module):
    """``query`` and ``document``: two towers of one width and similarity; the same one, for dense vectors, if ``sde``.

    width: numbers of a vector; similarity: ``cosine`` (vectors of norm 1) or ``dot``; config: of the document tower's body, whose
    shape the query tower's has too; representation: ``dense`` or ``joint``; separate: whether the query tower has a tensor of its
    own.

    :func:`dual_encoder` makes one from an encoder.

    Raises ConfigError for an unknown sharing, or towers whose vectors have no inner product.
    """

    def __init__(self, query: nn.Module, document: nn.Module, sharing: str) -> None:
        super().__init__()
        check_choice("sharing", sharing, SHARINGS)
        if (query.width, query.similarity) != (document.width, document.similarity):
            raise ConfigError(
                f"query tower: {query.width} numbers, {query.similarity}; document tower: {document.width}, "
                f"{document.similarity}. Both towers of a retriever need the same."
            )
        # The document's first: of a shared tensor, torch keeps the first name.
        self.document, self.query, self.sharing = document, query, sharing
        self.width, self.similarity, self.config = document.width, document.similarity, document.config
        self.representation = "joint" if isinstance(document, JointTower) else "dense"
        self.separate = core(query) is not core(document)
        self.register_load_state_dict_pre_hook(self._give_both_names)

    def aliases(self) -> dict[str, str]:
        """Second name of a shared tensor → the name it is saved under."""
        first: dict[int, str] = {}
        named = [*self.named_parameters(remove_duplicate=False), *self.named_buffers(remove_duplicate=False)]
        return {name: kept for name, tensor in named if (kept := first.setdefault(id(tensor), name)) != name}

    def state_dict(self, *args: Any, prefix: str = "", **kwargs: Any) -> dict[str, torch.Tensor]:
        """As of any module, with each shared tensor once."""
        state = super().state_dict(*args, prefix=prefix, **kwargs)
        for name in self.aliases():
            del state[prefix + name]
        return state

    @staticmethod
    def _give_both_names(module: DualEncoder, state_dict: dict, prefix: str, *_: Any) -> None:
        """Before anything is loaded: torch asks each module in turn, the towers after this one, and they find both names."""
        for name, kept in module.aliases().items():
            if prefix + kept in state_dict:
                state_dict.setdefault(prefix + name, state_dict[prefix + kept])


def core(tower: nn.Module) -> Encoder | JointEncoder:
    """What holds a tower's body and projection: the encoder itself, or the one behind a side of the joint score."""
    return tower.core if isinstance(tower, JointTower) else tower


def dual_encoder(
    encoder: Encoder | JointEncoder,
    sharing: str,
    seed: int,
    copied_projection: bool = False,
    query: Encoder | JointEncoder | None = None,
) -> DualEncoder:
    """Both towers from one encoder, which becomes the document's.

    seed: of the query tower's fresh projection; copied_projection: it begins as a copy of the document's instead, because
    that is pre-trained; query: a query tower that was pre-trained beside ``encoder`` and is used instead of a copy.

    Raises ConfigError for an unknown sharing, or ``sde`` with a query tower.
    """
    if sharing == "sde":
        if query is not None:
            raise ConfigError("sharing 'sde' has one tower; a query tower of its own goes with 'ade' and its variants.")
        query = encoder
    elif query is None:
        query = copy.deepcopy(encoder)
        if not copied_projection:
            query.projection = make_projection(query.head, query.config, query.dim, seed, tower=1)
    return paired(query, encoder, sharing)


def paired(query: Encoder | JointEncoder, document: Encoder | JointEncoder, sharing: str) -> DualEncoder:
    """Two encoders as towers; the tensors of the module's table become one, the document's, or are frozen, in place."""
    if sharing == "ade-ste":
        query.body.words.weight = document.body.words.weight
    if sharing == "ade-fte":
        for tower in (query, document):
            tower.body.words.weight.requires_grad_(False)
    if sharing == "ade-spl":
        query.projection = document.projection
        if isinstance(document, JointEncoder):
            query.words = document.words
    if isinstance(document, JointEncoder):
        return DualEncoder(JointTower(query, "query"), JointTower(document, "document"), sharing)
    return DualEncoder(query, document, sharing)
