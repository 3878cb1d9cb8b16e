"""The question set: the real one is sound, and every kind of fault is reported, all of them at once.

Seen to fail when: faults of the files, wrong ids, articles in two splits, too few articles, copied sentences or foreign
contexts are not reported; wordings are compared with their case; stale statistics pass.
"""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

REAL = Path(__file__).parents[2] / "resources" / "questions"
CHECK = SimpleNamespace(**runpy.run_path(str(REAL / "check.py")))
BEGIN, END, Limits, question_id = CHECK.BEGIN, CHECK.END, CHECK.Limits, CHECK.question_id
check_question_set, statistics_table, update_readme = (
    CHECK.check_question_set,
    CHECK.statistics_table,
    CHECK.update_readme,
)
SMALL = Limits(questions=10, articles=10, dev=(0.05, 0.15), train=(0.7, 0.8))


@pytest.fixture
def small(squad_file: Callable[..., Path]) -> Path:
    """A sound set of ten articles with one question each: 1 dev, 7 train, 2 test."""
    made = {}
    for number in range(10):
        title, question = f"Article {number}", f"Who invented machine {number}?"
        context = f"In the year {1800 + number} the device was built by Engineer{number}. It was large."
        made[title] = {context: [(question_id(title, question), question, f"Engineer{number}")]}
    names = list(made)
    for split, titles in (("dev", names[:1]), ("train", names[1:8]), ("test", names[8:])):
        path = squad_file(split, {title: made[title] for title in titles})
    return path.parent


def edit(directory: Path, split: str, change: Callable[[list], None]) -> None:
    path = directory / f"{split}.json"
    root = json.loads(path.read_text())
    change(root["data"])
    path.write_text(json.dumps(root))


def first_question(data: list) -> dict:
    return data[0]["paragraphs"][0]["qas"][0]


