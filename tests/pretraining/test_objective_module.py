"""Objectives as torch modules: the loss and the gradient of a step are those of the training loop's step.

Seen to fail when: a term is divided by the number of texts; a term's weight is left out; the contrastive term is left out.
"""

from __future__ import annotations

import pytest
import torch

import pretrieve
from pretrieve.base.errors import ConfigError
from pretrieve.models.config import BodyConfig
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

OPTIONS = {
    "mlm": {},
    "dupmae": {},
    "cocondenser": {"skip_layer": 1, "head_layers": 1, "span_length": 12},
    "pairs": {"tasks": ["ict", "bfs"], "query_length": 12},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step(name: str, body: BodyConfig, store: TokenStore, cpu: Device) -> None:
    encoder = pretrieve.Encoder(body, 16, "cls", 1, "dot", "none")
    module = pretrieve.make_objective(name, encoder, store, batch=4, length=24, **OPTIONS[name]).eval()
    assert {id(p) for p in encoder.body.parameters()} <= {id(p) for p in module.parameters()}
    losses = module(2)
    losses["loss"].backward()
    found = {key: parameter.grad.clone() for key, parameter in module.named_parameters() if parameter.grad is not None}
    module.zero_grad()
    wanted = accumulate(module.objective, module.objective.micro_batches(2), cpu, Processes(), (1, 2))
    assert {term: losses[term].item() for term in wanted.means} == pytest.approx(wanted.means, rel=1e-5)
    assert losses["loss"].item() == pytest.approx(
        sum(module.objective.terms[t] * v for t, v in wanted.means.items()), rel=1e-5
    )
    gradients = {key: parameter.grad for key, parameter in module.named_parameters() if parameter.grad is not None}
    assert found.keys() == gradients.keys() and len(found) > 10
    for key, gradient in gradients.items():
        torch.testing.assert_close(found[key], gradient, atol=1e-6, rtol=1e-4)


def test_what_cannot_be_made(body: BodyConfig, store: TokenStore, tmp_path, vocabulary) -> None:
    encoder = pretrieve.Encoder(body, 16, "cls", 1, "dot", "none")
    with pytest.raises(
        ConfigError, match="make_objective.objective: 'retromea' is not allowed.*did you mean 'retromae'"
    ):
        pretrieve.make_objective("retromea", encoder, store, batch=4, length=24)
    with pytest.raises(ConfigError, match="1 titles for 2 documents"):
        pretrieve.token_store(tmp_path, vocabulary, [[["A boat."]], [["A ship."]]], titles=["Boat"])
