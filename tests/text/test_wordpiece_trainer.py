"""The vocabulary trainer against byte-pair merging as it is written in a textbook: count all pairs anew for each merge.

Seen to fail when: the heap misses pairs of equal pieces; ``pair_count`` is not lowered for the pairs a merge breaks;
outdated heap entries are taken as they are; the characters are not sorted; min_frequency is not looked at.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import DataError
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file, load_tokenizer, special_ids, train_wordpiece
from pretrieve.text.wordpiece_trainer import wordpiece_entries


def brute_force(words: dict[str, int], size: int, min_frequency: int) -> list[str]:
    pieces = {word: [c if i == 0 else f"##{c}" for i, c in enumerate(word)] for word in sorted(words)}
    entries = sorted({piece for word in pieces.values() for piece in word})[:size]
    while len(entries) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in pieces.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        pairs = Counter({pair: count for pair, count in pairs.items() if count >= min_frequency})
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merged = best[0] + best[1].removeprefix("##")
        if merged not in entries:
            entries.append(merged)
        for parts in pieces.values():
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == best:
                    parts[i : i + 2] = [merged]
                i += 1
    return entries


WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=7), st.integers(1, 6), min_size=1, max_size=14)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(WORDS, st.integers(1, 40), st.integers(1, 4))
def test_against_brute_force(words: dict[str, int], size: int, min_frequency: int) -> None:
    assert wordpiece_entries(words, size, min_frequency) == brute_force(words, size, min_frequency)


def test_against_brute_force_on_text(tiny_corpus: Path) -> None:
    import pyarrow.parquet as pq

    words = Counter(" ".join(pq.read_table(tiny_corpus / "passages.parquet")["text"].to_pylist()).lower().split())
    entries = wordpiece_entries(words, 90)
    assert entries == brute_force(words, 90, 2)
    assert "boat" in entries and len(entries) == 90


def test_order_of_words_and_texts_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    words = {"".join(rng.choice(list("abcd"), rng.integers(1, 6))): int(rng.integers(1, 4)) for _ in range(60)}
    shuffled = dict(sorted(words.items(), key=lambda item: hash((item[0][::-1], 5)) % 97))
    assert wordpiece_entries(words, 60) == wordpiece_entries(shuffled, 60)
    texts = ["the boat is low", "the boats are lower", "a boat, a boat!"] * 2
    assert train_wordpiece(texts, 60).to_str() == train_wordpiece(reversed(texts), 60).to_str()


def test_rare_characters_stay_out() -> None:
    entries = wordpiece_entries({"aab": 9, "aaab": 9, "z": 1}, 50, max_alphabet=2)
    assert not [entry for entry in entries if "z" in entry] and "a" in entries


def test_same_vocabulary_in_another_process(program) -> None:
    code = (
        "import json; from pretrieve.text.vocabulary import train_wordpiece as t;"
        "print(json.dumps(t(['ab ba cd dc abcd dcba xy yx'] * 3, 30).get_vocab(), sort_keys=True))"
    )
    runs = [program("-c", code, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    first, second = (json.loads(run.stdout) for run in runs)
    assert first == second and len(first) > 25


def test_text_is_folded_and_comes_back(vocabulary) -> None:
    encoded = vocabulary.encode("The  BOÁT, on water!")
    assert encoded.tokens[0] == "[CLS]" and encoded.tokens[-1] == "[SEP]"
    assert vocabulary.decode(encoded.ids[1:-1]).replace(" ", "") == "theboat,onwater[UNK]"  # the corpus has no '!'
    pair = vocabulary.encode("a boat", "the sea")
    second = pair.tokens.index("[SEP]") + 1
    assert pair.type_ids == [0] * second + [1] * (len(pair) - second) and len(pair) > second + 1
    assert vars(special_ids(vocabulary)) == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def test_round_trip_through_files(tmp_path: Path, vocabulary) -> None:
    path = tmp_path / "tokenizer.json"
    vocabulary.save(str(path))
    entries = sorted(vocabulary.get_vocab(), key=vocabulary.get_vocab().get)
    assert tuple(entries[:5]) == SPECIAL_TOKENS
    (tmp_path / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    text = "An anchor's chain weighs 40 kg — or more; Übergröße 日本."
    expected = vocabulary.encode(text).ids
    assert len(expected) > 10
    assert load_tokenizer(path).encode(text).ids == expected
    assert from_vocab_file(tmp_path / "vocab.txt").encode(text).ids == expected


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], r"\['\[MASK\]'\] are missing"),
        ([*SPECIAL_TOKENS, "a", "a"], "1 entries appear twice"),
    ],
)
def test_bad_vocabulary_files(tmp_path: Path, entries: list[str], message: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(entries))
    with pytest.raises(DataError, match=message):
        from_vocab_file(path)
    with pytest.raises(DataError, match="no such file"):
        load_tokenizer(tmp_path / "none.json")
