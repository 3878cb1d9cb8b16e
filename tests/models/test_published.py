"""Published checkpoints by the names in their files: made here with transformers' models or by hand, small and random,
and compared with what those models compute. fairseq's are in test_published_fairseq.py.

SEEN
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from published_files import SMALL, bert_lm, randomised, same, word_logits, write
from safetensors.torch import load_file
from torch import nn

from pretrieve.base.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import Checkpoint, load_tensors, save_encoder
from pretrieve.models.published import read_start
from pretrieve.models.transformer import Layer

# transformers' models -----------------------------------------------------------------------------------------------

MODELS: dict[str, tuple[Callable, str, bool]] = {
    "bert": (lambda: bert_lm(), "bert", True),
    "bert pre-training": (
        lambda: randomised(transformers.BertForPreTraining(transformers.BertConfig(**SMALL))),
        "bert",
        True,
    ),
    "bert alone": (lambda: randomised(transformers.BertModel(transformers.BertConfig(**SMALL))), "", True),
    "roberta": (
        lambda: randomised(
            transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SMALL, type_vocab_size=1, pad_token_id=1))
        ),
        "roberta",
        False,
    ),
    "xlm-roberta": (
        lambda: randomised(
            transformers.XLMRobertaForMaskedLM(
                transformers.XLMRobertaConfig(**SMALL, type_vocab_size=1, pad_token_id=1)
            )
        ),
        "roberta",
        False,
    ),
    "electra": (
        lambda: randomised(transformers.ElectraForPreTraining(transformers.ElectraConfig(**SMALL, embedding_size=16))),
        "electra",
        True,
    ),
    "ernie 2.0": (
        lambda: randomised(
            transformers.ErnieForMaskedLM(
                transformers.ErnieConfig(**SMALL, type_vocab_size=4, use_task_id=True, task_type_vocab_size=16)
            )
        ),
        "ernie",
        True,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(tmp_path: Path, random_packed, name: str) -> None:
    make, base, segments = MODELS[name]
    model = make()
    model.save_pretrained(tmp_path)
    start = read_start(tmp_path)
    assert start.about == {} and start.vocabulary_sha256 is None
    same(
        start,
        getattr(model, base) if base else model,
        random_packed,
        padding=1 if base == "roberta" else 0,
        segments=segments,
    )
    if name in ("electra", "bert alone"):
        assert start.heads == {}
    else:
        states = torch.randn(7, 16, generator=torch.Generator().manual_seed(1))
        head = getattr(model, "lm_head", None) or model.cls.predictions
        with torch.no_grad():
            assert float((word_logits(start, states) - head(states)).abs().max()) <= 1e-5
    # And what we save of it computes the same again.
    encoder = Encoder(start.config, 5, "cls", seed=1)
    load_tensors(encoder.body, start.body, start.path)
    save_encoder(tmp_path / "ours", encoder)
    again = transformers.AutoModel.from_pretrained(tmp_path / "ours").eval()
    same(read_start(tmp_path / "ours"), again, random_packed, padding=1 if base == "roberta" else 0, segments=segments)


@pytest.mark.parametrize("whole", [True, False])
def test_t5(tmp_path: Path, random_packed, whole: bool) -> None:
    """The whole encoder-decoder, or the encoder alone; in half precision, as some are published."""
    config = transformers.T5Config(
        vocab_size=60, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=3, dropout_rate=0.0,
        relative_attention_num_buckets=12, relative_attention_max_distance=10, feed_forward_proj="gated-gelu",
    )  # fmt: skip
    kind = transformers.T5ForConditionalGeneration if whole else transformers.T5EncoderModel
    model = randomised(kind(config)).half()
    assert "encoder.embed_tokens.weight" in model.state_dict()  # the second name of the words, in every .bin
    write(tmp_path, model.state_dict(), config.to_dict())
    start = read_start(tmp_path)
    assert {tensor.dtype for tensor in start.body.values()} == {torch.float32} and start.heads == {}
    same(start, (model.encoder if whole else model).float(), random_packed)


def test_parts_with_an_index(tmp_path: Path, random_packed) -> None:
    model = bert_lm()
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2 and not (tmp_path / "model.safetensors").exists()
    same(read_start(tmp_path), model.bert, random_packed, segments=True)
    next(iter(sorted(tmp_path.glob("model-*.safetensors")))).unlink()
    with pytest.raises(DataError, match=r"model-00001-of-.* missing, which model.safetensors.index.json asks for"):
        read_start(tmp_path)


# BERT of old, Condenser, RetroMAE ------------------------------------------------------------------------------------


def old_names(model: transformers.BertForMaskedLM) -> dict[str, torch.Tensor]:
    """As in BERT's first conversions: gamma and beta, buffers, the pooler, next-sentence prediction, the tied
    matrix."""
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in model.state_dict().items()
    }
    return state | {
        "bert.embeddings.position_ids": torch.arange(22)[None],
        "bert.pooler.dense.weight": torch.ones(16, 16),
        "bert.pooler.dense.bias": torch.ones(16),
        "cls.seq_relationship.weight": torch.ones(2, 16),
        "cls.seq_relationship.bias": torch.ones(2),
        "cls.predictions.decoder.weight": model.bert.embeddings.word_embeddings.weight,
    }


def test_bert_of_old(tmp_path: Path, random_packed, capsys) -> None:
    model = bert_lm()
    config = model.config.to_dict()
    del config["model_type"]  # not yet there
    start = read_start(write(tmp_path, old_names(model), config))
    same(start, model.bert, random_packed, segments=True)
    states = torch.randn(7, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert float((word_logits(start, states) - model.cls.predictions(states)).abs().max()) <= 1e-5
    assert capsys.readouterr().err == ""


def test_a_word_head_with_a_matrix_of_its_own_is_left_out(tmp_path: Path, capsys) -> None:
    state = old_names(bert_lm()) | {"cls.predictions.decoder.weight": torch.ones(60, 16)}
    start = read_start(write(tmp_path, state, bert_lm().config.to_dict()))
    assert start.heads == {} and "the mlm head" in capsys.readouterr().err


def c_head(count: int, index: Callable[[int], str]) -> tuple[list[nn.Module], dict[str, torch.Tensor]]:
    """BERT layers, and their tensors under ``c_head``."""
    config = transformers.BertConfig(**SMALL)
    config._attn_implementation = "eager"
    layers = [randomised(transformers.models.bert.modeling_bert.BertLayer(config), seed=20 + i) for i in range(count)]
    return layers, {f"c_head.{index(i)}{n}": t for i, layer in enumerate(layers) for n, t in layer.state_dict().items()}


def check_layer(state: dict[str, torch.Tensor], start: Checkpoint, reference: nn.Module, random_packed) -> None:
    """Our layer with a head's tensors computes what BERT's layer does."""
    layer = Layer(start.config).eval()
    load_tensors(layer, state, start.path)
    packed = random_packed([9] * 4, 60)
    states = torch.randn(36, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        result = reference(states.view(4, 9, 16), None)
        result = (result[0] if isinstance(result, tuple) else result).reshape(36, 16)
        assert float((layer(states, Batch.of(packed)) - result).abs().max()) <= 1e-5


def test_condenser(tmp_path: Path, random_packed, capsys) -> None:
    """save_pretrained of the encoder, and model.pt with the head and coCondenser's labels."""
    model = bert_lm()
    write(tmp_path, model.state_dict(), model.config.to_dict())
    layers, state = c_head(2, lambda i: f"{i}.")
    torch.save(state | {"co_target": torch.arange(8)}, tmp_path / "model.pt")
    torch.save([argparse.Namespace(skip_from=6)], tmp_path / "args.pt")
    start = read_start(tmp_path)
    same(start, model.bert, random_packed, segments=True)
    assert {name.split(".")[0] for name in start.heads} == {"mlm", "condenser"}
    head = start.head("condenser")
    assert {name.split(".")[1] for name in head} == {"0", "1"}
    for i, reference in enumerate(layers):
        begin = f"layers.{i}."
        check_layer(
            {n.removeprefix(begin): t for n, t in head.items() if n.startswith(begin)}, start, reference, random_packed
        )
    (tmp_path / "model.pt").unlink()  # as on the hub: the encoder alone
    assert not read_start(tmp_path).head("condenser") and read_start(tmp_path).head("mlm")
    assert capsys.readouterr().err == ""


