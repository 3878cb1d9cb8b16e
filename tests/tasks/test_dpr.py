"""DPR's passages and training files: exact records, the collection they make, messages.

Seen to fail when: quotes are not undone, or not stripped, or stripped when they should stay; psg_id is not known; positives are
sorted, here or in the task, or the first only; negatives that are positives stay, or random ones come along; a question without
a positive is kept; queries are numbered after others are left out; the official count is not checked.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.dpr_collection import is_training, read_passages, read_training
from pretrieve.benchmarks.reading import build_collection
from pretrieve.corpora.beir_documents import Document
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.collection_tables import Collection
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.splits import Target

# As csv.writer writes them: texts with a quote are quoted, and so is a title with one.
PASSAGES = (
    "id\ttext\ttitle\n"
    '1\t"Aaron ( or ; ""Ahärôn"") is a prophet"\tAaron\n'
    '2\t"""Heroes"" is an album, called ""the one"""\t"""Heroes"" (album)"\n'
    "3\tIt's plain – no quotes\u2028here\tPlain\r\n"
    "4\t東京 is a city\tTokyo\n"
)


def ctx(number: int, key: str = "passage_id", **more: object) -> dict:
    return {"title": f"T{number}", "text": f"text {number}", "score": 1.5, key: str(number)} | more


TRAIN = [
    {
        "dataset": "nq_train",
        "question": "who’s Aaron ",
        "answers": ["prophet", "prophet", ""],
        "positive_ctxs": [ctx(4), ctx(1)],
        "negative_ctxs": [ctx(2)],
        "hard_negative_ctxs": [ctx(3), ctx(1), ctx(3)],
    },
    {"question": "nothing", "answers": [], "positive_ctxs": [], "negative_ctxs": [], "hard_negative_ctxs": []},
    {
        "question": "trivia",
        "answers": ["x"],
        "positive_ctxs": [ctx(2, "psg_id")],
        "hard_negative_ctxs": [{"text": "no id"}],
    },
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "psgs_w100.tsv.gz").write_bytes(gzip.compress(PASSAGES.encode()))
    (tmp_path / "biencoder-nq-train.json").write_text(json.dumps(TRAIN, indent=4))
    (tmp_path / "nq-test.qa.csv").write_text("who is it\t['Aaron']\n")
    names = {"passages": "psgs_w100.tsv.gz", "train": "biencoder-nq-train.json", "test": "nq-test.qa.csv"}
    return {name: tmp_path / file for name, file in names.items()}


def test_passages(files: dict[str, Path]) -> None:
    assert list(read_passages(files["passages"], True, Warnings())) == [
        (2, Document("1", "Aaron", 'Aaron ( or ; "Ahärôn") is a prophet')),
        (3, Document("2", '"Heroes" (album)', 'Heroes" is an album, called "the one')),
        (4, Document("3", "Plain", "It's plain – no quotes\u2028here")),
        (5, Document("4", "Tokyo", "東京 is a city")),
    ]
    kept = dict(read_passages(files["passages"], False, Warnings()))
    assert kept[3].text == '"Heroes" is an album, called "the one"'


def test_training_questions(files: dict[str, Path]) -> None:
    warnings = Warnings()
    questions = dict(read_training(files["train"], warnings))
    assert list(questions) == [0, 2]
    assert warnings.counts == {"training question without a positive passage": 1}
    assert questions[0].text == "who’s Aaron"
    assert questions[0].answers == ["prophet"]
    assert [passage.doc_id for passage in questions[0].positives] == ["4", "1"]
    assert questions[2].positives == [Document("2", "T2", "text 2")]
    assert questions[2].hard == [Document("", "", "no id")]
    assert questions[2].random == []


def rows(collection: Collection, name: str) -> list[tuple]:
    return [tuple(row.values()) for row in collection.table(name).to_pylist()]


def test_the_collection(files: dict[str, Path], tmp_path: Path) -> None:
    collection = build_collection("dpr", files, tmp_path / "out", {"official": False})
    assert [row[0] for row in collection.documents()] == ["1", "2", "3", "4"]
    assert rows(collection, "queries") == [
        ("train-0", "who's Aaron", "train"),
        ("train-2", "trivia", "train"),
        ("test-0", "who is it", "test"),
    ]
    assert rows(collection, "qrels") == [
        ("train-0", "4", 1, "train"),
        ("train-0", "1", 1, "train"),
        ("train-2", "2", 1, "train"),
    ]
    assert rows(collection, "negatives") == [("train-0", "3")]
    assert rows(collection, "answers") == [
        ("train-0", ["prophet"], False),
        ("train-2", ["x"], False),
        ("test-0", ["Aaron"], False),
    ]
    assert collection.stats["warnings"]["training passage without an id"]["count"] == 1
    assert collection.stats["variant"] == "psgs_w100, quotes stripped from both ends of texts"
    everything = build_collection("dpr", files, tmp_path / "all", {"official": False, "negatives": "all"})
    assert rows(everything, "negatives") == [("train-0", "3"), ("train-0", "2")]


