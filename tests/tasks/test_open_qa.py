"""Files of questions with answers: layouts told apart, hard encodings, messages, and the real files' counts.

Seen to fail when: the list is given to ``eval``, or read as JSON; quotes of CSV stay; ’ stays in questions or is changed
in answers; repeated or blank answers are kept; edges of questions stay; ids count from 1; only the key ``answer`` is known;
CuratedTREC's patterns are written as words.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from mirror import MIRROR, needs

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.open_qa import OpenQuestion, add_questions, read_questions
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.answers import Answers, Passages, contains
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_tables import Collection

#: Questions of the files: Karpukhin et al. 2020, Table 1, and the README of NQ-open.
OFFICIAL_COUNTS = {
    "nq-dev": 8_757,
    "nq-test": 3_610,
    "trivia-dev": 8_837,
    "trivia-test": 11_313,
    "webquestions-test": 2_032,
    "curatedtrec-test": 694,
    "squad1-test": 10_570,
    "nq-open-train": 87_925,
    "nq-open-dev": 3_610,
    "nq-open-efficientqa-dev": 1_800,
}

CSV = (
    b"who got the first nobel prize in physics\t['Wilhelm Conrad R\xc3\xb6ntgen']\r\n"
    b'"What is ""M*A*S*H"" about?"\t"[""The \'50s war"", \'\xf0\x9f\x9a\x81\', '
    b"'a\xe2\x80\xa8b', 'Korea', 'Korea', ' ']\"\r\n"
    b"who\xe2\x80\x99s first \t['Who\xe2\x80\x99s', '\\n\\u00e9\\'']\r\n"
)
EXPECTED = [
    OpenQuestion("who got the first nobel prize in physics", ["Wilhelm Conrad Röntgen"]),
    OpenQuestion('What is "M*A*S*H" about?', ["The '50s war", "🚁", "a\u2028b", "Korea"]),
    OpenQuestion("who's first", ["Who’s", "\né'"]),
]


def read(path: Path) -> list[OpenQuestion]:
    return [question for _, question in read_questions(path, Warnings())]


def test_the_csv_of_dpr(tmp_path: Path) -> None:
    path = tmp_path / "nq-test.qa.csv"
    path.write_bytes(CSV)
    warnings = Warnings()
    assert [question for _, question in read_questions(path, warnings)] == EXPECTED
    assert warnings.counts == {"blank answer": 1}
    assert [number for number, _ in read_questions(path, Warnings())] == [1, 2, 3]
    (tmp_path / "packed").write_bytes(gzip.compress(CSV))
    assert read(tmp_path / "packed") == EXPECTED


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    rows = [{"question": " who’s first ", "answer": ["a", "b", "a"]}, {"question": "q", "answers": ["c"], "id": 7}]
    path.write_text("\ufeff" + "\n\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert read(path) == [OpenQuestion("who's first", ["a", "b"]), OpenQuestion("q", ["c"])]


def test_questions_of_a_collection(tmp_path: Path) -> None:
    path = tmp_path / "test.qa.csv"
    path.write_bytes(CSV)
    with CollectionWriter(tmp_path / "out", "test") as writer:
        add_questions(path, "test", writer)
    collection = Collection(tmp_path / "out")
    assert collection.table("queries").num_rows == 3
    assert collection.table("queries").to_pylist()[2] == {"query_id": "test-2", "text": "who's first", "split": "test"}
    assert collection.table("answers").to_pylist()[1] == {
        "query_id": "test-1",
        "answers": EXPECTED[1].answers,
        "regex": False,
    }


def test_patterns_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "curated.jsonl"
    path.write_text(json.dumps({"question": "How high?", "answer": [r"\b2,?[4567][0-9][0-9]\b"]}))
    with CollectionWriter(tmp_path / "out", "test") as writer:
        add_questions(path, "test", writer, regular_expressions=True)
    (row,) = Collection(tmp_path / "out").table("answers").to_pylist()
    assert row["regex"] is True
    assert contains(Passages({"d": "It is 2,575 feet high."}), "d", Answers(row["answers"], row["regex"]))


BAD = {
    "answers '[chr(65)]'; expected a Python list": "q\t[chr(65)]",
    "answers \"{'a': 1}\"; expected a Python list of strings": "q\t{'a': 1}",
    "answers \"['a'\"; expected a Python list": "q\t['a'",
    "answers '[]'; expected a list of one or more": "q\t[]",
    "answer 1970; expected text": "q\t[1970]",
    "every answer is blank": "q\t['', ' ']",
    r"\ud83d without the other half of its surrogate pair": r"q" + "\t" + r"['\ud83d']",
    "question ''; expected text": "\t['a']",
    "1 fields; expected 2": "q",
    "3 fields; expected 2": "q\t['a']\t1",
    "the quotes in this record do not match": "\"q\" and\t['a']",
    "answers 'Rome'; expected a list": '{"question": "q", "answer": "Rome"}',
    "the keys are 'question', 'id'; expected 'question' and 'answer'": '{"question": "q", "id": 1}',
    "question None; expected text": '{"question": null, "answer": ["a"]}',
    "not JSON": '{"question": ',
}


@pytest.mark.parametrize("part", BAD)
def test_messages(tmp_path: Path, part: str) -> None:
    path = tmp_path / "bad"
    line = BAD[part]
    good = '{"question": "q", "answer": ["a"]}' if line.startswith("{") else "q\t['a']"
    path.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: line 2: ")
    assert part in str(caught.value)


def test_a_file_without_questions(tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("\n")
    with pytest.raises(DataError, match="no question"), CollectionWriter(tmp_path / "out", "test") as writer:
        add_questions(tmp_path / "none.csv", "test", writer)
    assert not (tmp_path / "out").exists()


@needs("openqa")
@pytest.mark.parametrize(
    ("name", "official", "answers"),
    [
        ("openqa/topics.dpr.nq.test.txt", "nq-test", 6_468),
        ("openqa/topics.dpr.nq.dev.txt.gz", "nq-dev", 10_693),
        ("openqa/topics.dpr.trivia.dev.txt.gz", "trivia-dev", 121_721),
        ("openqa/topics.dpr.wq.test.txt", "webquestions-test", 4_863),
        ("openqa/topics.dpr.curated.test.txt", "curatedtrec-test", 694),
        ("openqa/topics.dpr.squad.test.txt.gz", "squad1-test", 18_015),
        ("nq_open/NQ-open.dev.jsonl", "nq-open-dev", 6_490),
        ("nq_open/NQ-open.efficientqa.dev.1.1.jsonl", "nq-open-efficientqa-dev", 3_211),
    ],
)
def test_the_real_files(name: str, official: str, answers: int) -> None:
    warnings = Warnings()
    questions = [question for _, question in read_questions(MIRROR / name, warnings)]
    assert len(questions) == OFFICIAL_COUNTS[official]
    assert sum(len(question.answers) for question in questions) == answers
    assert not warnings.counts
    assert not any("’" in question.text or "\r" in question.text + "".join(question.answers) for question in questions)


@needs("openqa")
def test_records_of_the_real_files() -> None:
    trivia = read(MIRROR / "openqa/topics.dpr.trivia.dev.txt.gz")
    assert trivia[0].text == "The VS-300 was a type of what?"
    assert trivia[0].answers[:2] == ["🚁", "Helicopters"]
    boxing = next(question for question in trivia if question.text.startswith("Ezzard Charles was"))
    assert "Gentleman's sport" in boxing.answers
    assert "拳闘" in boxing.answers
    # Written with quotes of CSV around and within; the topics' other form has none
    assert sum(question.text.startswith('"') for question in trivia) > 0
    dpr, own = read(MIRROR / "openqa/topics.dpr.nq.test.txt"), read(MIRROR / "openqa/topics.nq.test.txt")
    assert dpr[1].answers == ["May 18 , 2018"]
    assert own[1].answers == ["May 18, 2018"]
