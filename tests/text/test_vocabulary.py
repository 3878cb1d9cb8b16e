"""Given vocabularies: which special tokens they have, how they read text, and the sequences that come of it.

The references are tokenizers of transformers, and SEED-Encoder's as its code sets it up.

Seen to fail when: BERT's set is tried before SEED-Encoder's; ``<mask>`` is not appended; SEED-Encoder's text loses its
accents; a published tokenizer.json cuts or pads; a missing token gets id 0; T5's sequences begin with a token; the
second segment begins one late without [CLS]; vocab.txt is taken before tokenizer.json; a special set that is not known
goes through; ``tokenizer_config.json`` is not read.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_body import byte_level
from store_sentences import sentence_of
from tokenizers import BertWordPieceTokenizer, Tokenizer, models, pre_tokenizers, processors

from pretrieve.base.errors import DataError
from pretrieve.text.corpus_tokens import build_vocabulary
from pretrieve.text.packing import Packed, pack_passages, pack_sentences
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import (
    NO_TOKEN,
    SPECIAL_TOKENS,
    from_vocab_file,
    given_tokenizer,
    special_ids,
    vocabulary_sha256,
    word_starts,
)
from pretrieve.text.windows import PassageWindows

WORDS = ["an", "anchor", "##s", "é", "e", "ca", "##f", "##é", "##e", "the", "boat", ".", "!"]
SEED_FIRST = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
TEXT = "An anchors THE  café!\x07 boat."


def vocab_file(path: Path, entries: list[str]) -> Path:
    path.write_text("\n".join(entries) + "\n", encoding="utf-8")
    return path


def sentence_piece() -> Tokenizer:
    """T5's kind: a unigram model over words with a mark in front, and ``</s>`` behind a text."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(f"▁{word}", -2.0) for word in ("the", "boat", "floats", "on", "water", "it", "is", "old")]
    pieces += [("s", -3.0), (".", -2.5), ("▁", -4.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return tokenizer


def saved(tokenizer: Tokenizer, path: Path) -> Path:
    tokenizer.save(str(path))
    return path


# Special tokens ------------------------------------------------------------------------------------------------------


def test_each_set_is_told_from_the_others(tmp_path: Path) -> None:
    bert = from_vocab_file(vocab_file(tmp_path / "bert.txt", [*SPECIAL_TOKENS, *WORDS]))
    assert vars(special_ids(bert)) == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    seed = from_vocab_file(vocab_file(tmp_path / "seed.txt", [*SEED_FIRST, *WORDS]))
    assert vars(special_ids(seed)) == {"pad": 1, "unk": 3, "cls": 0, "sep": 2, "mask": 5 + len(WORDS)}
    roberta = given_tokenizer(saved(byte_level(), tmp_path / "roberta.json"))
    assert vars(special_ids(roberta)) == {"pad": 1, "unk": 3, "cls": 0, "sep": 2, "mask": roberta.get_vocab_size() - 1}
    t5 = given_tokenizer(saved(sentence_piece(), tmp_path / "t5.json"))
    assert vars(special_ids(t5)) == {"pad": 0, "unk": 2, "cls": NO_TOKEN, "sep": 1, "mask": NO_TOKEN}
    assert NO_TOKEN < 0  # never an id


@pytest.mark.parametrize("setting", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"])
def test_settings_beside_a_vocabulary_that_contradict_it_are_refused(tmp_path: Path, setting: str) -> None:
    text = vocab_file(tmp_path / "vocab.txt", [*SPECIAL_TOKENS, *WORDS])
    whole = saved(given_tokenizer(text), tmp_path / "whole.json")
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({setting: False, "tokenizer_class": "BertTokenizer"}))
    for path in (text, whole):
        with pytest.raises(DataError, match=f"{setting} is false, and {path.name} would be read as if it were true"):
            given_tokenizer(path)
    settings.write_text(json.dumps({setting: True, "tokenizer_class": "BertTokenizer"}))
    assert given_tokenizer(text) and given_tokenizer(whole)
    settings.write_text(json.dumps({setting: False, "tokenizer_class": "PreTrainedTokenizerFast"}))
    assert given_tokenizer(whole)


def test_other_vocabularies_are_refused(tmp_path: Path) -> None:
    other = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    with pytest.raises(
        DataError, match=r"other.json: the vocabulary has no \['\[PAD\]', '\[CLS\]', '\[SEP\]', '\[MASK\]'\]"
    ):
        given_tokenizer(saved(other, tmp_path / "other.json"))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match="broken.json: not a tokenizer.json"):
        given_tokenizer(tmp_path / "broken.json")
    with pytest.raises(DataError, match="none.json: no such file"):
        given_tokenizer(tmp_path / "none.json")
    with pytest.raises(DataError, match="none.txt: no such file"):
        given_tokenizer(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"special tokens \['\[MASK\]'\] are missing"):
        given_tokenizer(vocab_file(tmp_path / "vocab.txt", [*SPECIAL_TOKENS[:4], *WORDS]))
    (tmp_path / "latin.txt").write_bytes("\n".join([*SPECIAL_TOKENS, "café"]).encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.txt: line 6, byte 4: 0xe9 is not UTF-8"):
        given_tokenizer(tmp_path / "latin.txt")


def test_line_ends_and_a_byte_order_mark_are_no_part_of_an_entry(tmp_path: Path) -> None:
    plain = from_vocab_file(vocab_file(tmp_path / "plain.txt", [*SPECIAL_TOKENS, *WORDS]))
    lines = "\ufeff" + "\r\n".join([*SPECIAL_TOKENS, *WORDS])
    (tmp_path / "windows.txt").write_text(lines, encoding="utf-8", newline="")
    assert from_vocab_file(tmp_path / "windows.txt").get_vocab() == plain.get_vocab()


# Given vocabularies --------------------------------------------------------------------------------------------------


def test_seed_encoders_text(tmp_path: Path) -> None:
    """Its code: text.lower(), then BertWordPieceTokenizer(clean_text=False, strip_accents=False, lowercase=False)."""
    path = vocab_file(tmp_path / "vocab.txt", [*SEED_FIRST, *WORDS])
    reference = BertWordPieceTokenizer(str(path), clean_text=False, strip_accents=False, lowercase=False)
    ours = from_vocab_file(path)
    ids = ours.encode(TEXT, add_special_tokens=False).ids
    assert ids == reference.encode(TEXT.lower(), add_special_tokens=False).ids
    assert ours.encode("anchors").ids == reference.encode("anchors").ids  # with [CLS] and [SEP]
    stripped = from_vocab_file(vocab_file(tmp_path / "bert.txt", [*SPECIAL_TOKENS, *WORDS]))
    assert stripped.encode("café").tokens != ours.encode("café").tokens
    assert ours.get_vocab_size() == len(SEED_FIRST) + len(WORDS) + 1  # 32,768 lines are 32,769 entries


def test_a_published_file_neither_cuts_nor_pads(tmp_path: Path) -> None:
    published = byte_level()
    published.enable_truncation(3)
    published.enable_padding(length=20, pad_id=1, pad_token="<pad>")
    given = given_tokenizer(saved(published, tmp_path / "tokenizer.json"))
    encoded = given.encode("boat boat boat", add_special_tokens=False)
    assert len(encoded.ids) > 3 and 1 not in encoded.ids
    assert given.decode(encoded.ids) == "boat boat boat"
    out = tmp_path / "out" / "tokenizer.json"
    again = build_vocabulary(tmp_path, 0, tmp_path, out)  # a directory stands for the file in it
    assert Tokenizer.from_file(str(out)).truncation is None and again.get_vocab() == given.get_vocab()


def test_a_directory_stands_for_its_vocabulary(tmp_path: Path) -> None:
    vocab_file(tmp_path / "vocab.txt", [*SPECIAL_TOKENS, *WORDS])
    assert special_ids(given_tokenizer(tmp_path)).cls == 2
    saved(byte_level(), tmp_path / "tokenizer.json")
    assert special_ids(given_tokenizer(tmp_path)).cls == 0
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no tokenizer.json and no vocab.txt.*AutoTokenizer"):
        given_tokenizer(tmp_path / "empty")


def test_a_hash_of_entries_and_ids(tmp_path: Path) -> None:
    first = from_vocab_file(vocab_file(tmp_path / "a.txt", [*SPECIAL_TOKENS, *WORDS]))
    again = given_tokenizer(saved(first, tmp_path / "a.json"))
    moved = from_vocab_file(vocab_file(tmp_path / "b.txt", [*SPECIAL_TOKENS, *WORDS[::-1]]))
    assert vocabulary_sha256(first) == vocabulary_sha256(again) != vocabulary_sha256(moved)


def test_where_words_begin(tmp_path: Path) -> None:
    for tokenizer, text, begins in [
        (byte_level(), "a boat", [0, 1, 0, 0, 0]),  # a Ġb o a t
        (sentence_piece(), "the boats", [1, 1, 0]),  # ▁the ▁boat s
        (from_vocab_file(vocab_file(tmp_path / "v.txt", [*SPECIAL_TOKENS, *WORDS])), "an anchors", [1, 1, 0]),
    ]:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert word_starts(tokenizer)[ids].astype(int).tolist() == begins, tokenizer.encode(text).tokens


# Sequences -----------------------------------------------------------------------------------------------------------


PASSAGES = [
    PassageText(["the boat floats on water.", "it is old."], 0, 0),
    PassageText(["the water is old."], 1, 1),
]


@pytest.fixture
def t5_store(tmp_path: Path) -> TokenStore:
    tokenizer = given_tokenizer(saved(sentence_piece(), tmp_path / "t5.json"))
    write_token_store(tmp_path / "store", tokenizer, PASSAGES, ["boat", "water"])
    return TokenStore(tmp_path / "store")  # as another process reads it


def examples(packed: Packed, values: np.ndarray) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in packed.lengths]
    for start, length, place in zip(packed.starts, packed.lengths, packed.order, strict=True):
        result[place] = values[start : start + length].tolist()
    return result


def test_t5s_sequences_are_text_and_eos(t5_store: TokenStore, tmp_path: Path) -> None:
    """Against the tokenizer's own template."""
    reference = Tokenizer.from_file(str(tmp_path / "t5.json"))
    assert t5_store.special.cls == NO_TOKEN
    sentences = pack_sentences(t5_store, np.array([0, 1, 2]), 50)
    texts = ["the boat floats on water.", "it is old.", "the water is old."]
    assert examples(sentences, sentences.tokens) == [reference.encode(text).ids for text in texts]
    passages = pack_passages(t5_store, np.array([0, 1]), 50)
    whole = [reference.encode(t).ids for t in ("the boat floats on water. it is old.", "the water is old.")]
    assert examples(passages, passages.tokens) == whole
    assert min(passages.tokens.min(), sentences.tokens.min()) >= 0
    cut = pack_passages(t5_store, np.array([0, 1]), 4)
    assert examples(cut, cut.tokens) == [[*ids[:3], 1] for ids in whole]


@pytest.mark.parametrize("kind", ["t5", "bert"])
def test_the_second_text_is_the_second_segment(t5_store: TokenStore, tmp_path: Path, kind: str) -> None:
    if kind == "bert":
        entries = [*SPECIAL_TOKENS, *["the", "boat", "floats", "on", "water", ".", "it", "is", "old"]]
        tokenizer = from_vocab_file(vocab_file(tmp_path / "v.txt", entries))
        store = write_token_store(tmp_path / "bert", tokenizer, PASSAGES, ["boat", "water"])
    else:
        store = t5_store
    sep, begin = store.special.sep, int(kind == "bert")
    titled = pack_passages(store, np.array([0, 1]), 50, titled=np.array([True, False]), articles=np.array([0, 1]))
    pair = PassageWindows(store, np.array([1, -1]), np.array([0, 1]), 50, 1).pack(np.arange(2))
    for packed, first in ((titled, [1, 0]), (pair, [len(sentence_of(store, 1)), 0])):
        both = zip(examples(packed, packed.tokens), examples(packed, packed.segments), first, strict=True)
        for tokens, segments, length in both:
            before = begin + length + 1 if length else None
            assert tokens[-1] == sep and (begin == 0 or tokens[0] == store.special.cls)
            if before is None:
                assert not any(segments)
                continue
            assert tokens[before - 1] == sep
            assert segments == [0] * before + [1] * (len(tokens) - before)
