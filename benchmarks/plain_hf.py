"""The peers of C1 and C2: the five papers' objectives as plainly as transformers' parts allow.

Padded batches, logits at *all* positions, cross-entropy that ignores the labels −100: what the released repositories
do. Attention is torch's fused one, which most of them do not have, so these peers are faster than the originals. Weights
and masks are copied from our objective, so that the losses can be compared: :func:`make` and :func:`batch_of` give a
model and a batch for it, and ``model(**batch)`` a dict of the objective's terms, each a mean.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import common
import torch
from steps import masked_rows, padded_batch
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, BertModel
from transformers.models.bert.modeling_bert import BertLayer

from pretrieve.models.batch import Batch
from pretrieve.models.checkpoint_names import BERT
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import save_encoder, shown_config
from pretrieve.models.sentence_modules import Reading
from pretrieve.models.transformer import Transformer
from pretrieve.retrieval.export import export
from pretrieve.text.vocabulary import SPECIAL_TOKENS
from pretrieve.training.objective import Objective

_HEAD = {"transform": "transform.dense", "norm": "transform.LayerNorm"}


def as_bert(objective: Objective) -> BertForMaskedLM:
    """Body and word head as a BertForMaskedLM."""
    shown = {k: v for k, v in shown_config(objective.body.config).items() if k not in ("architectures", "model_type")}
    model = BertForMaskedLM(BertConfig(**shown))
    state = {f"bert.{name}": tensor.clone() for name, tensor in BERT.theirs(objective.body.state_dict()).items()}
    head = objective.head.state_dict()
    state |= {
        f"cls.predictions.{theirs}.{kind}": head[f"{ours}.{kind}"].clone()
        for ours, theirs in _HEAD.items()
        for kind in ("weight", "bias")
    }
    state["cls.predictions.bias"] = head["bias"].clone()
    missing, extra = model.load_state_dict(state, strict=False)
    if extra or any("decoder" not in name and "position_ids" not in name for name in missing):
        raise SystemExit(f"weights do not fit: missing {missing}, extra {extra}")
    model.tie_weights()
    return model


def as_bert_model(body: Transformer, **settings: object) -> BertModel:
    """The body as a BertModel in evaluation mode; ``settings``: of its BertConfig."""
    shown = {k: v for k, v in shown_config(body.config).items() if k not in ("architectures", "model_type")}
    model = BertModel(BertConfig(**shown, **settings), add_pooling_layer=False).eval()
    missing, extra = model.load_state_dict(BERT.theirs(body.state_dict()), strict=False)
    if extra or any("position_ids" not in name and "token_type_ids" not in name for name in missing):
        raise SystemExit(f"weights do not fit: missing {missing}, extra {extra}")
    return model


def as_sentence_transformer(encoder: Encoder, vocabulary: Path, sha256: str, length: int, **settings: object) -> Any:
    """The encoder in sentence-transformers, as the project exports it; ``sha256``: of the words of ``vocabulary``, a file;
    ``settings``: of the SentenceTransformer. None where that is not installed."""
    library = common.peer("sentence_transformers")
    if library is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        saved, exported = Path(name) / "encoder", Path(name) / "out"
        save_encoder(saved, encoder, about={"trained_projection": True, "vocabulary_sha256": sha256})
        export(saved, vocabulary, exported, Reading(length, length))
        return library.SentenceTransformer(str(exported), local_files_only=True, **settings)


def made_up_vocabulary(folder: Path, size: int) -> Path:
    """A file of the special tokens and of words ``w0``, …"""
    words = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(size - len(SPECIAL_TOKENS)))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return folder / "vocab.txt"


def bert_layers(config: BertConfig, layers: nn.ModuleList) -> nn.ModuleList:
    """Our layers as BertLayers."""
    state = BERT.theirs({f"layers.{name}": tensor.clone() for name, tensor in layers.state_dict().items()})
    result = nn.ModuleList(BertLayer(config) for _ in layers)
    result.load_state_dict({name.removeprefix("encoder.layer."): tensor for name, tensor in state.items()})
    return result


def everywhere(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over the labels that are not −100."""
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class PlainMlm(nn.Module):
    """The base of all: a BertForMaskedLM."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.lm = as_bert(objective)

    def encode(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Embeddings and every layer's output, (n, L, d) each."""
        return self.lm.bert(input_ids, attention_mask=attention_mask, output_hidden_states=True).hidden_states

    def forward(self, input_ids, attention_mask, labels, **_: Any) -> dict[str, torch.Tensor]:
        return {"mlm": everywhere(self.lm.cls(self.encode(input_ids, attention_mask)[-1]), labels)}


