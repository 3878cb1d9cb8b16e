"""DupMAE against a plain padded implementation, and its bags of words by hand.

Seen to fail when: [SEP] is left out of the maximum, or [CLS] is in; masked positions stay, or go where all are
wanted; bags are of the masked text, count a word twice, or have [CLS] and [SEP]; L is of distinct words, or with
[CLS] and [SEP]; bias or transform of the head is left out; ``bow_head``, ``bow_weight`` or ``bow_normalised`` is
ignored; ``cls`` trains the bag, or ``ot`` the decoder; the bag's loss is a mean over words; the projection is not in
the module; the bag is said to begin near ln V.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from condenser_reference import (
    assert_a_cut_changes_nothing,
    assert_bf16_only_rounds,
    assert_same_gradients,
    body_config,
    gradients,
    roughen,
)
from retromae_reference import Reference
from small_body import SHAPE, small_options, trained

from pretrieve.base.errors import ConfigError
from pretrieve.base.options import PRESETS
from pretrieve.models.batch import WASTE
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import read_encoder
from pretrieve.pretraining.dupmae import BagOfWords, DupMae
from pretrieve.pretraining.examples import Masked, Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import first_losses, trained_heads
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import SpecialIds
from pretrieve.training.device import Device
from pretrieve.training.loop import RunSettings

LENGTH, BATCH = 22, 20
SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)


def options_of(preset: str, **changes) -> dict:
    return resolve("dupmae", preset, changes, "test") | {"name": "dupmae", "length": LENGTH}


def fresh(corpus: TokenStore, preset: str, budget: int | None = None, **changes) -> DupMae:
    encoder = Encoder(body_config(corpus.vocabulary_size, 2, LENGTH), 8, "cls", 0)
    setting = Setting(options_of(preset, **changes), BATCH, encoder, corpus, 5, torch.device("cpu"), budget)
    return build_objective(setting)


def dupmae(corpus: TokenStore, preset: str, budget: int | None = None, **changes) -> DupMae:
    objective = fresh(corpus, preset, budget, **changes)
    roughen(objective.module)
    return objective


CHANGES = [
    {},
    {"decode": "cls"},
    {"decode": "ot"},
    {"decode": "ot", "bow_normalised": True},
    {"decode": "ot", "bow_normalised": False},
    {"decode": "ot", "bow_positions": "all"},
    {"decode": "ot", "bow_positions": "unmasked"},
    {"decode": "ot", "bow_head": "mlm"},
    {"decode": "ot", "bow_head": "linear"},
    {"decode": "both", "normalised_query": True},
    {"decode": "both", "normalised_query": False},
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda c: "-".join(str(v).lower() for v in c.values()) or "preset")
@pytest.mark.parametrize("preset", PRESETS)
def test_same_losses_and_gradients_as_a_padded_implementation(
    corpus: TokenStore, cpu: Device, monkeypatch: pytest.MonkeyPatch, preset: str, changes: dict
) -> None:
    """The whole step at once, with attention in groups with padding, as on a GPU; and cut, with attention in groups
    without: the loss of the bags is a mean over all texts of the step."""
    objective = dupmae(corpus, preset, **changes)
    options = options_of(preset, **changes)
    masked, _ = objective.examples.draw(0)
    assert set(masked.corrupted.lengths) == set(range(3, LENGTH + 1))
    weights = {"mlm": 1.0, "decoder": 1.0, "bow": 1.0 if preset == "paper" else 0.1}
    weights.pop({"cls": "bow", "ot": "decoder", "both": None}[options["decode"]], None)
    assert objective.terms == weights
    reference = Reference(objective, objective.body.config)
    expected = reference(masked, objective, options)
    assert expected.keys() == weights.keys()
    sum(weights[term] * value for term, value in expected.items()).backward()
    for one, waste in ((objective, 0.3), (dupmae(corpus, preset, 60, **changes), 0.0)):
        monkeypatch.setitem(WASTE, "cpu", waste)
        batches = one.micro_batches(0)
        means = gradients(one, cpu)
        assert means == pytest.approx({t: v.item() for t, v in expected.items()}, rel=1e-5, abs=1e-5)
        assert_same_gradients(one.module, reference)
    assert len(batches) > 3
    if "bow" in weights:
        assert [batch.counts["bow"] for batch in batches] == [len(batch.data.draws) for batch in batches]
        each = [one.losses(batch)["bow"].item() / batch.counts["bow"] for batch in batches]
        assert abs(np.mean(each) - means["bow"]) > 1e-3 * means["bow"]  # a mean of means is another number


def masked_by_hand() -> Masked:
    """[CLS] a b a c [UNK] [SEP], with b masked and the second a to predict as it is; [CLS] d [SEP], with d masked."""
    original = np.array([2, 7, 9, 7, 8, 1, 3, 2, 6, 3])
    corrupted = np.array([2, 7, 4, 7, 8, 1, 3, 2, 4, 3])
    packed = Packed(corrupted, np.zeros(10, dtype=np.int64), np.array([7, 3]), np.arange(2))
    return Masked(packed, original, np.array([2, 3, 8]), np.arange(2))


def test_bags_by_hand() -> None:
    """Distinct words of the unmasked text, [UNK] among them; 1/L with all five words and the second a counted."""
    for normalised, weights in ((True, [1 / 5, 1.0]), (False, [1.0, 1.0])):
        owners, tokens, found = BagOfWords(normalised, "all", None, SPECIAL).bags(masked_by_hand())
        assert list(zip(owners.tolist(), tokens.tolist(), strict=True)) == [(0, 1), (0, 7), (0, 8), (0, 9), (1, 6)]
        assert found.tolist() == pytest.approx(weights) and found.dtype == np.float32


def test_pooled_positions_by_hand() -> None:
    """[CLS] never, [SEP] always; ``unmasked`` leaves out what is to be predicted, whatever stands there."""
    rows, lengths = BagOfWords(True, "all", None, SPECIAL).rows(masked_by_hand())
    assert rows.tolist() == [1, 2, 3, 4, 5, 6, 8, 9] and lengths == [6, 2]
    rows, lengths = BagOfWords(True, "unmasked", None, SPECIAL).rows(masked_by_hand())
    assert rows.tolist() == [1, 4, 5, 6, 9] and lengths == [4, 1]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_bag_teaches_all_states_but_cls(corpus: TokenStore, preset: str) -> None:
    objective = dupmae(corpus, preset)
    (batch,) = objective.micro_batches(0)
    packed = batch.data.batch("cpu")
    states = objective.body(packed).detach().requires_grad_()
    loss = objective.bag.loss(states, batch.data, objective.body, objective.head)
    (gradient,) = torch.autograd.grad(loss, states)
    taken = np.zeros(len(states), dtype=bool)
    taken[objective.bag.rows(batch.data)[0]] = True
    assert not taken[packed.starts.numpy()].any() and taken.sum() > 100
    reached = (gradient.abs().amax(1) > 0).numpy()
    assert not reached[~taken].any() and reached[taken].mean() > 0.7


@pytest.mark.parametrize("preset", PRESETS)
def test_the_cut_does_not_matter(corpus: TokenStore, cpu: Device, preset: str) -> None:
    assert_a_cut_changes_nothing(dupmae(corpus, preset), dupmae(corpus, preset, 40), cpu, rel=1e-5)


def test_what_each_form_trains(corpus: TokenStore) -> None:
    """Terms, word terms and heads by option; the same masks for all of them."""
    expected = {
        ("paper", "both"): ({"mlm", "decoder", "bow"}, {"mlm", "decoder", "bow"}),
        ("paper", "cls"): ({"mlm", "decoder"}, {"mlm", "decoder"}),
        ("paper", "ot"): ({"mlm", "bow"}, {"mlm", "bow"}),
        ("official_code", "both"): ({"mlm", "decoder", "bow"}, {"mlm", "decoder"}),
        ("official_code", "cls"): ({"mlm", "decoder"}, {"mlm", "decoder"}),
        ("official_code", "ot"): ({"mlm", "bow"}, {"mlm"}),
    }
    for (preset, decode), (terms, heads) in expected.items():
        objective = fresh(corpus, preset, decode=decode)
        assert set(objective.terms) == terms and set(trained_heads(objective)) == heads
        assert set(objective.word_terms) == terms - {"bow"}
        assert objective.micro_batches(0)[0].counts.keys() == terms
        parameters = list(objective.module.parameters())
        assert len({id(p) for p in parameters}) == len(parameters)
    with pytest.raises(ConfigError, match="bow_weight is 0; expected more, or decode: cls in place of ot"):
        fresh(corpus, "paper", decode="ot", bow_weight=0.0)


@pytest.mark.parametrize("preset", PRESETS)
def test_begins_as_fresh_weights_should(corpus: TokenStore, cpu: Device, preset: str) -> None:
    """The word terms near ln V; the bag near its weights' sum times that."""
    objective = fresh(corpus, preset)
    expected = first_losses(objective, objective.body.config)
    assert expected.keys() == {"mlm", "decoder"}
    means = gradients(objective, cpu)
    for term, value in expected.items():
        assert means[term] == pytest.approx(value, rel=0.15)
    owners, _, weights = objective.bag.bags(objective.examples.draw(0)[0])
    assert means["bow"] == pytest.approx(expected["mlm"] * weights[owners].sum() / BATCH, rel=0.2)


