"""Fine-tuning on (question, sentence + passage) pairs: the recipe of paper ``pretraining_tasks`` §4.1.

In-batch softmax as in pre-training; 10 % of the training questions are held out, and of a few snapshots taken on the way
(the start is one of them) the one with the best validation loss is the retriever. The validation loss is the negative
log-likelihood of the right candidate among those of all training and validation questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.contrastive import pair_loss
from pretrieve.pretraining.examples import epoch_order
from pretrieve.retrieval.embed import encode
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.loop import Watcher
from pretrieve.training.objective import MicroBatch

#: Candidates that a validation loss is computed over, at most; more would cost more than the training.
MAX_VALIDATION = 1024


@dataclass(frozen=True)
class ReqaConfig:
    """``steps`` at most, and at most ``epochs`` over the training questions (few-shot runs would only repeat themselves);
    ``snapshots`` after the first, evenly spaced."""

    batch: int
    steps: int
    epochs: float
    query_length: int
    passage_length: int
    temperature: float
    snapshots: int = 4

    def steps_for(self, questions: int) -> int:
        """Steps for that many training questions; at least one."""
        return max(1, min(self.steps, round(self.epochs * questions / min(self.batch, questions))))


class ReqaObjective:
    """In-batch softmax over questions and their (sentence, passage) candidates."""

    terms = {"contrastive": 1.0}

    def __init__(
        self, encoder: Encoder, data: Dataset, rows: np.ndarray, config: ReqaConfig, seed: int, device: torch.device
    ) -> None:
        self.module = self.encoder = encoder
        self._data, self._rows, self._config, self._seed, self._device = data, rows, config, seed, device
        self._batch = min(config.batch, len(rows))

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """Questions of a step, without replacement within an epoch, in as many parts as are asked for."""
        chosen = self._rows[epoch_order(len(self._rows), self._seed, step * self._batch, self._batch)]
        # An epoch's end and the next one's start can hold the same question: once is enough.
        chosen = np.unique(chosen)
        size = -(-len(chosen) // parts)
        return [self._pack(chosen[first : first + size]) for first in range(0, len(chosen), size)]

    def _pack(self, chosen: np.ndarray) -> MicroBatch:
        positives = self._data.positive[chosen]
        queries = self._data.pack_queries(chosen, self._config.query_length)
        documents = self._data.pack_candidates(positives, self._config.passage_length)
        tokens = len(queries.tokens) + len(documents.tokens)
        counts = {"contrastive": len(chosen)}
        return MicroBatch((queries, documents, positives), counts, tokens, chosen, 2 * len(chosen))

    def vectors(self, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(2n, dim): questions, then their candidates."""
        queries, documents, _ = batch.data
        return torch.cat([self.encoder(Batch.of(packed, self._device)) for packed in (queries, documents)]), {}

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """Summed loss of the questions over all candidates of the batch."""
        return {"contrastive": pair_loss(vectors, [batch.data[2] for batch in batches], self._config.temperature)}


class BestSnapshot(Watcher):
    """Keeps the weights with the lowest validation loss; the earlier one when two are equal."""

    def __init__(
        self,
        encoder: Encoder,
        data: Dataset,
        train: np.ndarray,
        valid: np.ndarray,
        config: ReqaConfig,
        steps: int,
        device: Device,
    ) -> None:
        super().__init__(after_step=self._look)
        self._encoder, self._data, self._config, self._device = encoder, data, config, device
        self._valid = valid = valid[:MAX_VALIDATION]
        answers = np.concatenate([data.positive[valid], data.positive[train]])[:MAX_VALIDATION]
        self._candidates, inverse = np.unique(answers, return_inverse=True)
        self._target = inverse[: len(valid)]
        self._at = {round(steps * (i + 1) / config.snapshots) - 1 for i in range(config.snapshots)}

    def start(self) -> None:
        """Look at the model as it comes from pre-training, unless a resumed run has done so."""
        if not self.info:
            self._look(-1)

    def _look(self, step: int) -> None:
        if step >= 0 and step not in self._at:
            return
        loss = self._loss()
        self.info.setdefault("validation", []).append({"step": step + 1, "loss": round(loss, 6)})
        if "best" not in self.info or loss < self.info["best"]:
            self.info.update(best=loss, best_step=step + 1)
            self.tensors.clear()
            self.tensors.update({n: t.detach().cpu().clone() for n, t in self._encoder.state_dict().items()})

    def _loss(self) -> float:
        config = self._config
        queries = encode(
            self._encoder, lambda rows: self._data.pack_queries(rows, config.query_length), self._valid, self._device
        )
        documents = encode(
            self._encoder,
            lambda rows: self._data.pack_candidates(rows, config.passage_length),
            self._candidates,
            self._device,
        )
        scores = torch.from_numpy(queries @ documents.T) / config.temperature
        return float(torch.nn.functional.cross_entropy(scores.double(), torch.from_numpy(self._target)))

    def restore(self) -> None:
        """Put the best weights into the encoder."""
        self._encoder.load_state_dict(self.tensors)