def flag_embedding(directory: Path, model: transformers.BertForMaskedLM) -> list[nn.Module]:
    layers, state = c_head(1, lambda i: "")
    lm = {f"lm.{name}": tensor for name, tensor in model.state_dict().items()}
    again = {f"decoder_embeddings.{n}": t for n, t in model.bert.embeddings.state_dict().items()}
    write(directory, lm | again | state, None)
    write(directory / "encoder_model", {n: t + 1 for n, t in model.state_dict().items()}, model.config.to_dict())
    return layers


def test_flag_embedding(tmp_path: Path, random_packed) -> None:
    """encoder_model/ has the configuration; pytorch_model.bin above it has the encoder once more, and the decoder."""
    model = bert_lm()
    (reference,) = flag_embedding(tmp_path, model)
    start = read_start(tmp_path)
    same(start, model.bert, random_packed, segments=True)
    decoder = start.head("decoder")
    check_layer({n.removeprefix("layers.0."): t for n, t in decoder.items()}, start, reference, random_packed)
    assert start.head("mlm")
    (tmp_path / "pytorch_model.bin").unlink()
    alone = read_start(tmp_path)
    assert not alone.head("decoder") and torch.equal(alone.body["words.weight"], start.body["words.weight"] + 1)


def test_flag_embeddings_names_are_those_of_our_decoder(tmp_path: Path) -> None:
    enhanced = pytest.importorskip("pretrieve.models.enhanced_decoder")
    flag_embedding(tmp_path, bert_lm())
    start = read_start(tmp_path)
    decoder = enhanced.EnhancedDecoder(start.config, normalised_query=True, seed=1)
    load_tensors(decoder, start.head("decoder"), start.path)


# What is refused -----------------------------------------------------------------------------------------------------