def test_bf16_changes_losses_by_rounding_only(corpus: TokenStore, cpu: Device) -> None:
    for preset in PRESETS:
        # Where two states are nearly equal, rounding gives the maximum, and its gradient, to the other.
        assert_bf16_only_rounds(dupmae(corpus, preset), cpu, 0.2)


def test_goes_on_from_saved_heads(corpus: TokenStore, tmp_path: Path, cpu: Device) -> None:
    """Decoder and projection; and an encoder without them starts both fresh."""

    def run(name: str, steps: int, rate: float, start: Path | None = None):
        body = SHAPE | {"max_positions": 24, "dropout": 0.0}
        options = small_options(options_of("paper"), BATCH, steps, rate, body=body, similarity="cosine")
        return trained(options, corpus, tmp_path / name, tmp_path / "ckpt", RunSettings(cpu, 1), start_dir=start)

    curve = run("a", 30, 1e-2).curve
    assert curve[-1]["bow"] < curve[0]["bow"] - 3 and curve[-1]["decoder"] < curve[0]["decoder"] - 0.1
    assert run("b", 1, 1e-9, tmp_path / "a").curve[0]["bow"] < curve[0]["bow"] - 3
    saved, again = read_encoder(tmp_path / "a"), read_encoder(tmp_path / "b")
    for head in ("decoder", "bow", "mlm"):
        assert saved.head(head)
        for name, tensor in again.head(head).items():
            assert torch.allclose(tensor, saved.head(head)[name], atol=1e-6), (head, name)
