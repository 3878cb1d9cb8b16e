"""The token store against direct tokenisation, and its checks.

Seen to fail when: tokens are uint16 for a large vocabulary; the starts miss their first 0; an article begins with its first
section *with passages* although sections without are known; links to the own article stay; the length is not checked;
``word_starts`` is that of another order of the entries, or no part of the key.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from store_sentences import sentence_of
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.text.token_store import ARRAYS, PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file


def test_equals_direct_tokenisation(store: TokenStore, tiny_corpus: Path, vocabulary: Tokenizer) -> None:
    passages = pq.read_table(tiny_corpus / "passages.parquet").to_pylist()
    sentence = 0
    for number, passage in enumerate(passages):
        assert store.passage_starts[number] == sentence
        for start, end in zip(passage["sentence_starts"], passage["sentence_ends"], strict=True):
            expected = vocabulary.encode(passage["text"][start:end], add_special_tokens=False).ids
            assert sentence_of(store, sentence).tolist() == expected and expected
            sentence += 1
    assert (store.n_sentences, store.n_passages) == (sentence, len(passages)) == (19, 9)
    titles = pq.read_table(tiny_corpus / "articles.parquet")["title"].to_pylist()
    for number, title in enumerate(titles):
        ids = store.title_tokens[store.title_starts[number] : store.title_starts[number + 1]].tolist()
        assert ids == vocabulary.encode(title, add_special_tokens=False).ids


def test_text_comes_back(store: TokenStore, vocabulary: Tokenizer) -> None:
    assert vocabulary.decode(sentence_of(store, 0).tolist()) == "an anchor holds a boat to the bed of the sea."


def test_structure_by_hand(store: TokenStore) -> None:
    """Sections 4 (no introduction of Ketch) is empty, and yet Ketch begins with it."""
    assert store.section_starts.tolist() == [0, 2, 3, 5, 6, 6, 7, 8, 9]
    assert store.article_starts.tolist() == [0, 2, 4, 6, 7, 8]
    assert store.passage_article().tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 4]
    pairs = list(zip(store.link_passages.tolist(), store.link_articles.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 3), (1, 2), (2, 1), (4, 0), (5, 0), (5, 2), (6, 1)]


def small_store(directory: Path, vocabulary: Tokenizer, owners: list[tuple[int, int]], **options) -> TokenStore:
    passages = [PassageText(["A boat.", "The sea."][: 1 + i % 2], *owner) for i, owner in enumerate(owners)]
    return write_token_store(directory, vocabulary, passages, **options)


def test_sections_and_articles_without_passages(tmp_path: Path, vocabulary: Tokenizer) -> None:
    owners = [(0, 0), (0, 0), (3, 0), (4, 2)]
    store = small_store(tmp_path / "a", vocabulary, owners)
    assert store.section_starts.tolist() == [0, 2, 2, 2, 3, 4]
    assert store.article_starts.tolist() == [0, 4, 4, 5]  # article 1 has nothing
    assert store.passage_starts.tolist() == [0, 1, 3, 4, 6]
    known = small_store(tmp_path / "b", vocabulary, [(1, 0), (3, 1)], section_articles=np.array([0, 0, 1, 1, 2]))
    assert known.article_starts.tolist() == [0, 2, 4, 5]
    assert known.section_starts.tolist() == [0, 0, 1, 1, 2, 2]
    assert known.passage_article().tolist() == [0, 1]
    empty = small_store(tmp_path / "c", vocabulary, [])
    assert (empty.n_passages, len(empty.tokens), empty.article_starts.tolist()) == (0, 0, [0])


def test_links(tmp_path: Path, vocabulary: Tokenizer) -> None:
    links = np.array([2, 0, 0, 0, 1, 1]), np.array([0, 1, 1, 0, -1, 9])
    store = small_store(tmp_path, vocabulary, [(0, 0), (0, 0), (1, 1)], links=links)
    assert (store.link_passages.tolist(), store.link_articles.tolist()) == ([0, 2], [1, 0])


@pytest.mark.parametrize(
    ("owners", "level"), [([(0, 0), (2, 1), (1, 1)], "section"), ([(0, 0), (1, 2), (2, 1)], "article")]
)
def test_out_of_order(tmp_path: Path, vocabulary: Tokenizer, owners, level: str) -> None:
    with pytest.raises(DataError, match=f"passage 2 is out of order: its {level}"):
        small_store(tmp_path, vocabulary, owners)
    assert not (tmp_path / "meta.json").exists()


@pytest.mark.parametrize(("entries", "dtype"), [(65_536, "<u2"), (65_537, "<u4")])
def test_token_type_by_vocabulary(tmp_path: Path, entries: int, dtype: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *(f"w{i}" for i in range(entries - 5))]))
    tokenizer = from_vocab_file(path)
    last = f"w{entries - 6}"
    store = write_token_store(tmp_path / "store", tokenizer, [PassageText([f"w0 {last}"], 0, 0)], ["w7"])
    assert store.tokens.dtype.str == store.title_tokens.dtype.str == dtype
    assert store.tokens.tolist() == [5, entries - 1] and store.title_tokens.tolist() == [12]


def test_memory_mapped_and_read_only(store: TokenStore) -> None:
    for name in ARRAYS:
        array = getattr(store, name)
        assert isinstance(array, np.memmap), name
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("name", ["tokens", "passage_starts"])
def test_truncated_and_missing_files(tmp_path: Path, vocabulary: Tokenizer, name: str) -> None:
    small_store(tmp_path, vocabulary, [(0, 0)])
    path = tmp_path / f"{name}.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"{name}\.bin: has \d+ bytes"):
        TokenStore(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=rf"{name}\.bin: is missing"):
        TokenStore(tmp_path)
    (tmp_path / "meta.json").unlink()
    with pytest.raises(DataError, match="no such token store"):
        TokenStore(tmp_path)


def test_key_is_of_the_content(tmp_path: Path, vocabulary: Tokenizer) -> None:
    def key(name: str, sentences: list[list[str]], target: int = 1) -> str:
        passages = [PassageText(s, i, i) for i, s in enumerate(sentences)]
        links = np.array([0]), np.array([target])
        return write_token_store(tmp_path / name, vocabulary, passages, ["a", "b", "c"], links).key

    first = key("a", [["a boat", "the sea"], ["a"], ["b"]])
    assert key("b", [["a boat", "the sea"], ["a"], ["b"]]) == first
    others = {
        key("c", [["a boat", "the the"], ["a"], ["b"]]),
        key("d", [["a", "boat the sea"], ["a"], ["b"]]),  # the same tokens, cut elsewhere
        key("e", [["a boat", "the sea"], ["a"], ["b"]], target=2),
    }
    assert first not in others and len(others) == 3


def test_word_starts(store: TokenStore, vocabulary: Tokenizer) -> None:
    """One flag for each entry of the vocabulary: 0 for what goes on with a word."""
    assert store.word_starts.shape == (store.vocabulary_size,) and store.word_starts.dtype == np.uint8
    entries = {index: entry for entry, index in vocabulary.get_vocab().items()}
    assert store.word_starts.tolist() == [int(not entries[i].startswith("##")) for i in range(store.vocabulary_size)]
    assert 0 < store.word_starts.sum() < store.vocabulary_size
    # With it, and nothing else, the words of a text are found again.
    words = np.split(sentence_of(store, 0), np.flatnonzero(store.word_starts[sentence_of(store, 0)])[1:])
    text = vocabulary.decode(sentence_of(store, 0).tolist())
    assert [vocabulary.decode(word.tolist()) for word in words] == text.replace(".", " .").split()
    assert max(map(len, words)) > 1


def test_word_starts_are_part_of_the_key(tmp_path: Path, vocabulary: Tokenizer) -> None:
    store = small_store(tmp_path, vocabulary, [(0, 0)])
    before = store.key
    path = tmp_path / "word_starts.bin"
    path.write_bytes(bytes(1 - flag for flag in path.read_bytes()))
    assert TokenStore(tmp_path).key != before


def test_meta(store: TokenStore, vocabulary: Tokenizer) -> None:
    meta = json.loads((store.directory / "meta.json").read_text())
    assert meta["vocabulary_size"] == vocabulary.get_vocab_size() == store.vocabulary_size
    assert meta["special_ids"] == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert not list(store.directory.glob("*.part"))
