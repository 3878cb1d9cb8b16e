"""Every family of encoders against its own model in transformers: states, saved directories, and back.

Seen to fail when: RoBERTa's positions begin at 0, or its table is saved without the rows of the offset; a single
segment follows the batch's segments; a body without segments is saved without the row of zeros, or keeps it when it is
read; ELECTRA's embedding size is left out; the family is left out of config.json; the LayerNorm's eps is left out; a
text longer than the positions goes through.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from published_files import padded
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import load_encoder, save_encoder
from pretrieve.models.transformer import seeded

#: An eps that shows in the states.
SMALL = {
    "vocabulary_size": 60,
    "hidden": 16,
    "layers": 2,
    "heads": 2,
    "feed_forward": 24,
    "max_positions": 20,
    "dropout": 0.0,
    "layer_norm_eps": 1e-3,
    "std": 0.3,
    "word_std": 0.5,
}
FAMILIES = {
    "bert": BodyConfig(**SMALL),
    "roberta": BodyConfig(**SMALL, family="roberta", position_offset=2, segments=1),
    "seed-encoder": BodyConfig(**SMALL, family="roberta", position_offset=2, segments=0),
    "electra": BodyConfig(**SMALL, family="electra"),
    "ernie": BodyConfig(**SMALL, family="ernie", segments=4),
}
MODELS = {"bert": "BertModel", "electra": "ElectraModel", "ernie": "ErnieModel"}
LENGTHS = np.array([3, 20, 7, 1, 20, 12])


@pytest.fixture
def saved(request, tmp_path: Path) -> tuple[Encoder, Path]:
    """An encoder whose weights are all random, biases and norms included, and its directory."""
    encoder = Encoder(FAMILIES[request.param], 5, "cls", seed=7).eval()
    generator = seeded(5)
    with torch.no_grad():
        for name, parameter in encoder.body.named_parameters():
            parameter.copy_(
                (1.0 if "norm.weight" in name else 0.0) + 0.4 * torch.randn(parameter.shape, generator=generator)
            )
    save_encoder(tmp_path, encoder, about={"trained_projection": True})
    return encoder, tmp_path


@pytest.mark.parametrize("saved", FAMILIES, indirect=True)
def test_auto_model_gives_the_same_states(saved: tuple[Encoder, Path], random_packed) -> None:
    encoder, directory = saved
    config = encoder.config
    theirs = AutoModel.from_pretrained(directory).eval()
    assert type(theirs).__name__ == MODELS.get(config.family, "RobertaModel")
    packed = random_packed(LENGTHS, 60)
    packed = replace(packed, tokens=np.maximum(packed.tokens, 2))  # 1 is RoBERTa's padding, from which it counts
    assert packed.segments.any() and packed.lengths.max() == config.max_positions
    inputs = padded(packed, max(0, config.position_offset - 1), config.segments > 1)
    batch = Batch.of(packed)
    with torch.no_grad():
        expected = theirs(**inputs).last_hidden_state
        states, first = encoder.body(batch), encoder.body(batch, first_only=True)
    assert float(states.abs().mean()) > 0.1
    assert float((states - expected[inputs["attention_mask"].bool()]).abs().max()) <= 1e-5
    assert float((first - expected[:, 0]).abs().max()) <= 1e-5


@pytest.mark.parametrize("saved", FAMILIES, indirect=True)
def test_load_save_load(saved: tuple[Encoder, Path], tmp_path: Path) -> None:
    encoder, directory = saved
    again, _ = load_encoder(directory)
    assert again.config == encoder.config
    assert again.state_dict().keys() == encoder.state_dict().keys()
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in encoder.state_dict().items())
    save_encoder(tmp_path / "again", again, about={"trained_projection": True})
    for name in ("config.json", "pretrieve.json", "model.safetensors", "heads.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (directory / name).read_bytes()


@pytest.mark.parametrize("saved", FAMILIES, indirect=True)
def test_what_transformers_wrote_is_read(saved: tuple[Encoder, Path], tmp_path: Path) -> None:
    encoder, directory = saved
    AutoModel.from_pretrained(directory).save_pretrained(tmp_path / "theirs")
    for name in ("heads.safetensors", "pretrieve.json"):
        (tmp_path / "theirs" / name).write_bytes((directory / name).read_bytes())
    again, _ = load_encoder(tmp_path / "theirs")
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in encoder.state_dict().items())


@pytest.mark.parametrize("saved", ["seed-encoder"], indirect=True)
def test_no_segments_are_a_row_of_zeros_in_the_file_only(saved: tuple[Encoder, Path]) -> None:
    encoder, directory = saved
    row = load_file(directory / "model.safetensors")["embeddings.token_type_embeddings.weight"]
    assert row.shape == (1, 16) and not row.any()
    assert encoder.body.segments is None and not any("segments" in name for name in encoder.state_dict())


@pytest.mark.parametrize("saved", ["roberta"], indirect=True)
def test_positions_of_roberta(saved: tuple[Encoder, Path]) -> None:
    encoder, directory = saved
    shown = json.loads((directory / "config.json").read_text())
    assert (shown["max_position_embeddings"], shown["pad_token_id"], shown["type_vocab_size"]) == (22, 1, 1)
    assert encoder.body.positions.weight.shape == (22, 16)
    assert torch.equal(encoder.body.places(torch.tensor([0, 19])), encoder.body.positions.weight[[2, 21]])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_that_is_too_long(random_packed, family: str) -> None:
    encoder = Encoder(FAMILIES[family], 5, "cls", seed=1)
    encoder(Batch.of(random_packed([20, 3], 60)))
    with pytest.raises(ConfigError, match="a text of 21 tokens, but the body has 20 positions"):
        encoder(Batch.of(random_packed([21, 3], 60)))


def test_unknown_names_in_a_t5_directory(tmp_path: Path) -> None:
    config = BodyConfig(**{**SMALL, "layer_norm_eps": 1e-6}, kind="t5")
    save_encoder(tmp_path, Encoder(config, 5, "mean", seed=1))
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(tensors | {"encoder.block.0.layer.2.odd.weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(
        DataError, match=r"not the encoder of T5; unknown names: \['encoder.block.0.layer.2.odd.weight'\]"
    ):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"family": "albert"}, "family 'albert' is not allowed"),
        ({"family": "roberta"}, "position_offset=0"),
        ({"position_offset": 2}, "family='bert' with position_offset=2"),
        ({"segments": -1}, "segments is -1; expected"),
        ({"kind": "t6"}, "kind 't6' is not allowed"),
        ({"hidden": 15}, "multiple of heads"),
    ],
)
def test_shapes_that_do_not_exist(wrong: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BodyConfig(**{**SMALL, **wrong})
