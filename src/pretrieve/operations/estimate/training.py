"""FLOPs of one training step: of every pre-training objective and every fine-tuning recipe.

What is computed follows from the objectives: logits at masked words only, the last layer where it is read, the
gradient cache's second pass over all micro-batches but one (:mod:`pretrieve.training.step`). Lengths are means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.models.config import BodyConfig
from pretrieve.operations.estimate.flops import (
    TRAINING,
    Rows,
    Texts,
    all_rows,
    body_forward,
    encode,
    first_rows,
    layer,
    masked_rows,
    product,
    word_head,
)
from pretrieve.pretraining.encoder_options import EncoderOptions


@dataclass(frozen=True)
class Step:
    """tokens: that one step reads; flops: of all its matrix products, both ways; texts: how many; gathered: numbers that are
    picked out of the vocabulary and not multiplied (the backward pass of a maximum over the words); frozen: flops where the body
    is only read (:mod:`pretrieve.training.optimiser`)."""

    tokens: float = 0.0
    flops: float = 0.0
    texts: float = 0.0
    gathered: float = 0.0
    frozen: float = 0.0

    def micro_batches(self, budget: float) -> float:
        """How many it is cut into."""
        return max(1.0, -(-self.tokens // budget))


@dataclass(frozen=True)
class CorpusLengths:
    """Mean word pieces of a corpus: of a passage, a sentence, an article (without [CLS] and [SEP])."""

    passage: float
    sentence: float
    article: float


def example_length(options: Mapping[str, Any], length: float, corpus: CorpusLengths) -> float:
    """Mean tokens of a masked example of at most ``length``: a passage that is cut, or sentences of an article until the next
    does not fit, which is half a sentence below the limit on average, or until it is full. Short blocks are half as long."""
    if options.get("examples", "passages") == "passages":
        return min(length, corpus.passage + 2)
    free = corpus.sentence / 2 if options.get("packing", "whole") == "whole" else 0.0
    return max(3.0, min((length - free) * (1 - options.get("short", 0.0) / 2), corpus.article + 2))


def pretraining_step(
    encoder: EncoderOptions, body: BodyConfig, batch: int, corpus: CorpusLengths, budget: float = 65_536
) -> Step:
    """A step of an encoder's objective.

    encoder: of :func:`pretrieve.workflow.job_options.encoder_options`; batch: of its budget; budget: tokens of a micro-batch.

    Raises ConfigError for an objective that this module does not know.
    """
    options = encoder.objective
    name = options["name"]
    if name == "none":
        return Step()
    if name == "pairs":
        return _pairs(encoder, body, batch, corpus, budget)
    if name not in _FORWARD:
        raise ConfigError(
            f"objective {name!r}: its cost is not known; add it to _FORWARD of src/{__name__.replace('.', '/')}.py, as "
            "docs/add-a-method.md shows."
        )
    length = options["span_length"] if name == "cocondenser" else options["length"]
    blocks = {"examples": "blocks"} if name == "cocondenser" else options
    number = 2 * batch if name == "cocondenser" else batch
    texts = Texts.of(number, example_length(blocks, length, corpus))
    masked, read = (masked_rows(texts, options["rate"], first) for first in (False, True))
    flops, gathered = TRAINING * _FORWARD[name](options, body, texts, masked, read), 0.0
    if name == "cocondenser":
        again = _cached(texts.tokens, budget) * body_forward(body, texts, read)
        flops += again + TRAINING * product(number, body.hidden, number)
    if pooled := _pooled(options, texts, masked):  # the maximum's products are only computed forward
        flops -= (TRAINING - 1) * word_head(body, pooled, False)
        gathered = 2 * texts.number * body.vocabulary_size * body.hidden
    return Step(texts.tokens, flops, number, gathered, flops - (TRAINING - 1) * body_forward(body, texts, read))


def _cached(tokens: float, budget: float) -> float:
    """The share of a step that a gradient cache encodes once more."""
    parts = max(1.0, -(-tokens // budget))
    return (parts - 1) / parts


def _pairs(encoder: EncoderOptions, body: BodyConfig, batch: int, corpus: CorpusLengths, budget: float) -> Step:
    options = encoder.objective
    queries = Texts.of(batch, min(options["query_length"], corpus.sentence + 2))
    documents = Texts.of(batch, min(options["passage_length"], corpus.passage + 2))
    forward = sum(encode(body, texts, encoder.pooling, encoder.dim) for texts in (queries, documents))
    tokens = queries.tokens + documents.tokens
    scores = TRAINING * product(batch, encoder.dim, batch)
    again = _cached(tokens, budget) * forward
    return Step(tokens, TRAINING * forward + again + scores, 2 * batch, frozen=forward + again + scores)


# Forward passes of a step. masked: rows of the masked words; read: these, and each text's [CLS].


def _mlm(options: Mapping[str, Any], body: BodyConfig, texts: Texts, masked: Rows, read: Rows) -> float:
    return body_forward(body, texts, masked) + word_head(body, masked.rows)


def _condenser(options: Mapping[str, Any], body: BodyConfig, texts: Texts, masked: Rows, read: Rows) -> float:
    late = options["late_mlm"]
    forward = body_forward(body, texts, read if late else first_rows(texts))
    forward += (options["head_layers"] - 1) * layer(body, texts) + layer(body, texts, masked)
    return forward + (2 if late else 1) * word_head(body, masked.rows)


def _retromae(options: Mapping[str, Any], body: BodyConfig, texts: Texts, masked: Rows, read: Rows) -> float:
    return body_forward(body, texts, read) + word_head(body, masked.rows) + _enhanced_decoder(body, texts)


def _enhanced_decoder(body: BodyConfig, texts: Texts) -> float:
    """One layer that asks at every token but the first and last of each text, and the word head there."""
    inner = Rows(texts.tokens - 2 * texts.number, texts.squares - 2 * texts.tokens)
    return layer(body, texts, inner) + word_head(body, inner.rows)


def _dupmae(options: Mapping[str, Any], body: BodyConfig, texts: Texts, masked: Rows, read: Rows) -> float:
    pooled = _pooled(options, texts, masked)
    forward = body_forward(body, texts, all_rows(texts) if pooled else read) + word_head(body, masked.rows)
    if options["decode"] != "ot":
        forward += _enhanced_decoder(body, texts)
    return forward + word_head(body, pooled, transform=options["bow_head"] == "mlm")


def _pooled(options: Mapping[str, Any], texts: Texts, masked: Rows) -> float:
    """Tokens whose projections to the vocabulary have their maximum taken: DupMAE's bag of words."""
    if options.get("decode", "cls") == "cls":
        return 0.0
    return texts.tokens - texts.number - (masked.rows if options["bow_positions"] == "unmasked" else 0)


