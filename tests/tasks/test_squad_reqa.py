"""SQuAD → ReQA: candidates, gold sentences, the token stores, and errors that name what is wrong.

Seen to fail when: gold is the first sentence; identical contexts or wordings are kept apart; repeated ids, wrong spans,
offsets from the end or ``true`` as an offset pass; sentence rows count candidates; doc_tokens leaves the sentence out;
the open task keeps sentences, leaves the corpus out, or draws from it without its order; the one with more sentences has
passages, other judgements, or sentences of articles that it asks about.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from store_sentences import sentence_of
from task_reader import Task
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.squad_json import read_squad
from pretrieve.benchmarks.official.squad_reqa import build_squad, make_passage
from pretrieve.benchmarks.reading import build_task
from pretrieve.corpora.tables import read_table
from pretrieve.tasks.answers import Answers, read_answers
from pretrieve.tasks.splits import SplitRow, Target
from pretrieve.tasks.task import Candidate, Judgement, Query, TaskContents, write_task

DIG = "The aardvark digs burrows. It eats ants in Africa. It sleeps by day."
FRAME = "An abacus is a counting frame. It has beads."
BOW = "An arrow is shot from a bow. Bows are made of wood."
SIZES = {"half": 0.5}


def train_questions() -> dict[str, dict[str, list[tuple[str, str, str]]]]:
    """Eight questions on two passages; ids t0 … t7."""
    dig = [
        (f"t{i}", f"Question {i}?", answer) for i, answer in enumerate(["burrows", "ants", "Africa", "day", "aardvark"])
    ]
    frame = [(f"t{i + 5}", f"Question {i + 5}?", answer) for i, answer in enumerate(["counting", "beads", "It has"])]
    return {"Aardvark": {DIG: dig}, "Abacus": {FRAME: frame}}


@pytest.fixture
def task(squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path) -> Task:
    test = {"Arrow": {BOW: [("e0", "What shoots it?", "bow"), ("e1", "What are bows of?", "wood")]}}
    dev = {"Copy": {DIG: [("d0", "When does it sleep?", "by day")]}}  # an identical context under another title
    texts = {"train": train_questions(), "test": test, "dev": dev}
    files = {name: squad_file(name, questions) for name, questions in texts.items()}
    build_squad(files, Target(tokenizer, tmp_path / "task", SIZES, seed=1))
    return Task(tmp_path / "task")


def test_every_sentence_is_a_candidate_and_identical_contexts_count_once(task: Task) -> None:
    corpus = task.corpus.to_pylist()
    assert [row["doc_id"] for row in corpus] == ["0-0", "0-1", "0-2", "1-0", "1-1", "2-0", "2-1"]
    assert [row["sentence"] for row in corpus[:3]] == [
        "The aardvark digs burrows.",
        "It eats ants in Africa.",
        "It sleeps by day.",
    ]
    assert {row["passage"] for row in corpus[:3]} == {DIG}
    assert [row["passage_index"] for row in corpus] == [0, 0, 0, 1, 1, 2, 2]
    assert [row["sentence_index"] for row in corpus] == list(range(7))
    assert [row["title"] for row in corpus] == ["Aardvark"] * 3 + ["Abacus"] * 2 + ["Arrow"] * 2


def test_gold_is_the_sentence_of_the_answer(task: Task) -> None:
    gold = {query: [*docs] for query, docs in task.relevant().items()}
    assert gold["t0"] == ["0-0"]
    assert gold["t2"] == ["0-1"]
    assert gold["t3"] == ["0-2"]
    assert gold["e1"] == ["2-1"]
    assert gold["d0"] == ["0-2"]
    sentence = {row["doc_id"]: row["sentence"] for row in task.corpus.to_pylist()}
    for paragraphs in train_questions().values():
        for questions in paragraphs.values():
            for key, _, answer in questions:
                assert answer in sentence[gold[key][0]]


def test_answers_are_kept(task: Task, tmp_path: Path) -> None:
    answers = read_answers(tmp_path / "task" / "answers.parquet")
    assert list(answers) == [row["query_id"] for row in task.queries.to_pylist()]
    assert answers["t1"] == Answers(["ants"]) and answers["d0"] == Answers(["by day"])


def test_open_domain_has_whole_passages_and_those_of_a_corpus(
    squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path, corpus: Path
) -> None:
    texts = {"train": train_questions(), "test": {"Arrow": {BOW: [("e0", "What?", "bow")]}}}
    files = {name: squad_file(name, questions) for name, questions in texts.items()}

    def built(limit: int | None) -> Task:
        build_squad(files, Target(tokenizer, tmp_path / f"open{limit}", SIZES, 1), corpus, limit)
        return Task(tmp_path / f"open{limit}")

    whole, cut = built(None), built(2)
    texts = {row["doc_id"]: row["passage"] for row in whole.corpus.to_pylist()}
    assert [texts[str(number)] for number in range(3)] == [DIG, FRAME, BOW]
    others = [doc_id for doc_id in texts if doc_id.startswith("c")]
    passages = read_table(corpus / "passages.parquet", ["text"])["text"].to_pylist()
    assert [texts[doc_id] for doc_id in others] == list(
        dict.fromkeys(text for text in passages if text not in (DIG, FRAME, BOW))
    )
    assert {row["sentence_index"] for row in whole.corpus.to_pylist()} == {-1}
    assert {query: [*docs] for query, docs in whole.relevant().items()}["t2"] == ["0"]
    some = [row["doc_id"] for row in cut.corpus.to_pylist()]
    assert len(others) > 2 and len(some) == 5 and set(some) < set(texts)
    assert some[3:] == [doc_id for doc_id in others if doc_id in some]  # in the corpus's order


def test_more_sentences_of_a_corpus_change_nothing_else(
    squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path, corpus: Path
) -> None:
    """Paper ``pretraining_tasks`` §4.4: pairs are added "into the existing retrieval candidate set"."""
    texts = {"train": train_questions(), "test": {"Arrow": {BOW: [("e0", "What?", "bow")]}}}
    files = {name: squad_file(name, questions) for name, questions in texts.items()}

    def built(name: str, **options: object) -> Task:
        given = corpus if options else None
        build_task("squad", files, Target(tokenizer, tmp_path / name, SIZES, 1), given, options)
        return Task(tmp_path / name)

    closed, whole = built("closed"), built("whole", open="sentences")
    some = built("some", open="sentences", max_extra=3)
    rows = closed.corpus.to_pylist()
    for task in (whole, some):
        for name in ("queries", "splits"):
            assert getattr(task, name).equals(getattr(closed, name)), name
        assert task.relevant() == closed.relevant()
        assert task.corpus.to_pylist()[: len(rows)] == rows
    titles = read_table(corpus / "articles.parquet", ["title"])["title"].to_pylist()
    passages = read_table(corpus / "passages.parquet").to_pylist()
    others = {
        f"c{number}-{place}": (row["text"][start:end], row["text"])
        for number, row in enumerate(passages)
        if titles[row["article_id"]] not in ("Aardvark", "Abacus", "Arrow")
        for place, (start, end) in enumerate(zip(row["sentence_starts"], row["sentence_ends"], strict=True))
    }
    added = [{row["doc_id"]: row for row in task.corpus.to_pylist()[len(rows) :]} for task in (whole, some)]
    assert {name: (row["sentence"], row["passage"]) for name, row in added[0].items()} == others
    assert list(added[0]) == list(others) and all(row["sentence"] for row in added[0].values())
    assert len(others) > 3 == len(added[1]) and added[1].keys() < added[0].keys()


def test_pools_and_dev(task: Task) -> None:
    """Pool 8 + 2, half of it trains: 5 questions, of which 1 validates; the other 5 are test, e0 and e1 among them."""
    of = {
        split: [row["query_id"] for row in task.splits.to_pylist() if row["split"] == split]
        for split in ("train", "valid", "test", "dev")
    }
    assert [len(of[split]) for split in of] == [4, 1, 5, 1]
    assert of["dev"] == ["d0"]
    assert {"e0", "e1"} <= set(of["test"])


def test_token_stores_hold_the_texts(task: Task, tokenizer: Tokenizer) -> None:
    for row in task.corpus.to_pylist():
        assert (
            sentence_of(task.passages, row["sentence_index"]).tolist()
            == tokenizer.encode(row["sentence"], add_special_tokens=False).ids
        )
        first, last = task.passages.passage_starts[row["passage_index"] : row["passage_index"] + 2]
        assert first <= row["sentence_index"] < last
    queries = task.queries.to_pylist()
    assert task.query_tokens.n_passages == len(queries)
    for number, row in enumerate(queries):
        assert (
            sentence_of(task.query_tokens, number).tolist()
            == tokenizer.encode(row["text"], add_special_tokens=False).ids
        )
    assert np.array_equal(task.passages.passage_article(), np.arange(3))


def test_statistics_by_hand(task: Task, tokenizer: Tokenizer) -> None:
    def pieces(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    stats = task.stats
    assert (stats["queries"], stats["candidates"], stats["tuples"], stats["passages"]) == (11, 7, 11, 3)
    lengths = [pieces(row["sentence"]) + pieces(row["passage"]) for row in task.corpus.to_pylist()]
    assert stats["doc_tokens"] == pytest.approx(sum(lengths) / 7, abs=0.005)
    assert stats["query_tokens"] == pytest.approx(
        sum(pieces(row["text"]) for row in task.queries.to_pylist()) / 11, abs=0.005
    )
    assert stats["splits"] == {"half": {"train": 4, "valid": 1, "test": 5, "dev": 1}}


def test_same_input_same_bytes(squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path) -> None:
    train = squad_file("train", train_questions())
    test = squad_file("test", {"Arrow": {BOW: [("e0", "What shoots it?", "bow")]}})
    for name in ("one", "two"):
        build_squad({"train": train, "test": test}, Target(tokenizer, tmp_path / name, SIZES, seed=1))
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) > 20
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


def test_same_words_are_one_query(squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A test question in the words of a training question must not be asked again: it adds its sentence to that one."""
    train = squad_file("train", train_questions())
    test = squad_file("test", {"Arrow": {BOW: [("e0", "Question 1?", "wood"), ("e1", "What shoots it?", "bow")]}})
    build_squad({"train": train, "test": test}, Target(tokenizer, tmp_path / "task", SIZES, seed=1))
    task = Task(tmp_path / "task")
    assert task.relevant()["t1"] == {"0-1": 1, "2-1": 1}
    assert "e0" not in task.queries["query_id"].to_pylist()
    assert (task.stats["queries"], task.stats["tuples"]) == (9, 10)


