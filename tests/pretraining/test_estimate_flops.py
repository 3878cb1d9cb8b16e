"""The estimate's FLOPs against torch's own count of what the models do, and its steps against those of the objectives.

torch.utils.flop_counter counts the products as they are dispatched. All texts of a batch have one length and as many masked
words, so nothing is padded and the counts must be equal to the last FLOP. Attention is computed in the open (torch's backend
``math``), for torch does not count the fused kernels of a CPU.

Seen to fail when: a layer's feed-forward part has one product; attention counts one of its two; the last layer is computed for
all rows; the backward pass is once the forward pass; a Condenser has one word loss, or its head a layer more; the enhanced
decoder asks at [CLS]; a bag's logits are trained like others, or none are counted; the weak decoder reads the last token; a
gradient cache costs a whole step more; T5's gate is left out; a cross-encoder's pooler is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from made_store import make_store, sentence
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.joint import JointEncoder, JointShape
from pretrieve.operations.estimate.flops import (
    TRAINING,
    Texts,
    all_rows,
    body_forward,
    encode,
    first_rows,
    parameters,
    word_head,
)
from pretrieve.operations.estimate.training import (
    CorpusLengths,
    TaskLengths,
    embedding,
    finetuning_step,
    pretraining_step,
    score_pairs,
)
from pretrieve.pretraining.encoder_options import Budget, EncoderOptions
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import from_vocab_file
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

SENTENCE, LENGTH, BATCH = 10, 22, 6
CORPUS = CorpusLengths(passage=20, sentence=10, article=80)
CPU = Device(torch.device("cpu"), bf16=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """Twenty articles of four passages of two sentences, all of one length."""
    passages = [[SENTENCE, SENTENCE]] * 4
    return make_store(tmp_path_factory.mktemp("flops"), [passages] * 20)


@pytest.fixture(scope="module")
def titled(store: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """The same with a title of a word for each article, which stands before its passages."""
    folder = tmp_path_factory.mktemp("titled")
    tokenizer = from_vocab_file(store.directory / "vocab.txt")
    rng = np.random.default_rng(0)
    passages = [
        PassageText([sentence(rng, SENTENCE), sentence(rng, SENTENCE)], article, article)
        for article in range(20)
        for _ in range(4)
    ]
    return write_token_store(folder, tokenizer, passages, ["ba"] * 20, section_articles=np.arange(20))


def body_of(store_or_words: TokenStore | int, dropout: float = 0.0, **changes: Any) -> BodyConfig:
    words = store_or_words if isinstance(store_or_words, int) else store_or_words.vocabulary_size
    sizes = {"hidden": 16, "layers": 3, "heads": 2, "feed_forward": 40, "max_positions": 32} | changes
    return BodyConfig(vocabulary_size=words, dropout=dropout, **sizes)


def _added_product(own, left, right, out_shape=None, **options) -> int:
    """What torch counts for addmm, for its form in place."""
    return 2 * left[0] * left[1] * right[1]


def counted(function: Callable[[], object]) -> int:
    """FLOPs that torch counts, with the one operation of the word loss that it does not know."""
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _added_product})
    with sdpa_kernel(SDPBackend.MATH), counter:
        function()
    return counter.get_total_flops()


def texts_of(number: int, length: int, words: int) -> Packed:
    tokens = np.random.default_rng(1).integers(5, words, number * length)
    lengths = np.full(number, length)
    return Packed(tokens, np.zeros_like(tokens), lengths, np.arange(number))


OBJECTIVES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("mlm", "paper", {}),
    "condenser": ("condenser", "paper", {"skip_layer": 1}),
    "condenser-one-loss": ("condenser", "paper", {"skip_layer": 1, "late_mlm": False, "head_layers": 3}),
    "cocondenser": ("cocondenser", "paper", {"skip_layer": 1, "span_length": SENTENCE + 2}),
    "retromae": ("retromae", "official_code", {"unit": "token"}),
    "dupmae": ("dupmae", "official_code", {"unit": "token"}),
    "dupmae-paper": ("dupmae", "paper", {}),
    "dupmae-cls": ("dupmae", "paper", {"decode": "cls"}),
    "dupmae-ot": ("dupmae", "paper", {"decode": "ot"}),
    "seed": ("seed-encoder", "paper", {"decoder_layers": 2}),
    "seed-all": ("seed-encoder", "paper", {"span": "all"}),
    "optimus": ("optimus", "paper", {"decoder_layers": 2}),
    "optimus-latent": ("optimus", "official_code", {"decoder_layers": 2, "latent_size": 8, "mask": 0.8}),
}


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_costs_what_torch_counts(name: str, dropout: float, store: TokenStore) -> None:
    objective_name, preset, changes = OBJECTIVES[name]
    passages = {} if objective_name == "cocondenser" else {"examples": "passages"}
    options = resolve(objective_name, preset, changes | passages, "test") | {"name": objective_name, "length": LENGTH}
    body = body_of(store, dropout)
    encoder = Encoder(body, 8, "cls", 0)
    objective = build_objective(Setting(options, BATCH, encoder, store, 5, torch.device("cpu")))
    objective.module.train()
    batches = objective.micro_batches(0)
    assert len(batches) == 1
    masked = batches[0].data
    assert len(set(masked.corrupted.lengths.tolist())) == 1
    share = len(masked.positions) / len(masked.original)
    # These sentences fill a span to its end; others leave half a sentence free on average.
    corpus = CorpusLengths(20, 0, 80) if objective_name == "cocondenser" else CORPUS
    step = pretraining_step(of_objective(options | {"rate": share}), body, BATCH, corpus)
    assert step.tokens == batches[0].tokens
    found = counted(lambda: accumulate(objective, batches, CPU, Processes(), (5, 0)))
    assert found > 1e6 and step.flops == pytest.approx(found, rel=1e-12)


def of_objective(options: dict) -> EncoderOptions:
    return EncoderOptions({}, options, "cls", 8, "dot", "linear", budget=Budget(BATCH, 1e-3, steps=1))


def test_an_objective_without_a_cost_is_named() -> None:
    body = BodyConfig(hidden=16, layers=2, heads=2, feed_forward=24)
    options = {"name": "cls-words", "length": LENGTH, "rate": 0.15}
    with pytest.raises(
        ConfigError, match="objective 'cls-words': its cost is not known; add it to _FORWARD of src/pretrieve/op"
    ):
        pretraining_step(of_objective(options), body, BATCH, CORPUS)


@pytest.mark.parametrize("parts", [1, 3])
def test_pairs_and_their_gradient_cache(parts: int, titled: TokenStore) -> None:
    options = resolve("pairs", "paper", {"ict_keep": 1.0}, "test")
    options |= {"name": "pairs", "tasks": ["ict"], "query_length": SENTENCE + 2, "passage_length": LENGTH}
    body = body_of(titled)
    encoder = Encoder(body, 8, "cls", 0, "dot")
    budget = BATCH * (SENTENCE + 2 + LENGTH) // parts
    setting = Setting(options, BATCH, encoder, titled, 5, torch.device("cpu"), budget)
    objective = build_objective(setting)
    batches = objective.micro_batches(0)
    assert len(batches) == parts
    step = pretraining_step(of_objective(options), body, BATCH, CORPUS, budget)
    assert step.tokens == sum(batch.tokens for batch in batches) and step.micro_batches(budget) == parts
    found = counted(lambda: accumulate(objective, batches, CPU, Processes(), (5, 0)))
    assert step.flops == pytest.approx(found, rel=1e-12)


BODIES = {
    "transformer": body_of(50),
    "t5": body_of(50, kind="t5", head_size=4),
    "bow-mlp": body_of(50, kind="bow-mlp"),
}


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("kind", BODIES)
def test_encoding(kind: str, pooling: str) -> None:
    if (kind, pooling) == ("t5", "cls"):
        pytest.skip("T5 has no [CLS]")
    body, packed = BODIES[kind], texts_of(5, 12, 50)
    encoder = Encoder(body, 8, pooling, 0)
    batch = Batch.of(packed)
    forward = encode(body, Texts.of(5, 12), pooling, 8)
    with torch.no_grad():
        assert counted(lambda: encoder(batch)) == forward
    assert counted(lambda: encoder(batch).sum().backward()) == TRAINING * forward


def test_a_joint_representation_counts_its_words_on_the_way_there() -> None:
    body = BODIES["transformer"]
    options = {"representation": "joint", "parts": "both", "cls_dim": 8}
    core = JointEncoder(body, JointShape(8, 6, "both", "bow"), 0, "linear")
    batch = Batch.of(texts_of(5, 12, 50))
    with torch.no_grad():
        assert counted(lambda: core.represent(batch)) == embedding(options, body, Texts.of(5, 12))
    words = word_head(body, 5 * 11, transform=False)
    both = counted(lambda: sum(part.sum() for part in core.represent(batch)).backward())
    assert both == TRAINING * (embedding(options, body, Texts.of(5, 12)) - words) + words


def test_a_cross_encoder() -> None:
    for kind in ("transformer", "t5"):
        body, batch = BODIES[kind], Batch.of(texts_of(4, 12, 50))
        model = CrossEncoder(body)
        assert counted(lambda m=model, b=batch: m(b).sum().backward()) == TRAINING * score_pairs(body, Texts.of(4, 12))


def test_a_recipes_step_by_hand() -> None:
    """Three queries of 7 tokens (of 9), six documents of 12 (of 30), and all scores; with four windows 24 documents."""
    body = BODIES["transformer"]
    options: Mapping[str, Any] = {
        "kind": "ranking",
        "batch": 3,
        "group": 2,
        "query_length": 7,
        "passage_length": 12,
        "dim": 8,
        "head": "linear",
        "pooling": "cls",
        "in_batch": True,
    }
    lengths = TaskLengths(9, 30)
    step = finetuning_step(options, body, lengths, 100)
    forward = encode(body, Texts.of(3, 7), "cls", 8) + encode(body, Texts.of(6, 12), "cls", 8)
    assert step.tokens == 3 * 7 + 6 * 12
    assert step.flops == pytest.approx(3 * forward + 3 * 2 * 3 * body.hidden * 6)
    windows = finetuning_step({**options, "windows": 2}, body, lengths, 100)
    assert windows.tokens == 3 * 7 + 12 * 12
    assert finetuning_step(options, body, lengths, 2).texts == 2 + 2 * 2  # two examples are no batch of three


@pytest.mark.parametrize("kind", BODIES)
def test_parameters_are_those_of_the_model(kind: str) -> None:
    body = body_of(500, kind=kind, hidden=128, feed_forward=256, head_size=64 if kind == "t5" else 0)
    held = sum(parameter.numel() for parameter in Encoder(body, 128, "mean", 0).body.parameters())
    assert parameters(body) == pytest.approx(held, rel=0.01)


def test_rows_of_the_last_layer_are_all_that_differs() -> None:
    body, texts = BODIES["transformer"], Texts.of(5, 12)
    saved = body_forward(body, texts, all_rows(texts)) - body_forward(body, texts, first_rows(texts))
    others = texts.tokens - texts.number
    assert saved == 2 * others * (2 * 16 * 16 + 2 * 16 * 40) + 4 * 16 * (texts.squares - texts.tokens)
    assert math.isclose(body_forward(body, texts), 3 * body_forward(body_of(50, layers=1), texts))