def _weak_decoder(options: Mapping[str, Any], body: BodyConfig, texts: Texts, masked: Rows, read: Rows) -> float:
    """SEED-Encoder and Optimus: a causal decoder over all tokens but the last. Its band or triangle is a part of the square that
    is computed. Its single-key cross-attention is a product for each text, and another one, with dropout for each token."""
    forward = body_forward(body, texts, first_rows(texts))
    if options["mlm_weight"] > 0:
        forward = body_forward(body, texts, read) + word_head(body, masked.rows)
    before = Texts(texts.number, texts.tokens - texts.number, texts.squares - 2 * texts.tokens + texts.number)
    crossed = texts.number + (before.tokens if body.dropout else texts.number)
    one = layer(body, before) + product(crossed, body.hidden, body.hidden)
    if options.get("kl_weight"):
        size = body.hidden if options["latent_size"] == "hidden" else options["latent_size"]
        forward += product(texts.number, body.hidden, 2 * size)
        forward += 0 if options["latent_size"] == "hidden" else product(texts.number, size, body.hidden)
    return forward + options["decoder_layers"] * one + word_head(body, before.tokens, transform=False)


_FORWARD = {
    "mlm": _mlm,
    "condenser": _condenser,
    "cocondenser": _condenser,
    "retromae": _retromae,
    "dupmae": _dupmae,
    "seed-encoder": _weak_decoder,
    "optimus": _weak_decoder,
}


def extra_parameters(options: Mapping[str, Any], body: BodyConfig) -> float:
    """What is trained besides the body, roughly: layers of the objective's own, counted by its name."""
    one = 4 * body.hidden**2 + 2 * body.hidden * body.feed_forward
    name = options["name"]
    if name in ("condenser", "cocondenser"):
        return options["head_layers"] * one
    if name in ("seed-encoder", "optimus"):
        return options["decoder_layers"] * (one + 4 * body.hidden**2) + body.max_positions * body.hidden
    words = body.vocabulary_size * body.hidden if options.get("bow_head") == "linear" else 0
    return one + words if name in ("retromae", "dupmae") else 0.0