class PlainCondenser(PlainMlm):
    """Condenser, modeling.py:38-82: logits at all positions behind the head, and behind the last layer."""

    def __init__(self, objective: Objective) -> None:
        super().__init__(objective)
        self.skip_layer = objective.condenser.skip_layer
        self.head = bert_layers(self.lm.config, objective.condenser.layers)

    def forward(self, input_ids, attention_mask, labels, **_: Any) -> dict[str, torch.Tensor]:
        states = self.encode(input_ids, attention_mask)
        x = torch.cat([states[-1][:, :1], states[self.skip_layer][:, 1:]], dim=1)
        mask = attention_mask[:, None, None, :].bool()
        for layer in self.head:
            x = layer(x, mask)
        return {"head": everywhere(self.lm.cls(x), labels), "mlm": everywhere(self.lm.cls(states[-1]), labels)}


class PlainRetroMae(PlainMlm):
    """RetroMAE, modeling.py:40-72; the masks of the decoder's rows are ready-made."""

    def __init__(self, objective: Objective) -> None:
        super().__init__(objective)
        self.normalised_query = objective.reconstruction.decoder.normalised_query
        self.decoder = bert_layers(self.lm.config, objective.reconstruction.decoder.layers)[0]

    def reconstruct(self, cls: torch.Tensor, original: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        """Logits (n, L, V) of the decoder."""
        tables, layer = self.lm.bert.embeddings, self.decoder
        context = torch.cat([cls[:, None], tables(input_ids=original)[:, 1:]], dim=1)
        n, length, hidden = context.shape
        query = cls[:, None] + tables.position_embeddings.weight[:length]
        if self.normalised_query:
            query = tables.dropout(tables.LayerNorm(query + tables.token_type_embeddings.weight[0]))
        attention = layer.attention.self

        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.view(n, length, attention.num_attention_heads, -1).transpose(1, 2)

        mixed = functional.scaled_dot_product_attention(
            heads(attention.query(query)),
            heads(attention.key(context)),
            heads(attention.value(context)),
            visible,
            attention.dropout.p if self.training else 0.0,
        )
        x = layer.attention.output(mixed.transpose(1, 2).reshape(n, length, hidden), query)
        return self.lm.cls(layer.output(layer.intermediate(x), x))

    def terms(self, logits: torch.Tensor, cls: torch.Tensor, labels, original, decoder_labels, visible) -> dict:
        return {
            "mlm": everywhere(logits, labels),
            "decoder": everywhere(self.reconstruct(cls, original, visible), decoder_labels),
        }

    def forward(self, input_ids, attention_mask, labels, original, decoder_labels, visible, **_: Any) -> dict:
        state = self.encode(input_ids, attention_mask)[-1]
        return self.terms(self.lm.cls(state), state[:, 0], labels, original, decoder_labels, visible)


class PlainDupMae(PlainRetroMae):
    """DupMAE, modeling_duplex.py:31-85: the bag of words from the MLM's logits, padding pushed down by 1000."""

    def forward(
        self, input_ids, attention_mask, labels, original, decoder_labels, visible, bag_weight, **_: Any
    ) -> dict:
        state = self.encode(input_ids, attention_mask)[-1]
        logits = self.lm.cls(state)
        terms = self.terms(logits, state[:, 0], labels, original, decoder_labels, visible)
        pooled = (logits[:, 1:] + (1.0 - attention_mask[:, 1:, None].float()) * -1000.0).amax(1)
        bow = -(bag_weight * functional.log_softmax(pooled, dim=-1)).sum(1).mean()
        return terms | {"bow": bow}


class PlainDecoderLayer(nn.Module):
    """fairseq's pre-LN decoder layer with cross-attention to one vector, computed as such."""

    def __init__(self, config: BertConfig, layer: nn.Module) -> None:
        super().__init__()
        self.heads, self.p, hidden = config.num_attention_heads, config.hidden_dropout_prob, config.hidden_size
        self.own = layer.state_dict()
        qkv, bias = (part.chunk(3) for part in (self.own["attention.qkv.weight"], self.own["attention.qkv.bias"]))
        state = {f"self_{n}.weight": w for n, w in zip("qkv", qkv, strict=True)}
        state |= {f"self_{n}.bias": b for n, b in zip("qkv", bias, strict=True)}
        names = {"attention.output": "self_out", "cross.query": "cross_q", "cross.key": "cross_k"}
        names |= {"cross.value": "cross_v", "cross.output": "cross_out", "up": "up", "down": "down"}
        names |= {"attention_norm": "norm_self", "cross_norm": "norm_cross", "output_norm": "norm_out"}
        for ours, theirs in names.items():
            state |= {f"{theirs}.{kind}": self.own[f"{ours}.{kind}"] for kind in ("weight", "bias")}
        del self.own
        for name in ("self_q", "self_k", "self_v", "self_out", "cross_q", "cross_k", "cross_v", "cross_out"):
            setattr(self, name, nn.Linear(hidden, hidden))
        self.up, self.down = (
            nn.Linear(hidden, config.intermediate_size),
            nn.Linear(config.intermediate_size, hidden),
        )
        self.norm_self, self.norm_cross, self.norm_out = (
            nn.LayerNorm(hidden, eps=config.layer_norm_eps) for _ in range(3)
        )
        self.load_state_dict({name: tensor.clone() for name, tensor in state.items()})

    def attend(self, query, key, value, mask) -> torch.Tensor:
        n, length, hidden = query.shape
        streams = (x.view(n, -1, self.heads, hidden // self.heads).transpose(1, 2) for x in (query, key, value))
        mixed = functional.scaled_dot_product_attention(*streams, mask, self.p if self.training else 0.0)
        return mixed.transpose(1, 2).reshape(n, length, hidden)

    def forward(self, x: torch.Tensor, vector: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def drop(y: torch.Tensor) -> torch.Tensor:
            return functional.dropout(y, self.p, self.training)

        y = self.norm_self(x)
        x = x + drop(self.self_out(self.attend(self.self_q(y), self.self_k(y), self.self_v(y), mask)))
        y = self.norm_cross(x)
        mixed = self.attend(self.cross_q(y), self.cross_k(vector), self.cross_v(vector), None)
        x = x + drop(self.cross_out(mixed))
        return x + drop(self.down(functional.gelu(self.up(self.norm_out(x)))))


class PlainSeedEncoder(PlainMlm):
    """SEED-Encoder: the decoder reads the padded text, shifted; its restricted attention is a mask."""

    def __init__(self, objective: Objective) -> None:
        super().__init__(objective)
        decoder = objective.decoder
        self.span, self.p = decoder.span, self.lm.config.hidden_dropout_prob
        self.layers = nn.ModuleList(PlainDecoderLayer(self.lm.config, layer) for layer in decoder.layers)
        self.positions = nn.Embedding.from_pretrained(decoder.positions.weight.detach().clone(), freeze=False)
        self.norm, self.final = (
            nn.LayerNorm(self.lm.config.hidden_size, eps=self.lm.config.layer_norm_eps) for _ in range(2)
        )
        self.norm.load_state_dict(decoder.embedding_norm.state_dict())
        self.final.load_state_dict(decoder.final_norm.state_dict())

    def forward(self, input_ids, attention_mask, labels, original, next_labels, **_: Any) -> dict:
        state = self.encode(input_ids, attention_mask)[-1]
        words = self.lm.bert.embeddings.word_embeddings
        length = original.shape[1]
        row, column = torch.arange(length)[:, None], torch.arange(length)[None]
        mask = column <= row
        if self.span != "all":
            mask &= (column > row - self.span) | (column == 0)
        x = self.norm(words(original) + self.positions.weight[:length])
        x = functional.dropout(x, self.p, self.training)
        for layer in self.layers:
            x = layer(x, state[:, :1], mask)
        logits = functional.linear(self.final(x), words.weight)
        return {"mlm": everywhere(self.lm.cls(state), labels), "decoder": everywhere(logits, next_labels)}


MODELS = {
    "mlm": PlainMlm,
    "condenser": PlainCondenser,
    "retromae": PlainRetroMae,
    "dupmae": PlainDupMae,
    "seed-encoder": PlainSeedEncoder,
}


def make(name: str, objective: Objective) -> nn.Module:
    """The plain model with the weights of our objective."""
    return MODELS[name](objective)


def batch_of(name: str, objective: Objective, step: int) -> dict[str, torch.Tensor]:
    """Our batch of a step, padded, with everything that the plain model takes."""
    batch = padded_batch(masked_rows(objective, step))
    mask, original = batch["attention_mask"].bool(), batch["original"]
    n, length = mask.shape
    last = torch.zeros_like(mask)
    last[torch.arange(n), mask.sum(1) - 1] = True
    inner = mask & ~last
    inner[:, 0] = False
    if name == "seed-encoder":
        following = original.roll(-1, dims=1)
        batch["next_labels"] = following.masked_fill(~mask | last, -100)
    if name in ("retromae", "dupmae"):
        batch["decoder_labels"] = original.masked_fill(~inner, -100)
        (masked, _), visible = objective.examples.draw(step), torch.zeros(n, 1, length, length, dtype=torch.bool)
        packed = Batch.of(masked.corrupted)
        of = objective.reconstruction
        parts = of.masks.of(masked.corrupted, masked.original, masked.draws, of.store, packed)
        for (first, after, _, _, longest, _), part in zip(packed.groups, parts, strict=True):
            visible[first:after, :, :longest, :longest] = part
        visible[:, :, :, 0] = True  # rows of padding, and row 0, which predict nothing, see something
        batch["visible"] = visible
    if name == "dupmae":
        weight = torch.zeros(n, objective.body.config.vocabulary_size)
        weight.scatter_(1, torch.where(inner, original, 0), 1.0)
        weight[:, 0] = 0
        batch["bag_weight"] = weight / inner.sum(1, keepdim=True)
    return batch


def weighted(objective: Objective) -> Any:
    """The total loss of a plain model, with the weights of our terms."""
    weights = dict(objective.terms)

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return sum(weights[term] * value for term, value in model(**batch).items())

    return loss