def test_a_page_of_natural_questions_is_no_training_question(tmp_path: Path) -> None:
    """Its line is longer than what other files may have."""
    (tmp_path / "nq.jsonl").write_text(json.dumps({"question_text": "why", "document_text": "x" * (17 << 20)}) + "\n")
    assert not is_training(tmp_path / "nq.jsonl")


def test_training_questions_as_json_lines(files: dict[str, Path], tmp_path: Path) -> None:
    """``JsonlQADataset`` (dpr/data/biencoder_data.py). Seen to be read as questions without passages: none could train."""
    build_collection("dpr", files, tmp_path / "array", {"official": False})
    files["train"].write_text("".join(json.dumps(question) + "\n" for question in TRAIN))
    build_collection("dpr", files, tmp_path / "lines", {"official": False})
    for name in ("queries", "qrels", "negatives", "answers"):
        assert rows(Collection(tmp_path / "lines"), name) == rows(Collection(tmp_path / "array"), name), name
    with pytest.raises(
        DataError, match=r"biencoder-nq-train.json: line 2: found .*expected an object with a 'question'"
    ):
        files["train"].write_text(json.dumps(TRAIN[0]) + '\n{"question": " "}\n')
        build_collection("dpr", files, tmp_path / "faulty", {"official": False})


def test_the_gold_passage_is_the_first_of_the_task(
    files: dict[str, Path], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """``examples: first`` trains on it: the order of ``positive_ctxs``, not that of the passages, reaches the training."""
    orders = {f"question {n}": [4, 1, 3] if n % 2 else [2, 4] for n in range(24)}
    asked = [
        {"question": text, "answers": ["is"], "positive_ctxs": [ctx(number) for number in order]}
        for text, order in orders.items()
    ]
    files["train"].write_text(json.dumps(asked))
    build_collection("dpr", files, tmp_path / "out", {"official": False})
    build_collection_task(tmp_path / "out", Target(tokenizer, tmp_path / "task", {"full": "all"}, 1), "separate")
    data = Dataset(tmp_path / "task")
    wanted = {f"train-{n}": [str(number) for number in order] for n, order in enumerate(orders.values())}
    found = {name: [data.document_ids[row] for row in data.relevant[data.query_row(name)]] for name in wanted}
    assert found == wanted and len(data.split("full", "train")) > 9


def test_training_files_alone(files: dict[str, Path], tmp_path: Path) -> None:
    del files["passages"]
    collection = build_collection("dpr", files, tmp_path / "out")
    ids = [row[0] for row in collection.documents()]
    assert ids[:4] == ["4", "1", "3", "2"]
    assert len(ids) == 5  # the passage without an id has a name of its own
    assert rows(collection, "negatives") == [("train-0", "3"), ("train-2", ids[4])]
    assert "training files only" in collection.stats["variant"]


def test_the_official_count(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="read 4 documents, expected 21,015,324"):
        build_collection("dpr", files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


BAD_TRAINING = {
    "element 0: found \"{'q': 1}\"; expected an object with a 'question'": {"q": 1},
    "element 0: no key 'positive_ctxs'; it has 'question', 'answers'": {"question": "q", "answers": []},
    "element 0: answers 'Rome'; expected a list": {"question": "q", "answers": "Rome"},
    "positive_ctxs, number 1: found \"{'title': 'x'}\"": {"question": "q", "positive_ctxs": [ctx(1), {"title": "x"}]},
    "hard_negative_ctxs is '{}'; expected a list": {"question": "q", "positive_ctxs": [], "hard_negative_ctxs": {}},
    "\\ud83d without the other half": {"question": "q", "positive_ctxs": [ctx(1, text="\ud83d")]},
}


@pytest.mark.parametrize("part", BAD_TRAINING)
def test_messages_of_training_files(tmp_path: Path, part: str) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps([BAD_TRAINING[part]]))
    with pytest.raises(DataError) as caught:
        list(read_training(path, Warnings()))
    assert str(caught.value).startswith(str(path))
    assert part in str(caught.value)


def test_messages(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "passages.tsv"
    for text, part in [
        ("id\ttitle\ttext\n", "line 1: header 'id', 'title', 'text'; expected 'id', 'text', 'title'"),
        ("id\ttext\ttitle\n1\ta\n", "line 2: 2 fields; expected 3"),
        ("id\ttext\ttitle\n \ta\tb\n", "line 2: id ' '; expected the number of a passage"),
        ('id\ttext\ttitle\n1\t"a\tb\n2\tc\td\n', "line 2: the quotes in this record do not match"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=f"passages.tsv: {part}"):
            list(read_passages(path, True, Warnings()))
    with pytest.raises(ConfigError, match="negatives: 'soft' is not allowed; allowed: hard, all, none"):
        build_collection("dpr", files, tmp_path / "out", {"negatives": "soft"})
    with pytest.raises(DataError, match="DPR: no passages"):
        build_collection("dpr", {"test": files["test"]}, tmp_path / "out")
    (tmp_path / "psgs_w100.tsv.gz").write_bytes(gzip.compress(PASSAGES.replace("4\t", "5\t").encode()))
    with pytest.raises(DataError, match="document '4', which is not among the 4"):
        build_collection("dpr", files, tmp_path / "out", {"official": False})
