"""QNLI's construction: the answer's sentence, the hardest other one, the files' own split, articles that validate.

Seen to fail when: the negative is the first other sentence; a sentence with the answer's words is a negative; the
positive is the first sentence; validation shares an article with training; dev goes to test; an article in two files
passes; a question without a negative is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from example_reader import Examples, tree_bytes
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.question_entailment import CLASSES, build_question_entailment
from pretrieve.benchmarks.official.squad_json import Answer, Question
from pretrieve.tasks.splits import Target

DIG = "The aardvark digs burrows. Ants live in mounds near the water. It eats ants in Africa. Its ants are red."
BOW = "An arrow is shot from a bow. Bows are made of wood. Wood is a material of trees."
ONE = "There is a single sentence here."


@pytest.fixture
def files(squad_file: Callable[..., Path]) -> tuple[Path, Path, Path]:
    train = {
        f"Animal {i}": {
            f"{DIG} This is animal {i}.": [
                (f"t{i}a", f"Where does animal {i} eat what lives in mounds near water?", "Africa"),
                (f"t{i}b", f"What does animal {i} dig?", "burrows"),
            ]
        }
        for i in range(20)
    }
    test = {
        "Arrow": {BOW: [("e0", "Of what material are bows made?", "wood")], ONE: [("e1", "What is here?", "single")]}
    }
    dev = {"Bow": {BOW + " It is old.": [("d0", "What is shot?", "An arrow")]}}
    return squad_file("train", train), squad_file("test", test), squad_file("dev", dev)


@pytest.fixture
def task(files: tuple[Path, Path, Path], tokenizer: Tokenizer, tmp_path: Path) -> Examples:
    build_question_entailment(*files, Target(tokenizer, tmp_path / "task", {"10": 10, "full": "all"}, 1))
    return Examples(tmp_path / "task")


def test_sentences_and_labels(task: Examples) -> None:
    assert task.data.classes == list(CLASSES) == ["entailment", "not_entailment"]
    question, answer = task.examples["t3a-entailment"][0]
    assert question.startswith("Where does animal 3") and answer == "It eats ants in Africa."
    # It shares lives, mounds and water with the question; the first sentence shares nothing.
    assert task.examples["t3a-not_entailment"][0] == [question, "Ants live in mounds near the water."]
    # "Bows are made of wood." answers; "Wood is a material of trees." is most alike, but has the answer's word in it.
    assert task.examples["e0-entailment"][0][1] == "Bows are made of wood."
    assert task.examples["e0-not_entailment"][0][1] == "An arrow is shot from a bow."
    assert [task.examples[f"e0-{name}"][1] for name in CLASSES] == [[0.0], [1.0]]
    # A paragraph of one sentence has no negative.
    assert not any(name.startswith("e1") for name in task.examples)
    stats = json.loads((task.data.directory / "stats.json").read_text())
    assert stats["about"]["questions_left_out"] == 1 and stats["classes"] == {"entailment": 42, "not_entailment": 42}


def test_the_files_split_is_kept_and_articles_validate(task: Examples) -> None:
    full = task.splits["full"]
    assert set(full["test"]) == {f"e0-{name}" for name in CLASSES} and set(full["dev"]) == {
        f"d0-{name}" for name in CLASSES
    }
    animals = {part: {example_id.split("-")[0][1:-1] for example_id in full[part]} for part in ("train", "valid")}
    assert not animals["train"] & animals["valid"] and (len(animals["train"]), len(animals["valid"])) == (18, 2)
    assert len(full["train"]) == 72 and len(task.splits["10"]["train"]) == 9 and len(task.splits["10"]["valid"]) == 1


def test_bytes(files: tuple[Path, Path, Path], tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name in "ab":
        build_question_entailment(*files, Target(tokenizer, tmp_path / name, {"full": "all"}, 1))
    assert tree_bytes(tmp_path / "a") == tree_bytes(tmp_path / "b")


def test_hardest_sentence_by_hand() -> None:
    from pretrieve.benchmarks.made.question_entailment import hardest_other

    question = Question("q", "Which colour has the small red boat?", (Answer("blue", 0),))
    sentences = ["A boat is red.", "It is BLUE here.", "The small boat is red.", "A small red boat sank.", "Fish swim."]
    assert hardest_other(question, sentences, set()) == 2  # before number 3, which shares as many words
    assert hardest_other(question, sentences, {2, 3}) == 0
    assert hardest_other(question, sentences[1:2], set()) is None  # an answer's words stand in it


def test_faults(files, squad_file, tokenizer: Tokenizer, tmp_path: Path) -> None:
    again = squad_file("again", {"Animal 3": {BOW: [("z", "What is it?", "bow")]}})
    with pytest.raises(DataError, match=r"again.json: article 'Animal 3' is in .*train.json too"):
        build_question_entailment(files[0], again, None, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(DataError, match=r"broken.json: line 1"):
        build_question_entailment(files[0], broken, None, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    twice = squad_file("twice", {"Other": {BOW: [("t0a", "What is shot?", "arrow")]}})
    with pytest.raises(DataError, match="t0a-entailment' stands twice"):
        build_question_entailment(files[0], twice, None, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