def planted(path: Path, change: Callable[[dict], None]) -> None:
    root = json.loads(path.read_text())
    change(root["data"][0]["paragraphs"][0]["qas"][1])
    path.write_text(json.dumps(root))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda q: q["answers"][0].update(answer_start=3),
            r"train.json: article 'Aardvark', question 't1': answer 'ants' is not at answer_start 3.* stands at 35",
        ),
        (lambda q: q["answers"][0].update(answer_start=35 - len(DIG)), "is not at answer_start -33"),
        (lambda q: q["answers"][0].update(answer_start=True), "'answer_start' should be a non-empty int, found 'True'"),
        (lambda q: q["answers"][0].update(text="bees"), "nowhere in the context"),
        (lambda q: q.update(answers=[]), r"question 't1': has no answer"),
        (
            lambda q: q.update(id="t0"),
            r"article 'Aardvark', question 't0': the id was used before, in article 'Aardvark'",
        ),
        (
            lambda q: q.pop("question"),
            r"article 'Aardvark', paragraph 0, question 1: 'question' should be a non-empty str",
        ),
    ],
)
def test_faults_name_file_article_and_question(
    change: Callable[[dict], None], message: str, squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    train = squad_file("train", train_questions())
    planted(train, change)
    test = squad_file("test", {"Arrow": {BOW: [("e0", "What shoots it?", "bow")]}})
    with pytest.raises(DataError, match=message):
        build_squad({"train": train, "test": test}, Target(tokenizer, tmp_path / "task", SIZES, seed=1))
    assert not (tmp_path / "task" / "stats.json").exists()


def test_not_json_names_the_line(squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"data": [\n oops]}')
    with pytest.raises(DataError, match=r"broken.json: line 2, column 2: not valid JSON"):
        build_squad({"train": broken, "test": broken}, Target(tokenizer, tmp_path / "task", SIZES, seed=1))
    with pytest.raises(DataError, match=r"absent.json: no such file"):
        build_squad(
            {"train": tmp_path / "absent.json", "test": broken}, Target(tokenizer, tmp_path / "task", SIZES, seed=1)
        )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[" * 100_000, "values nested too deeply"),
        ('{"data":\n' + "1" * 5_000 + "}", "line 2, column 1: a number of 5,000 digits"),
        ('{"data": [{"title": "\\ud800"}]}', r"line 1, column 22: \ud800 without the other half of its surrogate pair"),
    ],
)
def test_json_that_no_text_can_be_made_of(tmp_path: Path, content: str, words: str) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(content)
    paragraphs, (problem,) = read_squad(broken)
    assert not paragraphs and problem.startswith(f"{broken}: ") and words in problem


