"""Condenser as one would write it first: padded batches on ``transformers`` modules, logits of every position.

Written from the paper's equations 8 to 11 and the released modeling.py:48-91, with none of the project's model code:
only the weights are copied, under the names of :data:`pretrieve.models.checkpoint_names.BERT`.
"""

from __future__ import annotations

import pytest
import torch
from small_body import small_body
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM
from transformers.models.bert.modeling_bert import BertLayer

from pretrieve.models.checkpoint_names import BERT
from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import seeded
from pretrieve.pretraining.condenser import Condenser
from pretrieve.pretraining.examples import Masked
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

_HEAD = {"transform": "transform.dense", "norm": "transform.LayerNorm", "bias": "bias"}


def body_config(vocabulary_size: int, layers: int, max_positions: int, dropout: float = 0.0) -> BodyConfig:
    """A narrow body, deep enough to have late layers behind the sixth."""
    return small_body(
        vocabulary_size, (16, layers, 4, 24), max_positions=max_positions, dropout=dropout, std=0.2, word_std=0.3
    )


def roughen(module: nn.Module) -> None:
    """Weights with which nothing is by chance 0 or 1: biases and norms included."""
    generator = seeded(31)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(mean + 0.2 * torch.randn(parameter.shape, generator=generator))


def bert_config(config: BodyConfig) -> BertConfig:
    return BertConfig(
        vocab_size=config.vocabulary_size,
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.feed_forward,
        max_position_embeddings=config.max_positions,
        layer_norm_eps=config.layer_norm_eps,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


class PaddedReference(nn.Module):
    """``lm`` (BertForMaskedLM) and what stands on it; :meth:`copy` takes the weights of one of our objectives."""

    #: Beginning of the names of the layers behind the body in our module → in this one.
    layers: tuple[str, str, str]

    def copy(self, objective) -> None:
        missing, unexpected = self.load_state_dict(self.named(objective.module.state_dict()), strict=False)
        assert not unexpected and set(missing) <= {
            "lm.cls.predictions.decoder.weight",
            "lm.cls.predictions.decoder.bias",
        }

    def named(self, ours: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Tensors of our module → names of this one."""

        def part(prefix: str) -> dict[str, torch.Tensor]:
            return {n.removeprefix(prefix): t for n, t in ours.items() if n.startswith(prefix)}

        theirs = {f"lm.bert.{name}": tensor for name, tensor in BERT.theirs(part("body.")).items()}
        prefix, layer, own = self.layers
        for name, tensor in BERT.theirs(part(prefix)).items():
            theirs[name.replace(layer, own)] = tensor
        for name, tensor in part("mlm.").items():
            first, _, rest = name.partition(".")
            theirs[f"lm.cls.predictions.{_HEAD[first]}{'.' if rest else ''}{rest}"] = tensor
        return theirs | {f"bow.{name}": tensor for name, tensor in part("bow.").items()}

    def gradients(self) -> dict[str, torch.Tensor]:
        """Name → gradient, of all parameters."""
        return {name: parameter.grad for name, parameter in self.named_parameters()}


class CondenserReference(PaddedReference):
    """With ``c_head``: fresh BertLayers."""

    layers = ("condenser.", "encoder.layer.", "c_head.")

    def __init__(self, objective: Condenser, config: BodyConfig) -> None:
        super().__init__()
        shape = bert_config(config)
        self.lm = BertForMaskedLM(shape)
        self.c_head = nn.ModuleList(BertLayer(shape) for _ in objective.condenser.layers)
        self.copy(objective)
        self.skip_from = objective.condenser.skip_layer

    def forward(self, masked: Masked) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Mean loss behind the head, mean loss behind the last layer, late [CLS] (n, d) and the head's padded input
        (n, L, d)."""
        packed = masked.corrupted
        n, longest = len(packed.lengths), int(packed.lengths.max())
        ids, attention = torch.zeros(n, longest, dtype=torch.int64), torch.zeros(n, longest)
        labels = torch.full((n, longest), -100)
        chosen = set(masked.positions.tolist())
        for i, (start, length) in enumerate(zip(packed.starts.tolist(), packed.lengths.tolist(), strict=True)):
            for place in range(length):
                ids[i, place], attention[i, place] = int(packed.tokens[start + place]), 1
                if start + place in chosen:
                    labels[i, place] = int(masked.original[start + place])
        out = self.lm(input_ids=ids, attention_mask=attention, output_hidden_states=True)
        cls = out.hidden_states[-1][:, :1]
        hidden = entered = torch.cat([cls, out.hidden_states[self.skip_from][:, 1:]], dim=1)
        bias = ((1 - attention) * torch.finfo(torch.float32).min)[:, None, None, :]
        for layer in self.c_head:
            hidden = layer(hidden, bias)
        losses = (
            functional.cross_entropy(logits.reshape(n * longest, -1), labels.reshape(-1))
            for logits in (self.lm.cls(hidden), out.logits)
        )
        return *losses, cls[:, 0], entered


def gradients(objective, device: Device, step: int = 0, parts: int = 1) -> dict[str, float]:
    """Compute the gradients of a step; returns the mean losses."""
    objective.module.zero_grad()
    return accumulate(objective, objective.micro_batches(step, parts), device, Processes(), (5, step)).means


def assert_a_cut_changes_nothing(whole, cut, device: Device, rel: float | None = None) -> None:
    """Losses and gradients of two steps are the same in one piece and in many; ``rel``: or as near as this share of a loss."""
    for step in range(2):
        one, many = gradients(whole, device, step), gradients(cut, device, step, parts=3)
        assert len(whole.micro_batches(step)) == 1 and len(cut.micro_batches(step, 3)) % 3 == 0
        assert many == pytest.approx(one, rel=rel, abs=1e-5)
        for (name, a), b in zip(whole.module.named_parameters(), cut.module.parameters(), strict=True):
            assert float((a.grad - b.grad).abs().max()) <= 1e-5 * max(1.0, float(a.grad.abs().max())), name


def assert_bf16_only_rounds(objective, device: Device, share: float) -> None:
    """Losses, and gradients by at most ``share`` of their length."""
    means = gradients(objective, device)
    exact = {name: p.grad.clone() for name, p in objective.module.named_parameters()}
    assert gradients(objective, Device(torch.device("cpu"), bf16=True)) == pytest.approx(means, rel=0.02)
    for name, parameter in objective.module.named_parameters():
        if not name.endswith("qkv.bias"):
            assert float((parameter.grad - exact[name]).norm()) <= share * float(exact[name].norm()), name


def assert_same_gradients(ours: nn.Module, reference: PaddedReference, tolerance: float = 1e-4) -> None:
    """Of every parameter, and none of them zero (a key's bias moves all scores alike, and has none)."""
    found = reference.named({n: p.grad for n, p in ours.named_parameters()})
    expected = reference.gradients()
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        size = float(gradient.abs().max())
        assert size > 1e-7 or name.endswith("key.bias"), f"{name}: the reference has no gradient"
        assert float((found[name] - gradient).abs().max()) <= tolerance * max(1.0, size), name
