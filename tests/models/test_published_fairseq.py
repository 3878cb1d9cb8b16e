"""fairseq's files: SEED-Encoder as it was pre-trained, fine-tuned, and renamed; RoBERTa as of 2019. The names are
written out by hand, and transformers' RoBERTa computes what is expected.

SEEN
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
import torch
import transformers
from published_files import SMALL, randomised, same, word_logits, write

from pretrieve.base.errors import DataError
from pretrieve.models.decoder import Decoder
from pretrieve.models.hf_format import load_tensors
from pretrieve.models.published import read_start


def fairseq_model(seed: int = 4) -> tuple[transformers.RobertaForMaskedLM, dict[str, torch.Tensor]]:
    """RoBERTa without segments, and its tensors under the names of TransformerSentenceEncoder; heads are 64 wide."""
    shape = SMALL | {"hidden_size": 128, "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1}
    model = randomised(transformers.RobertaForMaskedLM(transformers.RobertaConfig(**shape)), seed, std=0.1)
    with torch.no_grad():
        model.roberta.embeddings.token_type_embeddings.weight.zero_()
    body, state = model.roberta, {}
    state["embed_tokens.weight"] = body.embeddings.word_embeddings.weight
    state["embed_positions.weight"] = body.embeddings.position_embeddings.weight
    pairs = {"emb_layer_norm": body.embeddings.LayerNorm}
    for i, layer in enumerate(body.encoder.layer):
        pairs |= {
            f"layers.{i}.self_attn.q_proj": layer.attention.self.query,
            f"layers.{i}.self_attn.k_proj": layer.attention.self.key,
            f"layers.{i}.self_attn.v_proj": layer.attention.self.value,
            f"layers.{i}.self_attn.out_proj": layer.attention.output.dense,
            f"layers.{i}.self_attn_layer_norm": layer.attention.output.LayerNorm,
            f"layers.{i}.fc1": layer.intermediate.dense,
            f"layers.{i}.fc2": layer.output.dense,
            f"layers.{i}.final_layer_norm": layer.output.LayerNorm,
        }
    for name, module in pairs.items():
        state |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
    return model, {name: tensor.detach() for name, tensor in state.items()}


def lm_head(model: transformers.RobertaForMaskedLM) -> dict[str, torch.Tensor]:
    head = model.lm_head
    return {
        "lm_head.weight": model.roberta.embeddings.word_embeddings.weight,
        "lm_head.bias": head.bias,
        "lm_head.dense.weight": head.dense.weight,
        "lm_head.dense.bias": head.dense.bias,
        "lm_head.layer_norm.weight": head.layer_norm.weight,
        "lm_head.layer_norm.bias": head.layer_norm.bias,
    }


def seed_decoder(words: torch.Tensor, layers: int) -> dict[str, torch.Tensor]:
    """fairseq's TransformerDecoder, by its names."""
    generator = torch.Generator().manual_seed(6)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    state = {
        "version": torch.tensor([3.0]),
        "embed_tokens.weight": words,
        "output_projection.weight": words,
        "embed_positions.weight": draw(22, 128),
    }
    norms = ["layernorm_embedding", "layer_norm"]
    for i in range(layers):
        for block in ("self_attn", "encoder_attn"):
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                state[f"layers.{i}.{block}.{part}.weight"] = draw(128, 128)
                state[f"layers.{i}.{block}.{part}.bias"] = draw(128)
        state[f"layers.{i}.fc1.weight"], state[f"layers.{i}.fc1.bias"] = draw(24, 128), draw(24)
        state[f"layers.{i}.fc2.weight"], state[f"layers.{i}.fc2.bias"] = draw(128, 24), draw(128)
        norms += [f"layers.{i}.{n}_layer_norm" for n in ("self_attn", "encoder_attn", "final")]
    for norm in norms:
        state[f"{norm}.weight"], state[f"{norm}.bias"] = draw(128), draw(128)
    return state


def seed_file(path: Path, **more: torch.Tensor) -> tuple[transformers.RobertaForMaskedLM, dict[str, torch.Tensor]]:
    model, body = fairseq_model()
    state = {f"encoder.sentence_encoder.{n}": t for n, t in body.items()}
    state |= {f"encoder.{n}": t for n, t in lm_head(model).items()}
    state |= {f"decoder.{n}": t for n, t in seed_decoder(body["embed_tokens.weight"], 3).items()}
    options = argparse.Namespace(encoder_attention_heads=2, dropout=0.25, activation_fn="gelu", arch="roberta_decode")
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"args": options, "model": state | more, "extra_state": {"epoch": 3}, "optimizer_history": []}, path)
    return model, state


