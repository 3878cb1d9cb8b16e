"""Pre-training objectives as torch modules, for a training loop of one's own, the vocabulary and the store of texts that they
read, and the files of the encoder."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.base.given import given_number, given_texts
from pretrieve.models import hf_format
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective, pair_task
from pretrieve.pretraining.presets import resolve
from pretrieve.text import vocabulary
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.training.objective import ContrastiveObjective, Objective


def train_wordpiece(texts: Iterable[str], size: int, min_frequency: int = 2) -> Tokenizer:
    """Train a WordPiece vocabulary of at most ``size`` entries; the same texts give the same vocabulary, in any order.

    Raises
    ------
    ConfigError
        when one text is given in place of several, or a number is no whole one or too small.
    DataError
        when one of them is no text, or not UTF-8.
    """
    if isinstance(texts, str):
        raise ConfigError(f"train_wordpiece: one text, {texts[:40]!r}; expected several.")
    checked = (text for n, one in enumerate(texts) for text in given_texts([one], f"texts[{n}:]"))
    least = len(vocabulary.SPECIAL_TOKENS) + 1
    return vocabulary.train_wordpiece(
        checked, given_number(size, "size", least), given_number(min_frequency, "min_frequency")
    )


def token_store(
    directory: Path | str,
    tokenizer: Tokenizer,
    documents: Sequence[Iterable[Sequence[str]]],
    titles: Sequence[str] | None = None,
) -> TokenStore:
    """Write documents as a token store. A document is a list of passages, a passage a list of sentences; titles: one for each
    document, which ICT puts in front of its passages. Blank sentences are left out: they would become queries of ICT.

    Raises
    ------
    ConfigError
        when there are more or fewer titles than documents, or one text is given in place of a list.
    DataError
        when a sentence or a title is no text, or not UTF-8.
    """
    titles = [""] * len(documents) if titles is None else given_texts(titles, "titles")
    if len(titles) != len(documents):
        raise ConfigError(f"token_store: {len(titles)} titles for {len(documents)} documents; give one each, or none.")
    texts = (
        PassageText(kept, n, n)
        for n, passages in enumerate(documents)
        for sentences in passages
        if (kept := [s for s in given_texts(sentences, f"sentences in a passage of document {n}") if s.strip()])
    )
    return write_token_store(Path(directory), tokenizer, texts, titles)


def save_encoder(
    directory: Path | str, encoder: Encoder, tokenizer: Tokenizer, heads: Mapping[str, nn.Module] | None = None
) -> None:
    """Write an encoder, its projection included, for :func:`pretrieve.load`, which refuses another tokenizer.

    heads: name → what was trained beside the body; with them pre-training can continue.
    """
    about = {"trained_projection": True, "vocabulary_sha256": vocabulary.vocabulary_sha256(tokenizer)}
    hf_format.save_encoder(Path(directory), encoder, heads, about)


class ObjectiveModule(nn.Module):
    """A pre-training objective as a module: its parameters are those of the encoder and of all that is trained beside it.

    ``forward(step)`` gives the loss of the batch of that step, ``loss``, and the mean of each of its terms by name. Batches,
    masks and pairs are functions of the seed and the step alone. All of a batch is computed at once: for a batch that does not
    fit into memory, or several processes, there is :func:`pretrieve.training.loop.train`. It raises ConfigError where a step is
    no whole number from 0 on, or a new objective's terms, losses and counts have different names.
    """

    def __init__(self, objective: Objective | ContrastiveObjective) -> None:
        super().__init__()
        self.objective, self.trained = objective, objective.module

    def forward(self, step: int) -> dict[str, torch.Tensor]:
        self.objective.device = next(self.trained.parameters()).device  # it may have been moved
        batches = self.objective.micro_batches(given_number(step, "step", 0))
        if isinstance(self.objective, ContrastiveObjective):
            vectors, own = zip(*(self.objective.vectors(batch, True) for batch in batches), strict=True)
            losses = [*own, self.objective.contrast(list(vectors), batches)]
        else:
            losses = [self.objective.losses(batch) for batch in batches]
        terms = set(self.objective.terms)
        found, counted = (set().union(*names) for names in (losses, (batch.counts for batch in batches)))
        if found != terms or not terms <= counted:
            raise ConfigError(
                f"{type(self.objective).__name__}: terms are {sorted(terms)}, its losses {sorted(found)}, what its micro-batches "
                f"count {sorted(counted)}; expected the same names, as the sum of a term is divided by its count."
            )
        means = {}
        for term in self.objective.terms:
            count = max(sum(batch.counts.get(term, 0) for batch in batches), 1)
            means[term] = sum(part[term].float() for part in losses if term in part) / count
        total = sum(weight * means[term] for term, weight in self.objective.terms.items())
        return {"loss": total, **means}


def make_objective(
    name: str,
    encoder: Encoder,
    store: TokenStore,
    batch: int,
    length: int,
    seed: int = 1,
    preset: str | None = None,
    **options: Any,
) -> ObjectiveModule:
    """An objective on an encoder, on whose device it runs.

    Parameters
    ----------
    name : mlm, condenser, cocondenser, pairs, seed-encoder, optimus, retromae or dupmae
    batch : examples a step
    length : tokens of a text, special ones included; of ``pairs``, of a passage and a query, and of ``cocondenser``, of a span,
        unless ``options`` say otherwise
    preset : ``paper`` or ``official_code``; by default the objective's own
    options : changes to the preset's (:mod:`pretrieve.pretraining.presets`); of ``pairs`` also tasks (a list of ict, bfs and
        wlp), query_length and passage_length

    Raises
    ------
    ConfigError
        for an unknown name, preset or option, a value that is not allowed, more tokens than the body has positions, or a store
        with another vocabulary than the encoder's.
    """
    batch, seed = given_number(batch, "batch"), given_number(seed, "seed", 0)
    if store.vocabulary_size > encoder.config.vocabulary_size:
        raise ConfigError(
            f"make_objective: the store's vocabulary has {store.vocabulary_size} entries, the encoder's "
            f"{encoder.config.vocabulary_size}; give the body vocabulary_size=store.vocabulary_size."
        )
    changes = ({"span_length": length} if name == "cocondenser" else {}) | options
    given: dict[str, Any] = {"name": name, "length": length}
    if name == "pairs":
        usual = {"tasks": ["ict"], "query_length": length, "passage_length": length}
        given = {"name": name} | {key: changes.pop(key, value) for key, value in usual.items()}
        for task in given_texts(given["tasks"], "tasks"):
            pair_task(task)
    room = encoder.config.max_positions if encoder.config.kind == "transformer" else sys.maxsize
    for key in given.keys() & {"length", "query_length", "passage_length"}:
        # With more, the first long text would end a training.
        if given_number(given[key], key, 3, "3 tokens or more, with [CLS] and [SEP]") > room:
            raise ConfigError(f"make_objective: {key}={given[key]}; the body has max_positions={room}.")
    resolved = given | resolve(name, preset, changes, "make_objective")
    read, device = store.read_by(encoder.config.kind), next(encoder.parameters()).device
    objective = build_objective(Setting(resolved, batch, encoder, read, seed, device, sys.maxsize))
    return ObjectiveModule(objective).to(device)  # heads are made on the CPU
