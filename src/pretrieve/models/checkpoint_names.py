"""Parameter names: ours, and those under which encoders are published.

Three libraries name an encoder's tensors. A :class:`Names` table says how each of them calls ours, and translates both
ways; the joint query-key-value matrix of this project is taken apart and put together on the way.

================  ==================================  ========================  ===============================
ours (layer N)    BERT (transformers)                 FAIRSEQ                   T5 (transformers)
================  ==================================  ========================  ===============================
words             embeddings.word_embeddings          embed_tokens              shared
attention.qkv     attention.self.{query, key, value}  self_attn.{q, k, v}_proj  layer.0.SelfAttention.{q, k, v}
attention.output  attention.output.dense              self_attn.out_proj        layer.0.SelfAttention.o
attention_norm    attention.output.LayerNorm          self_attn_layer_norm      layer.0.layer_norm
gate                                                                            layer.1.DenseReluDense.wi_0
up                intermediate.dense                  fc1                       layer.1.DenseReluDense.wi_1
down              output.dense                        fc2                       layer.1.DenseReluDense.wo
output_norm       output.LayerNorm                    final_layer_norm          layer.1.layer_norm
================  ==================================  ========================  ===============================

``FAIRSEQ_DECODER`` is SEED-Encoder's decoder, of :mod:`pretrieve.models.decoder`.

Sources: transformers (BertModel, T5EncoderModel); fairseq 0.10 TransformerSentenceEncoder, as
microsoft/SEED-Encoder@ececaa9 has it in model/SEED_Encoder/transformer_sentence_encoder.py. RoBERTa, ELECTRA and ERNIE
have BERT's names in transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pretrieve.base.errors import DataError


@dataclass(frozen=True)
class Names:
    """How a library names an encoder.

    top: our whole name → theirs; layer: our module in a layer → theirs; ``layer_prefix`` stands before a layer's
    number; ``attention`` before the three names ``parts`` of query, key and value.
    """

    top: dict[str, str]
    layer: dict[str, str]
    layer_prefix: str
    attention: str
    parts: tuple[str, str, str]

    def theirs(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Our state → their names."""
        result = {}
        for name, tensor in state.items():
            if name in self.top:
                result[self.top[name]] = tensor
                continue
            _, index, rest = name.split(".", 2)
            module, _, kind = rest.rpartition(".")
            prefix = f"{self.layer_prefix}{index}."
            if module == "attention.qkv":
                for part, piece in zip(self.parts, tensor.chunk(3), strict=True):
                    result[f"{prefix}{self.attention}{part}.{kind}"] = piece.contiguous()
            else:
                result[f"{prefix}{self.layer[module]}.{kind}"] = tensor
        return result

    def ours(self, state: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[str]]:
        """Their state → our names, and the names that the table does not know.

        Raises DataError when a layer lacks its query, key or value.
        """
        top = {theirs: ours for ours, theirs in self.top.items()}
        layer = {theirs: ours for ours, theirs in self.layer.items()}
        result, parts, unknown = {}, {}, []
        for name, tensor in state.items():
            if name in top:
                result[top[name]] = tensor
                continue
            index, _, rest = name.removeprefix(self.layer_prefix).partition(".")
            module, _, kind = rest.rpartition(".")
            part = module.removeprefix(self.attention)
            if not name.startswith(self.layer_prefix) or not index.isdigit():
                unknown.append(name)
            elif module in layer:
                result[f"layers.{index}.{layer[module]}.{kind}"] = tensor
            elif module.startswith(self.attention) and part in self.parts:
                parts.setdefault((index, kind), {})[part] = tensor
            else:
                unknown.append(name)
        for (index, kind), found in parts.items():
            missing = [part for part in self.parts if part not in found]
            if missing:
                raise DataError(f"layer {index} has no {self.attention}{missing} {kind}; the checkpoint is incomplete.")
            result[f"layers.{index}.attention.qkv.{kind}"] = torch.cat([found[part] for part in self.parts])
        return result, unknown


BERT = Names(
    top={
        "words.weight": "embeddings.word_embeddings.weight",
        "positions.weight": "embeddings.position_embeddings.weight",
        "segments.weight": "embeddings.token_type_embeddings.weight",
        "embedding_norm.weight": "embeddings.LayerNorm.weight",
        "embedding_norm.bias": "embeddings.LayerNorm.bias",
    },
    layer={
        "attention.output": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "output_norm": "output.LayerNorm",
    },
    layer_prefix="encoder.layer.",
    attention="attention.self.",
    parts=("query", "key", "value"),
)
#: A list of BERT layers by themselves: Condenser's ``c_head``.
BERT_LAYERS = replace(BERT, top={}, layer_prefix="")

FAIRSEQ = Names(
    top={
        "words.weight": "embed_tokens.weight",
        "positions.weight": "embed_positions.weight",
        "embedding_norm.weight": "emb_layer_norm.weight",
        "embedding_norm.bias": "emb_layer_norm.bias",
    },
    layer={
        "attention.output": "self_attn.out_proj",
        "attention_norm": "self_attn_layer_norm",
        "up": "fc1",
        "down": "fc2",
        "output_norm": "final_layer_norm",
    },
    layer_prefix="layers.",
    attention="self_attn.",
    parts=("q_proj", "k_proj", "v_proj"),
)
FAIRSEQ_DECODER = replace(
    FAIRSEQ,
    top={
        "positions.weight": "embed_positions.weight",
        "embedding_norm.weight": "layernorm_embedding.weight",
        "embedding_norm.bias": "layernorm_embedding.bias",
        "final_norm.weight": "layer_norm.weight",
        "final_norm.bias": "layer_norm.bias",
    },
    layer=FAIRSEQ.layer
    | {
        "cross.query": "encoder_attn.q_proj",
        "cross.key": "encoder_attn.k_proj",
        "cross.value": "encoder_attn.v_proj",
        "cross.output": "encoder_attn.out_proj",
        "cross_norm": "encoder_attn_layer_norm",
    },
)

T5 = Names(
    top={
        "words.weight": "shared.weight",
        "distances.weight": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "norm.weight": "encoder.final_layer_norm.weight",
    },
    layer={
        "attention.output": "layer.0.SelfAttention.o",
        "attention_norm": "layer.0.layer_norm",
        "gate": "layer.1.DenseReluDense.wi_0",
        "up": "layer.1.DenseReluDense.wi_1",
        "down": "layer.1.DenseReluDense.wo",
        "output_norm": "layer.1.layer_norm",
    },
    layer_prefix="encoder.block.",
    attention="layer.0.SelfAttention.",
    parts=("q", "k", "v"),
)
