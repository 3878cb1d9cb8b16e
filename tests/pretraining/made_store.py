"""Token stores of made-up words, in which every text has the length that a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file

#: 5 special tokens, 40 entries that begin a word and 20 that go on with one: a word is ``ba``, ``baxa``, ``baxaxe`` …
BEGINNINGS = [consonant + vowel for consonant in "bdfgklmp" for vowel in "aeiou"]
PIECES = [f"##{consonant}{vowel}" for consonant in "xzwv" for vowel in "aeiou"]


def sentence(rng: np.random.Generator, tokens: int) -> str:
    """A sentence of so many tokens, in words of one to three."""
    words = []
    while tokens:
        size = min(int(rng.choice([1, 1, 1, 2, 3])), tokens)
        words.append(
            str(rng.choice(BEGINNINGS)) + "".join(str(p).removeprefix("##") for p in rng.choice(PIECES, size - 1))
        )
        tokens -= size
    return " ".join(words)


def make_store(
    directory: Path, articles: list[list[list[int]]], seed: int = 0, titles: Sequence[str] = ()
) -> TokenStore:
    """articles → passages → number of tokens of each sentence; one section an article. ``titles``: one an article, or none."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *BEGINNINGS, *PIECES]) + "\n")
    rng = np.random.default_rng(seed)
    passages = [
        PassageText([sentence(rng, n) for n in sentences], article, article)
        for article, paragraphs in enumerate(articles)
        for sentences in paragraphs
    ]
    tokenizer = from_vocab_file(directory / "vocab.txt")
    return write_token_store(directory, tokenizer, passages, titles, section_articles=np.arange(len(articles)))
