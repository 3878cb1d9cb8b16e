"""Cross-encoders against transformers' sequence classifier, by hand for T5, and what the second text's segment does.

Tolerance 1e-5 in float32.

Seen to fail when: tanh is left out; the state of the last token is taken; T5 takes the first token; scores keep the packed
order; dropout is left out in training; the pooler's and the classifier's weights are drawn alike; the second text is in
segment 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_body import small_body
from transformers import BertConfig, BertForSequenceClassification

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.checkpoint_names import BERT as NAMES
from pretrieve.models.config import BodyConfig
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.hf_format import shown_config
from pretrieve.models.transformer import seeded

CONFIG = small_body(50, (16, 2, 2, 24), max_positions=20, std=0.3, word_std=0.5)
T5 = BodyConfig(kind="t5", vocabulary_size=50, hidden=16, layers=1, heads=2, feed_forward=24, head_size=4, dropout=0.0)
LENGTHS = [5, 12, 3, 12, 8]


def make(config: BodyConfig = CONFIG, classes: int = 3, **options) -> CrossEncoder:
    model = CrossEncoder(config, classes, seed=5, **options).eval()
    generator = seeded(6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("classes", [1, 3])
def test_equals_the_classifier_of_transformers(classes: int, random_packed) -> None:
    """``[CLS] a [SEP] b [SEP]`` with the second text in segment 1, value and gradient."""
    ours = make(classes=classes)
    theirs = BertForSequenceClassification(BertConfig(**shown_config(CONFIG), num_labels=classes)).eval()
    state = {f"bert.{name}": tensor for name, tensor in NAMES.theirs(ours.body.state_dict()).items()}
    for name, module in (("bert.pooler.dense", ours.pooler), ("classifier", ours.classifier)):
        state |= {f"{name}.{key}": tensor for key, tensor in module.state_dict().items()}
    theirs.load_state_dict(state)
    packed = random_packed(LENGTHS, 50)
    assert packed.segments.any()
    ids, types, mask = (torch.zeros(5, 12, dtype=torch.int64) for _ in range(3))
    for place, example in enumerate(packed.order):
        rows = slice(int(packed.starts[place]), int(packed.starts[place] + packed.lengths[place]))
        ids[example, : packed.lengths[place]] = torch.from_numpy(packed.tokens[rows])
        types[example, : packed.lengths[place]] = torch.from_numpy(packed.segments[rows])
        mask[example, : packed.lengths[place]] = 1
    logits = ours(Batch.of(packed))
    expected = theirs(input_ids=ids, token_type_ids=types, attention_mask=mask).logits
    assert logits.shape == (5, classes) and logits.dtype == torch.float32 and float(expected.detach().std()) > 0.05
    assert torch.allclose(logits, expected, atol=1e-5)
    direction = torch.randn(5, classes, generator=seeded(2))
    (logits * direction).sum().backward()
    (expected * direction).sum().backward()
    for mine, other in [
        (ours.pooler, theirs.bert.pooler.dense),
        (ours.classifier, theirs.classifier),
        (ours.body.segments, theirs.bert.embeddings.token_type_embeddings),
    ]:
        assert float(other.weight.grad.abs().max()) > 0
        assert torch.allclose(mine.weight.grad, other.weight.grad, atol=1e-4)


@pytest.mark.parametrize("segments", [2, 1, 0])
def test_segments_where_the_body_has_them(segments: int, random_packed) -> None:
    family = {"family": "roberta", "position_offset": 2} if segments < 2 else {}
    model = make(replace(CONFIG, segments=segments, **family))
    packed = random_packed(LENGTHS, 50)
    flat = replace(packed, segments=np.zeros_like(packed.segments))
    with torch.no_grad():
        same = torch.equal(model(Batch.of(packed)), model(Batch.of(flat)))
    assert same == (segments < 2)


def test_t5_has_the_mean_of_all_states(random_packed) -> None:
    model = make(T5, 2)
    assert model.pooling == "mean"
    packed = random_packed(LENGTHS, 50)
    with torch.no_grad():
        states, expected = model.body(Batch.of(packed)), torch.empty(5, 2)
        for place, example in enumerate(packed.order):
            h = states[packed.starts[place] : packed.starts[place] + packed.lengths[place]].mean(0)
            p = torch.tanh(model.pooler.weight @ h + model.pooler.bias)
            expected[example] = model.classifier.weight @ p + model.classifier.bias
        assert torch.allclose(model(Batch.of(packed)), expected, atol=1e-5) and float(expected.std()) > 0.05


def test_fresh_weights_and_dropout(random_packed) -> None:
    config = replace(CONFIG, dropout=0.5)
    model, again, other = (CrossEncoder(config, 16, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(model.pooler.weight, again.pooler.weight)
    assert not torch.equal(model.pooler.weight, other.pooler.weight)
    assert not torch.equal(model.pooler.weight, model.classifier.weight)
    assert float(model.classifier.weight.detach().std()) == pytest.approx(0.3, rel=0.2)
    assert not model.pooler.bias.any() and not model.classifier.bias.any()
    model.body.eval()
    batch = Batch.of(random_packed(LENGTHS, 50))
    # Between pooler and classifier: an output of 0 for a unit that is left out, twice itself for one that is not.
    model.dropout.train()
    assert not torch.equal(model(batch), model(batch))
    assert torch.equal(model.eval()(batch), model(batch))


def test_refused() -> None:
    for arguments, message in [
        ((replace(CONFIG, kind="bow-mlp"),), "a bow-mlp body cannot be a cross-encoder"),
        ((CONFIG, 0), "classes=0: expected 1"),
    ]:
        with pytest.raises(ConfigError, match=message):
            CrossEncoder(*arguments)
