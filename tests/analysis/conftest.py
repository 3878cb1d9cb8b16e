"""A store with articles of many lengths, and encoders on disk whose attention is far from uniform."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from small_body import small_body
from tokenizers import Tokenizer

from pretrieve.models.config import BodyConfig
from pretrieve.models.decoder import Decoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import save_encoder
from pretrieve.models.transformer import seeded
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store

WORDS = [
    "anchor",
    "boat",
    "bed",
    "sea",
    "iron",
    "sailor",
    "ketch",
    "bow",
    "chain",
    "stone",
    "hole",
    "rope",
    "vessel",
    "wood",
]
#: Sentences of each passage, by section, by article; article 2 has no section with a passage, article 4 a short text.
ARTICLES = [[[3, 2], [4]], [[5], []], [[]], [[1], [2, 2], [6]], [[1]], [[7, 3]], [[2, 2, 2], [5, 1]]]
CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def articles(tmp_path_factory: pytest.TempPathFactory, vocabulary: Tokenizer) -> TokenStore:
    """7 articles, 12 sections (2 of them without a passage); sentences of one or two words."""
    rng, passages, owners = random.Random(3), [], []
    for article, sections in enumerate(ARTICLES):
        for section in sections:
            for count in section:
                sentences = [" ".join(rng.choices(WORDS, k=rng.randint(1, 2))) for _ in range(count)]
                passages.append(PassageText(sentences, len(owners), article))
            owners.append(article)
    directory = tmp_path_factory.mktemp("articles")
    return write_token_store(directory, vocabulary, passages, section_articles=np.array(owners))


@pytest.fixture
def shape(articles: TokenStore) -> BodyConfig:
    return small_body(articles.vocabulary_size, (24, 3, 4, 40), dropout=0.1)


def shake(module: torch.nn.Module, seed: int) -> None:
    """Give all weights, biases and norms included, values of a size that makes a difference."""
    generator = seeded(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(mean + 0.3 * torch.randn(parameter.shape, generator=generator))


@pytest.fixture
def saved(articles: TokenStore, shape: BodyConfig, tmp_path: Path):
    """``saved(name, heads, **about)``: writes an encoder directory; returns it and the encoder."""

    def make(
        name: str = "encoder", heads: dict | None = None, config: BodyConfig = shape, **about
    ) -> tuple[Path, Encoder]:
        encoder = Encoder(config, 8, "cls", seed=1)
        shake(encoder, 5)
        about = {"vocabulary_sha256": articles.meta["vocabulary_sha256"], "objective": {"name": "mlm"}} | about
        save_encoder(tmp_path / name, encoder, heads, about)
        return tmp_path / name, encoder.eval()

    return make


@pytest.fixture
def with_decoder(saved, shape: BodyConfig):
    """``with_decoder(layers, span)``: the same with a decoder; returns directory, encoder, decoder."""

    def make(layers: int, span: int | str, change=None, name: str = "seed-encoder") -> tuple[Path, Encoder, Decoder]:
        decoder = Decoder(shape, layers, span, seed=2)
        shake(decoder, 6)
        if change is not None:
            with torch.no_grad():
                change(decoder)
        objective = {"name": name, "decoder_layers": layers, "span": span}
        directory, encoder = saved(f"{name}-{layers}-{span}", {"decoder": decoder}, objective=objective)
        return directory, encoder, decoder.eval()

    return make
