"""The table of words against the tokenizers library, which is right by definition.

Seen to fail when: the text is cut at \\x1c to \\x1f as well, or \\x0b or \\x0c stays; capitals are made small by ``str.lower``
(İ, final sigma); the full stop is not cut off; the stop is ';' (U+037E is normalised to it); the ids of the stop stay in; texts
are told apart by a blank; an added token, a cased normaliser or any other condition is ignored; only a batch's first text is
searched for added tokens; a known word is asked again; a full table is not begun anew.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from pretrieve.text import encode_words
from pretrieve.text.encode_words import WordTable, encode_texts, word_by_word
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789éßςσñ中文日अи"
WORDS = ["the", "sea", "boat", "mask", "unk", "##ing", "##sea", "straße", "οδος"]
MARKS = [chr(c) for c in range(33, 127) if not chr(c).isalnum()]


def make(directory: Path, entries: list[str]) -> Tokenizer:
    path = directory / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *entries]), encoding="utf-8")
    return from_vocab_file(path)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    entries = [*LETTERS, *(f"##{c}" for c in LETTERS), *MARKS, "…", "。", *WORDS]
    return make(tmp_path_factory.mktemp("vocabulary"), entries)


def by_library(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def by_words(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    result = []
    for ids, lengths in encode_texts(tokenizer, texts):
        assert ids.sum() >= 0 and len(ids) == lengths.sum()
        result += [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    return result


CASES = [
    "",
    "   ",
    "The sea.",
    "[MASK] the[SEP]sea [UNK][CLS]##s ##sea",
    "x" * 100,
    "x" * 101,
    "x" * 100 + "-" + "X" * 101,
    "a\x0bb a\x0cb a\x1cb a\x1fb a\x00b a\x85b a\u2028b a\xa0b a\tb\nb\r\nb",
    "a\u200bb a\xadb \ufffdsea\ufeff",
    "É e\u0301 E\u0301 İ I\u0307 K Å \u212a\u212b ΟΔΟΣ οδος Σ ß ẞ STRASSE",
    "\u0301sea .\u0301 =\u0338 \u2260 \u0338 a\u0316\u0301b",
    "中文abc日本語。中 文",
    "a\u037eb a\u1fefb … . .. a.b.c | ½ ﬁ ① ａ",
    "\U0001f600the\U0001f1e9\U0001f1ea \U00020000sea \ue000",
]


def test_cases(tokenizer: Tokenizer) -> None:
    assert word_by_word(tokenizer)
    assert by_words(tokenizer, CASES) == by_library(tokenizer, CASES)
    ids = tokenizer.token_to_id
    assert by_words(tokenizer, ["THE seas. ☃"]) == [[ids("the"), ids("sea"), ids("##s"), ids("."), ids("[UNK]")]]


def test_every_kind_of_character(tokenizer: Tokenizer) -> None:
    """All characters below U+3000, and above it those that are not letters, or decompose, or are assigned later."""

    def special(char: str) -> bool:
        kind = unicodedata.category(char)
        return kind[0] in "ZPSM" or kind in ("Cc", "Cf") or bool(unicodedata.decomposition(char))

    chars = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    chars = [c for c in chars if ord(c) < 0x3000 or special(c)]
    texts = [f"A{c}b {c} {c}S" for c in chars]
    expected = by_library(tokenizer, texts)
    assert by_words(tokenizer, texts) == expected
    # What the table is cut at: the full stop's id comes from the full stop alone.
    stop = tokenizer.token_to_id(".")
    assert [c for c, ids in zip(chars, expected, strict=True) if stop in ids] == ["."]
    assert len(chars) > 20_000


PIECES = st.sampled_from(
    [*LETTERS, *MARKS, " ", "  ", "\t", "\n", *"\x00\x0b\x0c\x1c\x85\xa0\u3000\u200d\u0301\u0316\u0338"]
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.lists(st.one_of(PIECES, st.sampled_from([*WORDS, *SPECIAL_TOKENS, "Sea", "İ", "Σ"]), CHARACTERS)).map("".join)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.one_of(TEXT, st.text(st.characters(max_codepoint=127)), st.text(CHARACTERS)), max_size=8))
@example(["sea"] * 3)
def test_any_text(tokenizer: Tokenizer, texts: list[str]) -> None:
    assert by_words(tokenizer, texts) == by_library(tokenizer, texts)


def test_lone_surrogate_is_refused_as_by_the_library(tokenizer: Tokenizer) -> None:
    with pytest.raises((UnicodeEncodeError, TypeError)):
        by_library(tokenizer, ["a\ud800"])
    with pytest.raises(UnicodeEncodeError):
        by_words(tokenizer, ["a\ud800"])


class Counting:
    """A tokenizer that keeps what it was asked."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.asked = tokenizer, []
        self.token_to_id = tokenizer.token_to_id

    def encode_batch_fast(self, texts: list[str], add_special_tokens: bool):
        self.asked += texts
        return self.tokenizer.encode_batch_fast(texts, add_special_tokens=add_special_tokens)


