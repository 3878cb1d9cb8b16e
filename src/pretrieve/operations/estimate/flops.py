"""FLOPs of a text encoder: the matrix products of its parts, from sizes alone.

A product of (m, k) and (k, n) is ``2·m·k·n``; nothing else is counted. So count Kaplan et al. 2020 (*Scaling Laws for Neural
Language Models*, §2.1, table 1) and ``torch.utils.flop_counter``, which a test compares. With T tokens in all, Σ l² over the
lengths of the texts, and for the rows whose states are read (R of them, S = Σ over these of the length of their text), a layer of
width d and feed-forward width f has

    keys, values         2·T·2d²
    queries, output      2·R·2d²
    attention            2·S·d·2        (Q·Kᵀ and its product with V)
    feed-forward         2·R·2df        (T5: 3 matrices)

R = T and S = Σ l² in every layer but perhaps the last, which is computed where it is read (:mod:`pretrieve.models.batch`).
The backward pass costs twice as much, for each product has two factors (Kaplan et al.: backward = 2 × forward).
"""

from typing import NamedTuple, Self

from pretrieve.models.config import BodyConfig

#: Forward and backward pass over the forward pass.
TRAINING = 3


class Texts(NamedTuple):
    """number: of texts; tokens: of all of them; squares: sum of the squares of their lengths. Means, so not whole numbers."""

    number: float
    tokens: float
    squares: float

    @classmethod
    def of(cls, number: float, length: float) -> Self:
        """``number`` texts of one length."""
        return cls(number, number * length, number * length**2)


class Rows(NamedTuple):
    """rows: tokens whose states are read; seen: sum over them of the length of their text."""

    rows: float
    seen: float


def all_rows(texts: Texts) -> Rows:
    """Every token."""
    return Rows(texts.tokens, texts.squares)


def first_rows(texts: Texts) -> Rows:
    """The first token of each text."""
    return Rows(texts.number, texts.tokens)


def masked_rows(texts: Texts, share: float, first: bool = False) -> Rows:
    """A share of the tokens, and with ``first`` each text's [CLS], which is never masked."""
    more = first_rows(texts) if first else Rows(0, 0)
    return Rows(share * texts.tokens + more.rows, share * texts.squares + more.seen)


def product(rows: float, inside: float, columns: float) -> float:
    """(rows, inside) times (inside, columns)."""
    return 2 * rows * inside * columns


def layer(body: BodyConfig, texts: Texts, rows: Rows | None = None) -> float:
    """Forward pass of one layer; ``rows``: those it is computed for (all)."""
    rows = rows or all_rows(texts)
    hidden, inner = body.hidden, _inner(body)
    asked = texts.tokens if body.kind == "t5" else rows.rows
    return (
        product(texts.tokens, hidden, 2 * inner)
        + product(asked, hidden, inner)
        + product(rows.rows, inner, hidden)
        + 2 * product(rows.seen, inner, 1)
        + _matrices(body) * product(rows.rows, hidden, body.feed_forward)
    )


def _matrices(body: BodyConfig) -> int:
    """Matrices of a feed-forward part; T5's has a gate."""
    return 3 if body.kind == "t5" else 2


def _inner(body: BodyConfig) -> int:
    """Numbers of a query, of all heads together."""
    return body.heads * body.head_size if body.kind == "t5" and body.head_size else body.hidden


def body_forward(body: BodyConfig, texts: Texts, rows: Rows | None = None) -> float:
    """Forward pass of a body; ``rows``: those that the last layer is computed for (all)."""
    if body.kind == "bow-mlp":
        return 2 * product(texts.number, body.hidden, body.feed_forward)
    return (body.layers - 1) * layer(body, texts) + layer(body, texts, rows)


def word_head(body: BodyConfig, rows: float, transform: bool = True) -> float:
    """Forward pass of a head over the vocabulary, at some rows; ``transform``: with BERT's dense layer before it."""
    return product(rows, body.hidden, body.vocabulary_size + (body.hidden if transform else 0))


def encode(body: BodyConfig, texts: Texts, pooling: str, dim: float, head: bool = True) -> float:
    """Forward pass from texts to vectors of ``dim`` numbers; head: with a linear layer at the end."""
    rows = first_rows(texts) if pooling == "cls" else all_rows(texts)
    return body_forward(body, texts, rows) + (product(texts.number, body.hidden, dim) if head else 0)


def parameters(body: BodyConfig) -> int:
    """Numbers in a body's matrices and tables; biases and norms, about one in a thousand, are not counted."""
    words = body.vocabulary_size * body.hidden
    if body.kind == "bow-mlp":
        return words + 2 * body.hidden * body.feed_forward
    places = 0 if body.kind == "t5" else body.max_positions + body.segments
    return words + body.hidden * (places + body.layers * (4 * _inner(body) + _matrices(body) * body.feed_forward))