WORDS, UP = "bert.embeddings.word_embeddings.weight", "bert.encoder.layer.1.intermediate.dense.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop(UP), r"missing: encoder.layer.1.intermediate.dense.weight$"),
        (
            lambda s: s.update({UP: torch.zeros(24, 15)}),
            r"wrong shape: encoder.layer.1.intermediate.dense.weight: \(24, 15\) instead of \(24, 16\)$",
        ),
        (
            lambda s: s.update({WORDS: torch.zeros(61, 16)}),
            r"wrong shape: .*word_embeddings.weight: \(61, 16\) instead of",
        ),
        (
            lambda s: s.update({"bert.encoder.layer.0.crossattention.self.key.bias": torch.zeros(16)}),
            r"unknown: .*crossatt",
        ),
        (lambda s: s.update({"adapter.down.weight": torch.zeros(1)}), r"unknown: adapter.down.weight$"),
        (lambda s: s.update({"decoder.layers.0.odd.weight": torch.zeros(1)}), r"unknown: decoder.layers.0.odd.weight$"),
        (lambda s: s.update({"c_head.0.odd.weight": torch.zeros(1)}), r"unknown: c_head.0.odd.weight$"),
        (lambda s: s.pop(WORDS), r"unknown encoder.*bert.embeddings.LayerNorm.bias"),
    ],
)
def test_wrong_tensors_are_listed(tmp_path: Path, change, message: str) -> None:
    model = bert_lm()
    state = model.state_dict()
    change(state)
    write(tmp_path, state, model.config.to_dict())
    with pytest.raises(DataError, match=message) as error:
        read_start(tmp_path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "relu"}, "hidden_act='relu' is not supported; supported: gelu"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"is_decoder": True}, "is_decoder=True is not supported; supported: False"),
        ({"model_type": "deberta-v2"}, "model_type='deberta-v2' is not supported; supported: bert, roberta"),
        ({"num_attention_heads": 3}, "hidden=16 is not a multiple of heads=3"),
        ({"vocab_size": 61}, r"word_embeddings.weight: \(60, 16\) instead of \(61, 16\)"),
        # Terabytes: nothing of it is made.
        (
            {"vocab_size": 1 << 24, "hidden_size": 1 << 16},
            r"word_embeddings.weight: \(60, 16\) instead of \(16777216, 65536\)",
        ),
        ({"model_type": "electra", "embedding_size": 8}, "narrow embeddings with embeddings_project"),
    ],
)
def test_other_models_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    model = bert_lm()
    write(tmp_path, model.state_dict(), model.config.to_dict() | change)
    with pytest.raises(DataError, match=message):
        read_start(tmp_path)


def test_t5_1_0_is_refused(tmp_path: Path) -> None:
    config = transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2)
    transformers.T5EncoderModel(config).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="feed_forward_proj='relu' is not supported; supported: gated-gelu"):
        read_start(tmp_path)


def test_files_that_are_none(tmp_path: Path) -> None:
    model = bert_lm()
    with pytest.raises(DataError, match="no such directory or file"):
        read_start(tmp_path / "nowhere")
    (tmp_path / "README.md").write_text("text")
    with pytest.raises(DataError, match=r"no checkpoint; expected model.safetensors, .* found README.md"):
        read_start(tmp_path)
    write(tmp_path, model.state_dict(), None)
    with pytest.raises(DataError, match="config.json is missing, and with it vocab_size, hidden_size"):
        read_start(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        read_start(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(model.config.to_dict()))
    read_start(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes((tmp_path / "pytorch_model.bin").read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read as weights alone"):
        read_start(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(DataError, match=r"model.safetensors: damaged file of weights"):
        read_start(tmp_path)


class Evil:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt"])
def test_no_file_runs_code(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "model"
    write(directory, {}, bert_lm().config.to_dict())
    (directory / "pytorch_model.bin").unlink()
    torch.save({"model": {"x": torch.zeros(1)}, "extra": Evil(tmp_path / "ran")}, directory / name)
    with pytest.raises(DataError, match="cannot be read as weights alone.*keep only its tensors"):
        read_start(directory)
    assert not (tmp_path / "ran").exists()


def test_our_own_directories_are_read(tmp_path: Path) -> None:
    encoder = Encoder(
        read_start(write(tmp_path / "b", bert_lm().state_dict(), bert_lm().config.to_dict())).config,
        5,
        "cls",
        3,
    )
    save_encoder(tmp_path / "own", encoder, about={"seed": 3, "vocabulary_sha256": "abc"})
    start = read_start(tmp_path / "own")
    assert start.about["seed"] == 3 and start.vocabulary_sha256 == "abc"
    assert all(torch.equal(tensor, start.body[name]) for name, tensor in encoder.body.state_dict().items())
    (tmp_path / "own" / "heads.safetensors").unlink()
    with pytest.raises(DataError, match="heads.safetensors missing, which pretrieve.json asks for"):
        read_start(tmp_path / "own")


def test_safetensors_are_taken_before_pickles(tmp_path: Path) -> None:
    model = bert_lm()
    model.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"not looked at")
    found = read_start(tmp_path).body["words.weight"]
    assert torch.equal(found, load_file(tmp_path / "model.safetensors")[WORDS])
