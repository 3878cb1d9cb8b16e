"""The shape of every encoder's body, as the configuration has it or as a published checkpoint has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrieve.models.config import BodyConfig
from pretrieve.raw import hub
from pretrieve.workflow.job_options import encoder_options, from_outside
from pretrieve.workflow.plan import Plan

#: Published encoders of T5 v1.1 (Hugging Face, config.json of google/t5-v1_1-*), where no copy tells its shape yet.
T5_SHAPES = {
    "small": {"hidden": 512, "layers": 8, "heads": 6, "head_size": 64, "feed_forward": 1024},
    "base": {"hidden": 768, "layers": 12, "heads": 12, "head_size": 64, "feed_forward": 2048},
    "large": {"hidden": 1024, "layers": 24, "heads": 16, "head_size": 64, "feed_forward": 2816},
}
#: config.json of transformers → ours.
_PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "d_model"),
    "layers": ("num_hidden_layers", "num_layers"),
    "heads": ("num_attention_heads", "num_heads"),
    "feed_forward": ("intermediate_size", "d_ff"),
    "head_size": ("d_kv",),
    "vocabulary_size": ("vocab_size",),
}


def body_of(plan: Plan, encoder: str) -> BodyConfig:
    """The shape of an encoder; where it goes on from a published one, what that one's ``config.json`` says, once it is there."""
    encoders, options = plan.config["encoders"], encoder_options(plan.config, encoder).body
    start, every = encoders[encoder].get("start"), encoders[encoder].get("layers_of_start", 1)
    while start in encoders:  # the configuration is checked: it does not go in a circle
        start = encoders[start].get("start")
    if start and from_outside(start):
        options = options | _published(start, options["kind"])
    config = BodyConfig.from_dict(options)
    return replace(config, layers=config.layers // every)


def _published(start: str, kind: str) -> dict[str, Any]:
    file = Path(hub.place_of(start)) / "config.json"
    if file.is_file():
        shown = json.loads(file.read_text(encoding="utf-8"))
        return {ours: shown[theirs] for ours, names in _PUBLISHED.items() for theirs in names if theirs in shown}
    if kind == "t5":
        return next((shape for word, shape in T5_SHAPES.items() if word in start), T5_SHAPES["base"])
    return {}
