"""Vocabularies: a WordPiece one trained on the corpus, or the one of a published checkpoint.

A vocabulary trained here has BERT's special tokens in BERT's order, so that it and ``bert-base-uncased`` are used in
the same way: ``[PAD]`` is 0; text is lower-cased and stripped of accents. Given ones are a BERT ``vocab.txt``
(uncased, or SEED-Encoder's) or any ``tokenizer.json`` whose special tokens are one of these sets:

=============  ======  ======  ======  =======  =======  ==============================================================
set            pad     unk     cls     sep      mask     sequence
=============  ======  ======  ======  =======  =======  ==============================================================
BERT           [PAD]   [UNK]   [CLS]   [SEP]    [MASK]   ``[CLS] x1 .. xn [SEP]``
SEED-Encoder   [PAD]   [UNK]   [CLS]   [SEP]    <mask>   the same; its [MASK], id 4, was never used in training
RoBERTa        <pad>   <unk>   <s>     </s>     <mask>   ``<s> x1 .. xn </s>``
T5             <pad>   <unk>   none    </s>     none     ``x1 .. xn </s>``
=============  ======  ======  ======  =======  =======  ==============================================================
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from pretrieve.base.errors import DataError
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_text import read_lines
from pretrieve.text.wordpiece_trainer import wordpiece_entries

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: The sets of the module's table, in the order of :class:`SpecialIds`; the first that a vocabulary has in full is its own.
SPECIAL_SETS = {
    "SEED-Encoder": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "<mask>"),
    "BERT": SPECIAL_TOKENS,
    "RoBERTa": ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
    "T5": ("<pad>", "<unk>", None, "</s>", None),
}
#: The first entries of SEED-Encoder's vocab.txt: the order of fairseq's dictionaries.
SEED_ENTRIES = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
#: Classes of transformers that leave all to ``tokenizer.json``.
_GENERAL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
#: The id of a special token that a vocabulary does not have.
NO_TOKEN = -1


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the special tokens in a vocabulary; ``cls`` and ``mask`` are :data:`NO_TOKEN` where there is none (T5)."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


def _bert_tokenizer(vocabulary: dict[str, int], normaliser: normalizers.BertNormalizer) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normaliser
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
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
    return _bert_tokenizer({entry: index for index, entry in enumerate(entries)}, normalise)


def given_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a ``vocab.txt``, a ``tokenizer.json``, or a directory with one of them (the latter first).

    Raises DataError when there is none, or it cannot be used here.
    """
    if path.is_dir():
        found = [path / name for name in ("tokenizer.json", "vocab.txt") if (path / name).is_file()]
        if not found:
            raise DataError(
                f"{path}: no tokenizer.json and no vocab.txt. Where there is only a spiece.model or a merges.txt, write "
                "the first with transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)."
            )
        path = found[0]
    return from_tokenizer_file(path) if path.suffix == ".json" else from_vocab_file(path)


def from_tokenizer_file(path: Path) -> Tokenizer:
    """A published ``tokenizer.json``; texts are not cut or padded by it, whatever it says.

    Raises DataError when it is missing or damaged, its special tokens are none of the sets of the module's table, or
    ``tokenizer_config.json`` beside it contradicts it.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise DataError(f"{path}: not a tokenizer.json of the tokenizers library ({error}).") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        special_ids(tokenizer)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    _check_settings(Path(path), tokenizer.normalizer)
    return tokenizer


def from_vocab_file(path: Path) -> Tokenizer:
    """A tokenizer from a ``vocab.txt`` (one entry a line, the line number is the id): BERT's uncased one, or SEED-Encoder's.

    SEED-Encoder's (SEED-Encoder tokenization_seed_encoder.py) is told by its first entries. It keeps accents and
    control characters, and ``<mask>`` follows the last line of the file, as fairseq appends it: 32,768 lines,
    32,769 entries. A cased vocabulary has to be given as ``tokenizer.json``, which says so.

    Raises DataError when there is no such file, it is not UTF-8 or no such vocabulary, or ``tokenizer_config.json`` beside it
    says that letters are treated in another way.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    entries = [line.text for line in read_lines(path, label=None)]
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    if len(vocabulary) != len(entries):
        raise DataError(f"{path}: {len(entries) - len(vocabulary)} entries appear twice; a vocabulary lists each once.")
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise DataError(f"{path}: the special tokens {missing} are missing; expected a BERT vocab.txt.")
    normaliser = normalizers.BertNormalizer(lowercase=True)
    if tuple(entries[: len(SEED_ENTRIES)]) == SEED_ENTRIES:
        vocabulary.setdefault("<mask>", len(vocabulary))
        normaliser = normalizers.BertNormalizer(clean_text=False, strip_accents=False, lowercase=True)
    else:
        _check_settings(path, normaliser)
    return _bert_tokenizer(vocabulary, normaliser)


def _check_settings(path: Path, normaliser: normalizers.Normalizer) -> None:
    """Raise DataError where ``tokenizer_config.json`` beside a vocabulary says another treatment of letters than ``normaliser``
    does. For a BertTokenizer, transformers takes the former, whatever ``tokenizer.json`` says."""
    settings = path.with_name("tokenizer_config.json")
    shown = read_json(settings, "the settings of a tokenizer") if settings.is_file() else {}
    if not isinstance(shown, dict) or not isinstance(normaliser, normalizers.BertNormalizer):
        return
    if shown.get("tokenizer_class") in _GENERAL_CLASSES:
        return
    lower, accents = normaliser.lowercase, normaliser.strip_accents
    done = {
        "do_lower_case": lower,
        "strip_accents": lower if accents is None else accents,
        "tokenize_chinese_chars": normaliser.handle_chinese_chars,
    }
    for name, value in done.items():
        said = shown.get(name)
        if said is not None and said is not value:
            raise DataError(
                f"{settings}: {name} is {json.dumps(said)}, and {path.name} would be read as if it were {json.dumps(value)}; "
                "write a tokenizer.json with transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)."
            )


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a ``tokenizer.json``."""
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file. Build it with: snakemake {path}")
    return Tokenizer.from_file(str(path))


def special_ids(tokenizer: Tokenizer) -> SpecialIds:
    """Ids of the special tokens, by the first set of the module's table that the vocabulary has.

    Raises DataError when it has none of the sets.
    """
    for tokens in SPECIAL_SETS.values():
        ids = [NO_TOKEN if token is None else tokenizer.token_to_id(token) for token in tokens]
        if None not in ids:
            return SpecialIds(*ids)
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    raise DataError(
        f"the vocabulary has no {missing}; expected the special tokens of {', '.join(SPECIAL_SETS)}: BERT's are "
        f"{list(SPECIAL_TOKENS)}."
    )


def vocabulary_sha256(tokenizer: Tokenizer) -> str:
    """What tells one vocabulary from another: a hash of all entries and their ids."""
    return hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()


def word_starts(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) bool: whether an entry begins a word. In a WordPiece vocabulary an entry with ``##`` continues with one.

    Byte-level BPE (RoBERTa) and sentencepiece (T5) mark the *beginning* instead, with ``Ġ`` and ``▁``: there an entry
    without the mark goes on. (The Condenser code applies the ``##`` rule to RoBERTa as well, where no entry has it.)
    """
    vocabulary = tokenizer.get_vocab()
    begins = np.ones(tokenizer.get_vocab_size(), dtype=bool)
    mark = {"BPE": "Ġ", "Unigram": "▁"}.get(type(tokenizer.model).__name__)
    for entry, index in vocabulary.items():
        begins[index] = entry.startswith(mark) if mark else not entry.startswith("##")
    return begins
