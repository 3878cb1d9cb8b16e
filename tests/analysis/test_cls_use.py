"""Whether a decoder uses [CLS]: rises with a [CLS] that tells something, and is nothing where the decoder does without.

Seen to fail when: the text keeps its own [CLS]; the states of other tokens are exchanged too; the fresh decoder is measured in
place of the saved one; another term than the decoder's is taken.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pretrieve.analysis.cls_use import BATCH, WithAnothersCls, measure
from pretrieve.analysis.plan import CLS_TERM
from pretrieve.base.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import trained_heads
from pretrieve.text.packing import pack_passages

CPU = torch.device("cpu")
SMALL = {
    "condenser": {"skip_layer": 1},
    "seed-encoder": {"decoder_layers": 1},
    "optimus": {"decoder_layers": 1},
}


def made(saved, articles, shape, name: str, deaf: bool = False, **changes) -> tuple[Path, object]:
    """An encoder with the shaken heads of an objective; ``deaf``: its decoder's way to [CLS] is cut."""
    options = {"name": name, "length": 16} | resolve(name, None, SMALL.get(name, {}) | {"examples": "passages"}, "t")
    encoder = Encoder(shape, 8, "cls", seed=1)
    objective = build_objective(Setting(options, 4, encoder, articles, 1, CPU))
    heads = trained_heads(objective)
    generator = torch.Generator().manual_seed(20)
    with torch.no_grad():
        for parameter in (one for head in heads.values() for one in head.parameters()):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    if deaf:
        with torch.no_grad():
            for key, parameter in heads["decoder"].named_parameters():
                if ".cross" in key or "cross_" in key:
                    parameter.zero_()
    directory, _ = saved(f"{name}{deaf}", heads, objective=options, **changes)
    return directory, heads


@pytest.mark.parametrize("name", CLS_TERM)
def test_another_texts_cls_changes_the_loss(saved, articles, shape, name: str) -> None:
    directory, _ = made(saved, articles, shape, name)
    [row] = measure(directory, articles, CPU, 4 * BATCH, 1)
    assert row["own"] > 0 and row["n"] >= 1
    assert row["difference"] == pytest.approx(row["other"] - row["own"], abs=1e-6) and abs(row["difference"]) > 1e-4
    assert measure(directory, articles, CPU, 4 * BATCH, 1) == [row]


def test_a_decoder_that_does_without(saved, articles, shape) -> None:
    directory, heads = made(saved, articles, shape, "seed-encoder", deaf=True)
    assert any("cross" in key for key, _ in heads["decoder"].named_parameters())
    [row] = measure(directory, articles, CPU, 4 * BATCH, 1)
    assert row["difference"] == pytest.approx(0, abs=1e-6) and row["own"] > 0


def test_only_cls_is_exchanged(articles, shape, saved) -> None:
    _, encoder = saved()
    body, other = encoder.body, WithAnothersCls(shape).eval()
    other.load_state_dict(body.state_dict())
    batch = Batch.of(pack_passages(articles, np.arange(3), 16), CPU)
    with torch.no_grad():
        own, found, every = body(batch), other(batch), other.all_states(batch)
        first = other(batch, first_only=True)
    changed = (own != found).any(dim=1).nonzero()[:, 0].tolist()
    assert changed == sorted(batch.starts.tolist()) and torch.equal(every[-1], found)
    assert torch.allclose(found[batch.starts], own[batch.starts].roll(1, 0))
    assert torch.allclose(first, found[batch.starts], atol=1e-5)
    assert torch.equal(every[1], body.all_states(batch)[1])


def test_what_decodes_nothing_is_refused(saved, articles) -> None:
    with pytest.raises(
        DataError, match=r"made with 'mlm', which decodes nothing from \[CLS\]; name encoders .* condenser"
    ):
        measure(saved()[0], articles, CPU, 64, 1)
