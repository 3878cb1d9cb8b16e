"""What the tests of published checkpoints share: small random models, their files, and comparison with transformers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import Checkpoint, load_tensors
from pretrieve.models.word_head import MaskedWordHead

SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 22,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-3,
}
LENGTHS = np.array([3, 18, 7, 1, 18, 12])


def randomised(model: nn.Module, seed: int = 3, std: float = 0.3) -> nn.Module:
    """All parameters random, biases and norms included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = 1.0 if re.search(r"norm.*weight|layer_norm.weight", name, re.IGNORECASE) else 0.0
            parameter.copy_(mean + std * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def bert_lm(**more) -> transformers.BertForMaskedLM:
    return randomised(transformers.BertForMaskedLM(transformers.BertConfig(**{**SMALL, **more})))


def write(directory: Path, state: dict, config: dict | None, name: str = "pytorch_model.bin") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    state = {key: tensor.detach().clone() for key, tensor in state.items()}
    save_file(state, directory / name) if name.endswith(".safetensors") else torch.save(state, directory / name)
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
    return directory


def states_of(start: Checkpoint, packed) -> torch.Tensor:
    """(T, d) of our body with the weights of a checkpoint."""
    encoder = Encoder(start.config, 5, "mean", seed=1).eval()
    load_tensors(encoder.body, start.body, start.path)
    with torch.no_grad():
        return encoder.body(Batch.of(packed))


def padded(packed, padding: int = 0, segments: bool = True) -> dict[str, torch.Tensor]:
    """A packed batch as a model of transformers reads it; ``padding``: the id of [PAD]."""
    n, longest = len(packed.lengths), int(packed.lengths.max())
    ids, types, mask = (torch.zeros(n, longest, dtype=torch.int64) for _ in range(3))
    ids += padding
    for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        ids[i, :length] = torch.from_numpy(packed.tokens[start : start + length])
        types[i, :length] = torch.from_numpy(packed.segments[start : start + length])
        mask[i, :length] = 1
    return {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if segments else {})


def theirs(model: nn.Module, packed, padding: int = 0, segments: bool = False) -> torch.Tensor:
    """(T, d) of a model of transformers."""
    inputs = padded(packed, padding, segments)
    with torch.no_grad():
        return model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]


def same(start: Checkpoint, model: nn.Module, random_packed, padding: int = 0, segments: bool = False) -> None:
    packed = random_packed(LENGTHS, 60)
    packed = replace(packed, tokens=np.maximum(packed.tokens, 2))
    states = states_of(start, packed)
    assert float(states.abs().mean()) > 0.1
    assert float((states - theirs(model, packed, padding, segments)).abs().max()) <= 1e-5


def word_logits(start: Checkpoint, states: torch.Tensor) -> torch.Tensor:
    """Logits of our word head with a checkpoint's weights."""
    head = MaskedWordHead(start.config, seed=1)
    load_tensors(head, start.head("mlm"), start.path)
    with torch.no_grad():
        return head(states, start.body["words.weight"])