def test_the_real_set_is_sound(program) -> None:
    """Runs the program as a user does; without --write it also fails when the README's statistics are stale."""
    done = program(REAL / "check.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (REAL / "README.md").read_text()


def test_the_program_lists_every_problem_and_fails(tmp_path: Path, program) -> None:
    for path in REAL.glob("*.json"):
        shutil.copy(path, tmp_path)
    shutil.copy(REAL / "README.md", tmp_path)
    edit(tmp_path, "dev", lambda data: data[0]["paragraphs"][0]["qas"].clear())
    edit(tmp_path, "test", lambda data: first_question(data)["answers"][0].update(answer_start=0))
    done = program(REAL / "check.py", tmp_path)
    assert done.returncode == 1
    assert "is not at answer_start 0" in done.stderr
    assert "statistics are stale" in done.stderr
    assert "2 problems" in done.stderr


def test_a_sound_small_set_has_no_problem(small: Path) -> None:
    entries, problems = check_question_set(small, limits=SMALL)
    assert problems == []
    assert [entry.split for entry in entries] == ["train"] * 7 + ["dev"] + ["test"] * 2


def copy_question(data: list) -> None:
    """The first article's question again, word for word but for case and dots, under the third article."""
    question = json.loads(json.dumps(first_question(data)))
    context = data[2]["paragraphs"][0]["context"]
    text = question["question"].upper().replace(" ", "  ")
    answer = {"text": "It was large", "answer_start": context.index("It was large")}
    data[2]["paragraphs"][0]["qas"].append(
        {"id": question_id(data[2]["title"], text), "question": text, "answers": [answer]}
    )


FAULTS = {
    "span": (lambda d: first_question(d)["answers"][0].update(answer_start=2), "is not at answer_start 2"),
    "layout": (lambda d: first_question(d).pop("answers"), "'answers' should be a non-empty list"),
    "offset type": (lambda d: first_question(d)["answers"][0].update(answer_start="7"), "'answer_start' should be"),
    "no paragraphs": (lambda d: d[0].pop("paragraphs"), "'paragraphs' should be"),
    "blank": (lambda d: first_question(d)["answers"][0].update(text=" Engineer1", answer_start=40), "blanks at an end"),
    "question mark": (
        lambda d: first_question(d).update(question="Name the engineer"),
        "does not end with a question mark",
    ),
    "id": (lambda d: first_question(d).update(id="1234"), "should be '"),
    "same id": (lambda d: first_question(d).update(id=first_question(d[1:])["id"]), "same id as question"),
    "same wording": (copy_question, "same wording as question"),
    "article twice": (lambda d: d[0].update(title="Article 9"), "this article is in"),
    "too few": (lambda d: d.pop(), "9 questions, expected at least 10"),
    "too few articles": (lambda d: d[0].update(title="Article 2"), "9 articles, expected at least 10"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults(name: str, small: Path) -> None:
    change, message = FAULTS[name]
    edit(small, "train", change)
    _, problems = check_question_set(small, limits=SMALL)
    assert any(message in problem for problem in problems), problems


def test_a_missing_file_and_broken_json_are_problems(small: Path) -> None:
    (small / "dev.json").unlink()
    (small / "test.json").write_text("{")
    _, problems = check_question_set(small, limits=SMALL)
    assert any("dev.json: no such file" in problem for problem in problems)
    assert any("test.json: line 1, column 2: not valid JSON" in problem for problem in problems)


def test_questions_that_copy_their_sentence(small: Path) -> None:
    def copying(data: list) -> None:
        for article in data:
            question = article["paragraphs"][0]["qas"][0]
            question["question"] = "Who built the device in that year?"

    edit(small, "train", copying)
    entries, problems = check_question_set(small, limits=SMALL)
    assert any(problem.startswith("30.0% of the questions share no content word") for problem in problems), problems
    assert entries[0].overlap == {"built", "devic", "year"}


def test_shares_of_the_splits(small: Path) -> None:
    (_, problems) = check_question_set(small, limits=Limits(questions=1, articles=1))
    assert problems == ["train.json holds 77.8% of train and test, expected 80.5% to 83.0%; move articles."]
    (_, problems) = check_question_set(small, limits=Limits(questions=1, articles=1, dev=(0.2, 0.3), train=(0.7, 0.8)))
    assert problems == ["dev.json holds 10.0% of all questions, expected 20.0% to 30.0%; move articles."]


def test_contexts_must_be_passages_of_the_corpus(small: Path, corpus: Path) -> None:
    _, problems = check_question_set(small, corpus, SMALL)
    assert sum("is not a passage of" in problem for problem in problems) == 10
    lead = "An abacus is a counting frame. It has beads."

    def use_lead(data: list) -> None:
        paragraph = data[0]["paragraphs"][0]
        paragraph["context"] = lead
        paragraph["qas"][0]["answers"] = [{"text": "beads", "answer_start": lead.index("beads")}]

    edit(small, "train", use_lead)
    _, problems = check_question_set(small, corpus, SMALL)
    assert sum("is not a passage of" in problem for problem in problems) == 9


def test_statistics_by_hand(small: Path) -> None:
    """Every question has 4 words and shares none with its sentence; every context has 13 words."""
    table = statistics_table(check_question_set(small, limits=SMALL)[0])
    assert "| questions | 7 | 1 | 2 | 10 |" in table
    assert "| words per question, mean | 4.0 | 4.0 | 4.0 | 4.0 |" in table
    assert "| words per answer, mean | 1.0 | 1.0 | 1.0 | 1.0 |" in table
    assert "| words per paragraph, mean over questions | 13 | 13 | 13 | 13 |" in table
    assert "| content words shared with it, mean | 0.00 | 0.00 | 0.00 | 0.00 |" in table
    assert "| who | 10 | 100.0% |" in table


def test_readme_is_written_between_the_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    assert "no such file" in update_readme(readme, "new", write=True)[0]
    readme.write_text("text")
    assert "expected the markers" in update_readme(readme, "new", write=True)[0]
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert "stale" in update_readme(readme, "new", write=False)[0]
    assert "old" in readme.read_text()
    assert update_readme(readme, "new", write=True) == []
    assert readme.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert update_readme(readme, "new", write=False) == []
