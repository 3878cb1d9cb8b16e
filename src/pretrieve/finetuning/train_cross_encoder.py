"""Preparing a cross-encoder's training on a retrieval task: the teacher of paper ``dupmae`` §3.2, third stage."""

from __future__ import annotations

from pretrieve.finetuning.cross_encoding import CrossEncoderObjective
from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.groups import steps_for
from pretrieve.finetuning.initial_model import make_cross_encoder
from pretrieve.finetuning.train_ranking import retrieval_data
from pretrieve.finetuning.validation import BestWeights
from pretrieve.models.retriever_files import save_cross_encoder


def prepare(run: FineTuning) -> Trainable:
    """Everything that :func:`pretrieve.finetuning.finetune.finetune` needs to train a teacher."""
    model, about = make_cross_encoder(run.encoder, 1, run.seed)
    data = retrieval_data(run, model.config.kind)
    data.task.check_vocabulary(about, run.encoder)
    model.to(run.device.device)
    objective = CrossEncoderObjective(model, data.task, data.groups, run.options, run.device.device)
    save = lambda out, info: save_cross_encoder(out, model, about=info)
    steps = steps_for(len(data.groups), run.options)
    return Trainable(objective, steps, save, run.key(about, data.key), about, data.counts, BestWeights(model, 0, steps))
