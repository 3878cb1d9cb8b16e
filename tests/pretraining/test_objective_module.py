"""Objectives as torch modules: the loss and the gradient of a step are those of the training loop's step.

Seen to fail when: a term is divided by the number of texts; a term's weight is left out; the contrastive term is left out; a
saved encoder comes back with another projection, or with another tokenizer; a text is taken for a list of its letters;
a term without a count is a sum; heads are not on the encoder's device, or batches stay on it when the module is moved; Optimus'
latent is of float32 in any case.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import pretrieve
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.config import BodyConfig
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

OPTIONS = {
    "mlm": {},
    "dupmae": {},
    "cocondenser": {"skip_layer": 1, "head_layers": 1},
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


@pytest.mark.parametrize("name", [*OPTIONS, "optimus"])
def test_a_module_that_is_moved_or_of_another_type(name: str, body: BodyConfig, store: TokenStore) -> None:
    """As any module of torch: batches and noise follow its parameters."""
    options = OPTIONS.get(name, {"kl_weight": 1.0, "decoder_layers": 1})
    here, elsewhere = (
        pretrieve.make_objective(name, encoder.to(device), store, batch=4, length=24, **options).eval()
        for device in ("cpu", "meta")
        for encoder in [pretrieve.Encoder(body, 16, "cls", 1, "dot", "none")]
    )
    assert {parameter.device.type for parameter in elsewhere.parameters()} == {"meta"}
    moved = elsewhere.to_empty(device="cpu")
    moved.load_state_dict(here.state_dict())
    wanted = here(2)["loss"].item()
    for module in (moved, here.double()):
        assert module(2)["loss"].item() == pytest.approx(wanted, rel=1e-5)


def test_what_is_no_step(body: BodyConfig, store: TokenStore) -> None:
    module = pretrieve.make_objective("mlm", pretrieve.Encoder(body, 16, "cls", 1), store, batch=4, length=24)
    for step in (-1, 1.5, torch.tensor(0)):
        with pytest.raises(ConfigError, match="step=.*; expected 0 or more, a whole number"):
            module(step)


def test_terms_losses_and_counts_have_the_same_names(body: BodyConfig, store: TokenStore) -> None:
    """A sum that is divided by nothing, or a term that is never there, would be taken for a loss."""
    encoder = pretrieve.Encoder(body, 16, "cls", 1, "dot", "none")
    for terms, losses in (
        ({"mlm": 1.0, "more": 1.0}, ("mlm", "more")),
        ({"mlm": 1.0, "more": 1.0}, ("mlm",)),
        ({}, ("mlm",)),
    ):
        module = pretrieve.make_objective("mlm", encoder, store, batch=4, length=24)
        module.objective.terms = terms
        module.objective.losses = lambda batch, losses=losses: dict.fromkeys(losses, torch.ones(()))
        with pytest.raises(
            ConfigError, match=r"MaskedLanguageModel: terms are .*, its losses .* count \['mlm'\]; expected"
        ):
            module(0)


def test_what_cannot_be_made(body: BodyConfig, store: TokenStore, tmp_path, vocabulary) -> None:
    encoder = pretrieve.Encoder(body, 16, "cls", 1, "dot", "none")
    with pytest.raises(
        ConfigError, match="make_objective.objective: 'retromea' is not allowed.*did you mean 'retromae'"
    ):
        pretrieve.make_objective("retromea", encoder, store, batch=4, length=24)
    for name, options, message in (
        ("none", {}, "objective 'none' is not allowed; choose from cocondenser, condenser"),
        ("mlm", {"batch": 0}, "batch=0; expected 1 or more"),
        ("pairs", {"tasks": "ict"}, "one text, 'ict'; expected a list of tasks"),
        ("pairs", {"tasks": ["itc"]}, "pair task 'itc' is not allowed; choose from ict, bfs, wlp"),
        ("pairs", {"query_length": 2}, "query_length=2; expected 3 tokens or more"),
        ("pairs", {"query_length": 65}, "query_length=65; the body has max_positions=64"),
        ("mlm", {"seed": 1.5}, "seed=1.5; expected 0 or more, a whole number"),
    ):
        with pytest.raises(ConfigError, match=message):
            pretrieve.make_objective(name, encoder, store, **{"batch": 4, "length": 24} | options)
    small = pretrieve.Encoder(replace(body, vocabulary_size=store.vocabulary_size - 1), 16, "cls", 1, "dot", "none")
    with pytest.raises(ConfigError, match="the store's vocabulary has .* give the body vocabulary_size"):
        pretrieve.make_objective("mlm", small, store, batch=4, length=24)
    for documents in (["A boat."], [["A boat."]]):
        with pytest.raises(
            ConfigError, match="one text, 'A.*'; expected a list of sentences in a passage of document 0"
        ):
            pretrieve.token_store(tmp_path, vocabulary, documents)
    with pytest.raises(ConfigError, match="one text, 'AB'; expected a list of titles"):
        pretrieve.token_store(tmp_path, vocabulary, [[["A boat."]], [["A ship."]]], titles="AB")
    with pytest.raises(DataError, match=r"titles\[1\]: None is NoneType"):
        pretrieve.token_store(tmp_path, vocabulary, [[["A boat."]], [["A ship."]]], titles=["Boat", None])
    with pytest.raises(ConfigError, match="train_wordpiece: one text, 'A boat.'; expected several"):
        pretrieve.train_wordpiece("A boat.", 40)
    with pytest.raises(DataError, match=r"texts\[1:\]\[0\]: None is NoneType; expected a text"):
        pretrieve.train_wordpiece(["A boat.", None], 40)
    with pytest.raises(ConfigError, match="1 titles for 2 documents"):
        pretrieve.token_store(tmp_path, vocabulary, [[["A boat."]], [["A ship."]]], titles=["Boat"])


def test_blank_sentences_are_no_sentences(tmp_path, vocabulary) -> None:
    plain = pretrieve.token_store(tmp_path / "plain", vocabulary, [[["A boat.", "A ship."]], [["A ship."]]])
    documents = [[["A boat.", "", "A ship."], [" "]], [["A ship.", "\n"]]]
    blank = pretrieve.token_store(tmp_path / "blank", vocabulary, documents)
    for name in ("tokens", "sentence_starts", "passage_starts", "section_starts", "article_starts"):
        assert np.asarray(getattr(blank, name)).tolist() == np.asarray(getattr(plain, name)).tolist()


def test_a_saved_encoder_is_the_same_and_knows_its_tokenizer(body: BodyConfig, tmp_path, vocabulary) -> None:
    encoder = pretrieve.Encoder(body, 8, "cls", 1, "dot", "linear").eval()
    torch.nn.init.normal_(encoder.projection.weight)  # as training leaves it: not what the seed draws
    pretrieve.save_encoder(tmp_path, encoder, vocabulary)
    saved = pretrieve.load(tmp_path, vocabulary).dual.document.state_dict()
    for key, value in encoder.state_dict().items():
        torch.testing.assert_close(saved[key], value)
    with pytest.raises(DataError, match="made with another vocabulary"):
        pretrieve.load(tmp_path, pretrieve.train_wordpiece(["a b"], 40, min_frequency=1))