@dataclass(frozen=True)
class TaskLengths:
    """Mean word pieces of a query and a document as the towers could read them (with [CLS] and [SEP], uncut)."""

    query: float
    document: float


def _vectors(options: Mapping[str, Any], body: BodyConfig, texts: Texts) -> tuple[float, float]:
    """Forward pass of one tower, and of its products with the vocabulary, which only the way there has."""
    if options.get("representation", "dense") == "joint":
        parts, width = options["parts"], options["cls_dim"]
        dense = product(texts.number, body.hidden, width) if parts != "ot" else 0
        rows = first_rows(texts) if parts == "cls" else all_rows(texts)
        words = 0 if parts == "cls" else word_head(body, texts.tokens - texts.number, transform=False)
        return body_forward(body, texts, rows) + dense, words
    return encode(body, texts, options["pooling"], vector_size(options, body), options["head"] != "none"), 0.0


def vector_size(options: Mapping[str, Any], body: BodyConfig) -> int:
    """Numbers of a dense vector."""
    return body.hidden if options["dim"] == "hidden" else options["dim"]


def embedding(options: Mapping[str, Any], body: BodyConfig, texts: Texts) -> float:
    """FLOPs of turning texts into what an index keeps."""
    return sum(_vectors(options, body, texts))


def finetuning_step(
    options: Mapping[str, Any], body: BodyConfig, lengths: TaskLengths, examples: float, budget: float = 65_536
) -> Step:
    """A step of a recipe (:func:`pretrieve.workflow.job_options.recipe_options`) on a task with a number of training examples."""
    batch, kind = min(options["batch"], max(1.0, examples)), options["kind"]
    if kind in ("cross-encoder", "classification"):
        texts = pair_texts(options, body, lengths, batch * options.get("group", 1))
        return Step(texts.tokens, TRAINING * score_pairs(body, texts), texts.number)
    if kind in ("regression", "triplet"):
        number = {"regression": 2, "triplet": 3}[kind] * batch
        texts = Texts.of(number, min(options["passage_length"], lengths.document))
        return Step(texts.tokens, TRAINING * embedding(options, body, texts), texts.number)
    queries = Texts.of(batch, min(options["query_length"], lengths.query))
    documents = document_windows(options, batch * options["group"], lengths.document)
    parts = [_vectors(options, body, texts) for texts in (queries, documents)]
    forward, words = sum(one for one, _ in parts), sum(other for _, other in parts)
    tokens = queries.tokens + documents.tokens
    again = _cached(tokens, budget) if kind == "ranking" else 0.0
    width = body.hidden if not words else options["cls_dim"] + body.vocabulary_size
    scores = TRAINING * product(batch, width, documents.number if options.get("in_batch") else options["group"])
    gathered = 2 * (queries.number + documents.number) * body.vocabulary_size * body.hidden if words else 0.0
    flops = (TRAINING + again) * forward + (1 + again) * words + scores
    return Step(tokens, flops, queries.number + documents.number, gathered)


def pair_texts(options: Mapping[str, Any], body: BodyConfig, lengths: TaskLengths, number: float) -> Texts:
    """What a cross-encoder reads: ``number`` times a query and a document in one text, or a text that it classifies."""
    length = min(options["passage_length"], lengths.document)
    if options.get("kind") != "classification":
        length += min(options["query_length"], lengths.query) - 1
    return Texts.of(number, min(length, body.max_positions))


def score_pairs(body: BodyConfig, texts: Texts) -> float:
    """FLOPs of a cross-encoder's scores: the body at [CLS], its pooler and its classifier."""
    rows = first_rows(texts) if body.kind == "transformer" else all_rows(texts)
    return body_forward(body, texts, rows) + product(texts.number, body.hidden, body.hidden + 1)


def document_windows(options: Mapping[str, Any], documents: float, length: float) -> Texts:
    """What a recipe reads of a number of documents of one length: as many windows as their words fill, at most ``windows``."""
    window = options["passage_length"]
    filled = max(1.0, min(options.get("windows", 1), length / window))
    return Texts.of(documents * filled, min(window, length))