def test_seed_encoder(tmp_path: Path, random_packed) -> None:
    """The pre-trained file: encoder, word head and decoder; its shape is in its tensors."""
    model, state = seed_file(tmp_path / "SEED-Encoder-3-decoder-2-attn.pt")
    start = read_start(tmp_path)
    config = start.config
    assert (config.vocabulary_size, config.hidden, config.layers, config.heads, config.feed_forward) == (
        60,
        128,
        2,
        2,
        24,
    )
    assert (config.max_positions, config.position_offset, config.segments, config.family) == (20, 2, 0, "roberta")
    assert (config.dropout, config.layer_norm_eps) == (0.25, 1e-5)
    same(start, model.roberta, random_packed, padding=1)
    states = torch.randn(7, 128, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert float((word_logits(start, states) - model.lm_head(states)).abs().max()) <= 1e-4
    decoder = Decoder(config, layers=3, span=2, seed=1)
    load_tensors(decoder, start.head("decoder"), start.path)
    # The first position that counts is row 2 of the published table.
    assert torch.equal(decoder.positions.weight, state["decoder.embed_positions.weight"][2:])
    first, published = decoder.layers[0], "decoder.layers.0."
    assert torch.equal(first.cross.value.weight, state[published + "encoder_attn.v_proj.weight"])
    assert torch.equal(first.cross.output.bias, state[published + "encoder_attn.out_proj.bias"])
    assert torch.equal(first.cross_norm.weight, state[published + "encoder_attn_layer_norm.weight"])
    assert torch.equal(first.attention.qkv.weight[128:256], state[published + "self_attn.k_proj.weight"])
    assert torch.equal(first.output_norm.bias, state[published + "final_layer_norm.bias"])
    assert torch.equal(decoder.final_norm.weight, state["decoder.layer_norm.weight"])
    assert torch.equal(decoder.embedding_norm.weight, state["decoder.layernorm_embedding.weight"])
    # The file itself, too; and beside another, only that.
    assert torch.equal(
        read_start(tmp_path / "SEED-Encoder-3-decoder-2-attn.pt").body["words.weight"], start.body["words.weight"]
    )
    seed_file(tmp_path / "another.pt")
    with pytest.raises(DataError, match=r"2 checkpoints \(SEED-Encoder-3-decoder-2-attn.pt, another.pt\); name one"):
        read_start(tmp_path)


def test_fine_tuned_seed_encoder(tmp_path: Path, random_packed, capsys) -> None:
    model, body = fairseq_model()
    state = {f"module.encoder.{n}": t for n, t in body.items()}
    more = {
        "embeddingHead.weight": (128, 128),
        "embeddingHead.bias": (128,),
        "norm.weight": (128,),
        "norm.bias": (128,),
    }
    state |= {f"module.{n}": torch.ones(shape) for n, shape in more.items()}
    torch.save(state, tmp_path / "pass-440000.pt")
    start = read_start(tmp_path)
    same(start, model.roberta, random_packed, padding=1)
    assert start.heads == {}
    told = capsys.readouterr().err
    assert "left out" in told and all(name in told for name in more)


def test_seed_encoder_in_the_style_of_transformers(tmp_path: Path, random_packed) -> None:
    model, body = fairseq_model()
    state = {f"seed_encoder.encoder.sentence_encoder.{n}": t for n, t in body.items()}
    state |= {"classification_heads.dense.weight": torch.ones(2, 2)} | lm_head(model)
    config = {"architectures": ["SEEDEncoderForMaskedLM"], "encoder_attention_heads": 2, "activation_fn": "gelu"}
    start = read_start(write(tmp_path, state, config))
    same(start, model.roberta, random_packed, padding=1)
    assert {name.split(".")[0] for name in start.heads} == {"mlm"}


def test_fairseqs_roberta_of_2019(tmp_path: Path, random_packed) -> None:
    """``decoder.sentence_encoder``, and query, key and value in one matrix."""
    model, body = fairseq_model()
    state = {}
    for name, tensor in body.items():
        part = re.fullmatch(r"(layers\.\d\.self_attn)\.q_proj\.(weight|bias)", name)
        if part:
            joint = [body[f"{part[1]}.{p}_proj.{part[2]}"] for p in "qkv"]
            state[f"decoder.sentence_encoder.{part[1]}.in_proj_{part[2]}"] = torch.cat(joint)
        elif not re.search(r"[kv]_proj", name):
            state[f"decoder.sentence_encoder.{name}"] = tensor
    state |= {f"decoder.{n}": t for n, t in lm_head(model).items()}
    torch.save({"model": state}, tmp_path / "model.pt")
    start = read_start(tmp_path)
    same(start, model.roberta, random_packed, padding=1)
    assert start.head("mlm") and start.config.heads == 2  # 128 / 64