def test_a_size_that_train_cannot_give(squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path) -> None:
    train = squad_file("train", train_questions())
    test = squad_file("test", {"Arrow": {BOW: [("e0", "What shoots it?", "bow"), ("e1", "Of what?", "wood")]}})
    with pytest.raises(ConfigError, match="needs 9 training questions of the pool's 10, but only 8"):
        build_squad({"train": train, "test": test}, Target(tokenizer, tmp_path / "task", {"most": 0.9}, seed=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.candidates.append(Candidate("0-0", 0, 0)), "doc_id '0-0' appears twice"),
        (lambda c: c.queries.append(Query("q", "again")), "query_id 'q' appears twice"),
        (lambda c: c.judgements.append(Judgement("q", "9-9")), "names an unknown query or candidate"),
        (lambda c: c.judgements.append(Judgement("q", "0-0", 0)), "relevance is below 1"),
        (lambda c: c.judgements.clear(), "1 queries have no relevant candidate, such as 'q'"),
        (lambda c: c.splits.append(SplitRow("x", "q", "train")), "size 'x' lists 2 queries"),
        (lambda c: c.queries.clear(), "no queries"),
    ],
)
def test_an_inconsistent_task_is_not_written(
    change: Callable[[TaskContents], None], message: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    contents = TaskContents([make_passage("Abacus", FRAME)], [Candidate("0-0", 0, 0), Candidate("0-1", 0, 1)])
    contents.queries, contents.judgements = [Query("q", "beads?")], [Judgement("q", "0-1")]
    contents.splits = [SplitRow("x", "q", "test")]
    contents.check()
    change(contents)
    with pytest.raises(DataError, match=message):
        write_task(tmp_path / "task", contents, tokenizer)
    assert not (tmp_path / "task").exists()


def test_the_program(squad_file: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path, program) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    train = squad_file("train", train_questions())
    test = squad_file("test", {"Arrow": {BOW: [("e0", "What shoots it?", "bow")]}})
    command = ["workflow_scripts/task.py", "squad", "--files", f"train={train}", f"test={test}"]
    command += ["--out", tmp_path / "t", "--tokenizer", tmp_path / "tokenizer.json", "--sizes"]
    done = program(*command, "half=0.5", "most=0.8")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == Task(tmp_path / "t").stats
    assert list(Task(tmp_path / "t").stats["splits"]) == ["half", "most"]
    done = program(*command, "half")
    assert (done.returncode, done.stderr) == (
        1,
        "ConfigError: --sizes: 'half' is not NAME=SHARE, NAME=NUMBER or NAME=all, such as 1pct=0.01.\n",
    )
