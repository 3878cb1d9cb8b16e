"""Answers of many questions in many passages: the same as asking for every pair.

Seen to fail when: one-word answers are looked up by two words only; an answer that two questions share goes to the first;
an answer at the end of a passage is not looked at; the first answer of a list is the only one; a pattern that matches over two
passages counts; the last block is not searched; answers without words are found everywhere.
"""

from __future__ import annotations

import random

import pytest

from pretrieve.benchmarks.made import corpus_collection
from pretrieve.benchmarks.made.corpus_collection import AnswerSearch
from pretrieve.tasks.answers import Answers, Passages, contains

_WORDS = ["a", "the", "b", "É", "e\u0301", "U.S.", "1,000", "東京", "東京都", "New York", "’s", "-", "x" * 9]


def found(answers: dict[str, Answers], texts: list[str]) -> set[str]:
    search = AnswerSearch(answers)
    for text in texts:
        search.add(text)
    return search.finish()


def slow(answers: dict[str, Answers], texts: list[str]) -> set[str]:
    passages = Passages(dict(zip(map(str, range(len(texts))), texts, strict=True)))
    return {name for name, accepted in answers.items() if any(contains(passages, d, accepted) for d in passages.texts)}


@pytest.mark.parametrize("seed", range(8))
def test_the_same_as_every_pair(seed: int) -> None:
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(_WORDS, k=draw.randint(0, 9))) for _ in range(12)]
    answers = {
        str(i): Answers([" ".join(draw.choices(_WORDS, k=draw.randint(1, 4))) for _ in range(draw.randint(1, 3))])
        for i in range(150)
    }
    expected = slow(answers, texts)
    assert 10 < len(expected) < 140  # both kinds are there
    assert found(answers, texts) == expected


def test_shared_answers_and_borders() -> None:
    answers = {
        "q": Answers(["Rome"]),
        "r": Answers(["x", "rome"]),
        "s": Answers(["the city of Rome"]),
        "t": Answers(["of Paris"]),
    }
    assert found(answers, ["Paris, the city of Rome"]) == {"q", "r", "s"}
    assert found(answers, ["the city of", "Rome"]) == {"q", "r"}
    assert found(answers, []) == set()


def test_answers_without_words_are_nowhere() -> None:
    answers = {"q": Answers(["\u200b"]), "r": Answers(["\u200b", "Rome"])}
    assert contains(Passages({"d": "Rome"}), "d", answers["q"])  # in DPR's rule it is everywhere
    assert found(answers, ["Rome"]) == {"r"}


@pytest.mark.parametrize("block", [1, 2, 3, 4, 7, 512])
def test_patterns(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(corpus_collection, "BLOCK", block)
    texts = ["nothing", "It rose to 2,575 feet", "above Jerusalem", "Île-de-France", "the end"]
    patterns = [r"2,?\d{3} feet", r"feet\s+above", r"^above", r"île", r"(", r"end$", r"nothing\s*It", "END"]
    answers = {str(i): Answers([pattern], True) for i, pattern in enumerate(patterns)}
    assert found(answers, texts) == slow(answers, texts) == {"0", "2", "3", "5", "7"}
