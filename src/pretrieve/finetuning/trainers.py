"""Names of trainers (:func:`pretrieve.finetuning.recipes.trainer_of`) → the function that prepares a run.

A trainer is one entry here, one file that prepares it, and the options of its recipes in ``recipes.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.train_ance import prepare_ance
from pretrieve.finetuning.train_cross_encoder import prepare_cross_encoder
from pretrieve.finetuning.train_curve import prepare_curve
from pretrieve.finetuning.train_distillation import prepare_distillation
from pretrieve.finetuning.train_examples import prepare_examples
from pretrieve.finetuning.train_maxp import prepare_maxp
from pretrieve.finetuning.train_ranking import prepare_ranking

TRAINERS: dict[str, Callable[[FineTuning], Trainable]] = {
    "ranking": prepare_ranking,
    "curve": prepare_curve,
    "maxp": prepare_maxp,
    "ance": prepare_ance,
    "distillation": prepare_distillation,
    "cross-encoder": prepare_cross_encoder,
    "examples": prepare_examples,
}
