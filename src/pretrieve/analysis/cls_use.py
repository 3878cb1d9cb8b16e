"""Does an objective's decoder use [CLS] at all? Its loss with the [CLS] of the text itself, and with that of another text.

Condenser, RetroMAE, DupMAE, SEED-Encoder and Optimus are meant to press a text into [CLS]: a decoder (in Condenser a head) needs
it to predict the words. The test: every text gets the [CLS] of another text of its batch, and all else stays. If the loss does
not rise, the decoder does not use [CLS], and the objective teaches [CLS] nothing. Our own control; no paper has it.

The texts are examples of the objective, masked as in training, from the end of an epoch: a run that is shorter than an epoch has
not trained on them. Batches are sorted by length, and a text gets the [CLS] of its neighbour, so lengths tell nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from pretrieve.analysis.plan import CLS_TERM
from pretrieve.analysis.shared import Row, load_body, summary
from pretrieve.base.errors import DataError
from pretrieve.models.batch import Asking, Batch
from pretrieve.models.hf_format import Checkpoint, encoder_of, load_tensors, read_encoder
from pretrieve.models.transformer import Transformer
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.pretrain import trained_heads
from pretrieve.text.token_store import TokenStore

BATCH = 32


class WithAnothersCls(Transformer):
    """A body whose last state of [CLS] is that of the next text of the batch."""

    def forward(self, batch: Batch, first_only: bool = False, asking: Asking | None = None) -> torch.Tensor:
        states = super().forward(batch, first_only, asking)
        return states.roll(1, 0) if first_only else _exchanged(states, batch)

    def all_states(self, batch: Batch, asking: Asking | None = None) -> list[torch.Tensor]:
        *early, last = super().all_states(batch, asking)
        return [*early, _exchanged(last, batch)]


def _exchanged(states: torch.Tensor, batch: Batch) -> torch.Tensor:
    return states.index_copy(0, batch.starts, states.index_select(0, batch.starts).roll(1, 0))


def measure(directory: Path, store: TokenStore, device: torch.device, texts: int, seed: int) -> list[Row]:
    """One row for the encoder in ``directory``: ``own`` and ``other``, the mean loss of a predicted word in nats with each [CLS];
    ``difference``, its ``sd`` and ``n`` over batches of 32 texts.

    texts: how many, in whole batches of which there is at least one; seed: of their order and masks.

    Raises DataError when the encoder was made with an objective that has no decoder on [CLS], or not with this store's
    vocabulary.
    """
    saved = read_encoder(directory)
    options = saved.about.get("objective", {})
    if options.get("name") not in CLS_TERM:
        raise DataError(
            f"{directory}: was made with {options.get('name', 'fine-tuning')!r}, which decodes nothing from [CLS]; name encoders "
            f"with objective {', '.join(CLS_TERM)} in config.yaml's analyses."
        )
    body = load_body(directory, store, options["length"], device)
    exchanged = WithAnothersCls(body.config)
    exchanged.load_state_dict(body.state_dict())
    losses = [_losses(one, saved, store, device, (texts, seed)) for one in (body, exchanged)]
    own, other = (np.array(values) for values in losses)
    return [{"own": float(own.mean()), "other": float(other.mean()), **summary("difference", other - own)}]


def _losses(
    body: Transformer, saved: Checkpoint, store: TokenStore, device: torch.device, drawn: tuple[int, int]
) -> list[float]:
    """The decoder's loss of each batch, with that body and the heads of the directory."""
    (texts, seed), options = drawn, saved.about["objective"]
    encoder, term = encoder_of(saved), CLS_TERM[options["name"]]
    encoder.body = body.eval().to(device)
    objective = build_objective(Setting(options, BATCH, encoder, store, seed, device))
    for name, module in trained_heads(objective).items():
        load_tensors(module, saved.head(name), saved.path / "heads.safetensors")
    objective.module.eval().to(device)
    last = max(1, len(objective.examples) // BATCH)
    found = []
    with torch.inference_mode():
        for step in range(max(0, last - max(1, texts // BATCH)), last):
            parts = objective.micro_batches(step)
            total = sum(float(objective.losses(part)[term]) for part in parts)
            found.append(total / sum(part.counts[term] for part in parts))
    return found
