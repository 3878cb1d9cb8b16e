"""Which weights of a fine-tuning run become the retriever: those of the snapshot with the best validation loss.

Part of the training questions is held out (paper ``pretraining_tasks`` §4.1: 10 %). It is used at a few snapshots, of
which the start is one. The validation loss is the negative log-likelihood of a held-out query's
relevant document among those of all validation and training queries (at most :data:`MAX_VALIDATION`): ``mean_i (−s_ii⁺
+ log Σ_n exp s_in)`` with scores divided by the recipe's temperature. Other documents that are relevant to query i are
excluded from its sum, as in training. It is this for every ranking loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from pretrieve.base.errors import DataError
from pretrieve.finetuning.groups import refuse_unanswered
from pretrieve.finetuning.losses import softmax_loss
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.retrieval.embed import encode
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.loop import Watcher

#: Candidates that a validation loss is computed over, at most; more would cost more than the training.
MAX_VALIDATION = 1024


class BestWeights(Watcher):
    """Keeps the weights of ``model`` with the lowest validation loss; the earlier ones when two are equal.

    count: snapshots after the start, evenly spaced over ``steps``; 1: the end alone, without the start, so that the last weights
    stay and their loss is known; 0, or no steps: no look at all, and the last weights stay. A subclass says what the loss is.
    """

    def __init__(self, model: nn.Module, count: int, steps: int) -> None:
        super().__init__(after_step=self._look)
        self._model = model
        self._at = {round(steps * (i + 1) / count) - 1 for i in range(count if steps else 0)}

    def _loss(self) -> float:
        """Of the present weights."""
        raise NotImplementedError

    def start(self) -> None:
        """Look at the model as it comes, unless a resumed run has done so, or it is no choice."""
        if len(self._at) > 1 and not self.info:
            self._look(-1)

    def _look(self, step: int) -> None:
        if not self._at or (step >= 0 and step not in self._at):
            return
        loss = self._loss()
        self.info.setdefault("validation", []).append({"step": step + 1, "loss": round(loss, 6)})
        if "best" not in self.info or loss < self.info["best"]:
            self.info.update(best=loss, best_step=step + 1)
            self.tensors.clear()
            self.tensors.update({n: t.detach().cpu().clone() for n, t in self._model.state_dict().items()})

    def restore(self) -> None:
        """Put the best weights into the model; without snapshots it is left as it is."""
        if self._at:
            self._model.load_state_dict(self.tensors)

    def record(self) -> dict[str, Any]:
        """For ``pretrieve.json``: ``best_step``, and ``validation``: step and loss of each look; {} without any."""
        return {name: self.info[name] for name in ("best_step", "validation") if name in self.info}


class BestSnapshot(BestWeights):
    """Keeps the best weights of a dual encoder, by the loss of this module.

    train, valid: query rows. options: of the recipe: ``snapshots``, as ``count`` above, temperature, query_length,
    passage_length. steps: of the run.

    Raises DataError when there are snapshots but no validation query, or a query has no relevant document.
    """

    def __init__(
        self,
        model: DualEncoder,
        data: Dataset,
        train: np.ndarray,
        valid: np.ndarray,
        options: Mapping[str, Any],
        steps: int,
        device: Device,
    ) -> None:
        count = options["snapshots"]
        super().__init__(model, count, steps)
        self._data, self._options, self._device = data, options, device
        if not count:
            return
        if not len(valid):
            raise DataError(
                f"{data.directory}/splits.parquet: no validation query for {count} snapshots; take a larger "
                "training-set size or set snapshots: 0."
            )
        refuse_unanswered(data, np.concatenate([train, valid]))
        self._valid = valid = valid[:MAX_VALIDATION]
        answers = np.concatenate([data.positive[valid], data.positive[train]])[:MAX_VALIDATION]
        self._candidates, inverse = np.unique(answers, return_inverse=True)
        self._target = inverse[: len(valid)]
        self._excluded = data.relevance(valid, self._candidates)
        self._excluded[np.arange(len(valid)), self._target] = False

    def _loss(self) -> float:
        data, options = self._data, self._options
        pack_queries = lambda rows: data.pack_queries(rows, options["query_length"])
        pack_documents = lambda rows: data.pack_candidates(rows, options["passage_length"])
        queries = encode(self._model.query, pack_queries, self._valid, self._device)
        documents = encode(self._model.document, pack_documents, self._candidates, self._device)
        scores = torch.from_numpy(queries @ documents.T) / options["temperature"]
        total = softmax_loss(scores.double(), torch.from_numpy(self._target), torch.from_numpy(self._excluded))
        return float(total) / len(self._valid)
