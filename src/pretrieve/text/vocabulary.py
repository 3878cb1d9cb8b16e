"""WordPiece vocabularies: trained on the corpus, or given as a ``vocab.txt``.

The special tokens and their order are BERT's, so that a vocabulary trained here and ``bert-base-uncased`` are used in
the same way: ``[PAD]`` is 0; text is lower-cased and stripped of accents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from pretrieve.errors import DataError
from pretrieve.text.wordpiece_trainer import wordpiece_entries

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the special tokens in a vocabulary."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


def _wordpiece(vocabulary: dict[str, int]) -> models.WordPiece:
    return models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)


def _assemble(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _with_template(tokenizer: Tokenizer) -> Tokenizer:
    ids = special_ids(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids.cls), ("[SEP]", ids.sep)],
    )
    return tokenizer


def train_wordpiece(texts: Iterable[str], size: int, min_frequency: int = 2) -> Tokenizer:
    """Train a WordPiece vocabulary of at most ``size`` entries; the same texts give the same vocabulary, in any order."""
    normalise, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(text.split())
    counter: Counter[str] = Counter()
    for chunk, count in chunks.items():  # each distinct string between blanks is normalised once
        for word, _ in split.pre_tokenize_str(normalise.normalize_str(chunk)):
            counter[word] += count
    entries = [*SPECIAL_TOKENS, *wordpiece_entries(counter, size - len(SPECIAL_TOKENS), min_frequency)]
    return _with_template(_assemble(_wordpiece({entry: index for index, entry in enumerate(entries)})))


def from_vocab_file(path: Path) -> Tokenizer:
    """A tokenizer from a BERT ``vocab.txt`` (one entry a line, the line number is the id)."""
    entries = Path(path).read_text(encoding="utf-8").split("\n")
    if entries and not entries[-1]:
        entries.pop()
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    if len(vocabulary) != len(entries):
        raise DataError(f"{path}: {len(entries) - len(vocabulary)} entries stand twice; a vocabulary lists each once.")
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise DataError(f"{path}: the special tokens {missing} are missing; expected a BERT vocab.txt.")
    return _with_template(_assemble(_wordpiece(vocabulary)))


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a ``tokenizer.json``."""
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file. Build it with: snakemake {path}")
    return Tokenizer.from_file(str(path))


def special_ids(tokenizer: Tokenizer) -> SpecialIds:
    """Ids of the five special tokens; a vocabulary without one of them is an error."""
    ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
    if None in ids:
        missing = [token for token, found in zip(SPECIAL_TOKENS, ids, strict=True) if found is None]
        raise DataError(f"the vocabulary has no {missing}; expected BERT's special tokens {list(SPECIAL_TOKENS)}.")
    return SpecialIds(*ids)


def word_starts(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) bool: whether an entry begins a word. In a WordPiece vocabulary an entry with ``##`` goes on with one.

    Byte-level BPE (RoBERTa) and sentencepiece (T5) mark the *beginning* instead, with ``Ġ`` and ``▁``: there an entry without
    the mark goes on. (The Condenser code applies the ``##`` rule to RoBERTa as well, where no entry has it.)
    """
    vocabulary = tokenizer.get_vocab()
    begins = np.ones(tokenizer.get_vocab_size(), dtype=bool)
    mark = {"BPE": "Ġ", "Unigram": "▁"}.get(type(tokenizer.model).__name__)
    for entry, index in vocabulary.items():
        begins[index] = entry.startswith(mark) if mark else not entry.startswith("##")
    return begins