def test_each_word_is_asked_once(tokenizer: Tokenizer) -> None:
    counting = Counting(tokenizer)
    table = WordTable(counting)
    for texts in (["The sea, the SEA."], ["sea the"], ["the boat"], ["boats(the)"]):
        ids, lengths = table.encode(texts)
        assert ids.tolist() == by_library(tokenizer, texts)[0] and lengths.tolist() == [len(ids)]
    assert counting.asked == ["the . sea . ,", "boat", "boats . ( . )"]


@pytest.mark.parametrize(("limit", "most"), [("PIECES", 16), ("IDS", 16)])
def test_table_is_bounded(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(encode_words, limit, most)
    table = WordTable(tokenizer)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(60):
        texts = [" ".join(rng.choice(list("abcdefghijklmnop"), 3)) + "." for _ in range(2)]
        ids, lengths = table.encode(texts)
        expected = by_library(tokenizer, texts)
        assert ids.tolist() == [i for e in expected for i in e] and lengths.tolist() == [len(e) for e in expected]
        sizes.append(len(table))
    assert max(sizes) <= most + 2 + 6 and np.any(np.diff(sizes) < 0)


def test_batches(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_words, "BATCH", 2)
    texts = ["the sea", "", "boats", "", ""]
    assert [lengths.tolist() for _, lengths in encode_texts(tokenizer, texts)] == [[2, 0], [2, 0], [0]]
    assert by_words(tokenizer, texts) == by_library(tokenizer, texts)
    assert list(encode_texts(tokenizer, [])) == []


def cased(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)


def not_cleaned(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=False)


def other_normaliser(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.Lowercase()


def other_words(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def other_model(tokenizer: Tokenizer) -> None:
    tokenizer.model = models.WordLevel(tokenizer.get_vocab(), unk_token="[UNK]")


def added(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("the sea", normalized=True)])


def truncated(tokenizer: Tokenizer) -> None:
    tokenizer.enable_truncation(3)


def padded(tokenizer: Tokenizer) -> None:
    tokenizer.enable_padding(length=9)


@pytest.mark.parametrize(
    "change",
    [cased, not_cleaned, other_normaliser, other_words, other_model, added, truncated, padded],
    ids=lambda change: change.__name__,
)
def test_other_tokenizers_are_left_to_the_library(tokenizer: Tokenizer, change) -> None:
    other = Tokenizer.from_str(tokenizer.to_str())
    assert word_by_word(other)
    change(other)
    assert not word_by_word(other)
    texts = [*CASES, "The sea [MASK] the sea. THE-sea and more"]
    expected = by_library(other, texts)
    assert by_words(other, texts) == expected != by_library(tokenizer, texts)


def test_special_tokens_in_the_text(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A published tokenizer.json lists its special tokens as added ones, which it finds in the raw text."""
    monkeypatch.setattr(encode_words, "BATCH", 2)
    published = Tokenizer.from_str(tokenizer.to_str())
    published.add_special_tokens([*SPECIAL_TOKENS, AddedToken("a b", normalized=False)])
    assert word_by_word(published)
    texts = ["the[MASK]sea", "Sea", "the", "sea", "[mask]", "A B", "a", "a b", *CASES]
    expected = by_library(published, texts)
    assert by_words(published, texts) == expected != by_library(tokenizer, texts)
    assert published.token_to_id("[MASK]") in expected[0]


def test_without_a_full_stop_in_the_vocabulary(tmp_path: Path) -> None:
    other = make(tmp_path, [*LETTERS, "##s"])
    assert not word_by_word(other)
    assert by_words(other, CASES) == by_library(other, CASES)
