"""FanOutQA: leaves and evidence, titles that match, one page per article, everything zero-shot.

Seen to fail when: only the first level is searched for leaves; either side's title is not normalised; a passage of a
later section, or the last of the first, stands for an article; questions in the same words stay apart.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from task_reader import Task
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.fanoutqa import build_fanoutqa, read_fanoutqa
from pretrieve.corpora.builder import Article, build_corpus
from pretrieve.corpora.wikitext import Paragraph, Section
from pretrieve.tasks.splits import Target

SIZES = {"1pct": 0.01, "5pct": 0.05}


def page(title: str) -> dict[str, Any]:
    return {"pageid": 1, "revid": 1, "title": title, "url": f"https://en.wikipedia.org/wiki/{title}"}


def leaf(key: str, question: str, title: str) -> dict[str, Any]:
    return {
        "id": key,
        "question": question,
        "decomposition": [],
        "answer": "",
        "depends_on": [],
        "evidence": page(title),
    }


DEV = [
    {
        "id": "root",
        "question": "What do the animals eat?",
        "decomposition": [
            leaf("l1", "What does the aardvark eat?", "Aardvark"),
            {
                "id": "inner",
                "question": "And tools?",
                "decomposition": [leaf("l2", "What is an abacus?", "abacus"), leaf("l3", "What is a zebra?", "Zebra")],
                "evidence": None,
            },
            leaf("l4", "What does the aardvark eat?", "Azimuth"),
        ],
        "answer": {},
        "categories": [],
    }
]
TEST = [
    {
        "id": "t1",
        "question": "Which trees bear fruit?",
        "necessary_evidence": [page("Apple"), page("Aspen"), page("Zebra"), page("Atlas"), page("Azure")],
    },
    {"id": "t2", "question": "What is a zebra?", "necessary_evidence": [page("Zebra")]},
]


def build(questions: Any, corpus: Path, tokenizer: Tokenizer, directory: Path) -> Task:
    path = directory / "questions.json"
    path.write_text(json.dumps(questions))
    build_fanoutqa(path, corpus, Target(tokenizer, directory / "task", SIZES))
    return Task(directory / "task")


def relevant_titles(task: Task) -> dict[str, list[str]]:
    title = {row["doc_id"]: row["title"] for row in task.corpus.to_pylist()}
    return {query: [title[doc] for doc in docs] for query, docs in task.relevant().items()}


def test_dev_leaves(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Leaves at any depth; a lower-case title matches; l3's page is not in the corpus; l4 joins l1, word for word."""
    task = build(DEV, corpus, tokenizer, tmp_path)
    assert relevant_titles(task) == {"l1": ["Aardvark", "Azimuth"], "l2": ["Abacus"]}
    assert task.queries.to_pylist() == [
        {"query_id": "l1", "text": "What does the aardvark eat?"},
        {"query_id": "l2", "text": "What is an abacus?"},
    ]


def test_a_sign_in_a_title_begins_no_section(tokenizer: Tokenizer, tmp_path: Path) -> None:
    pages = [Article(title, [Section("", 1, [Paragraph(f"A text on {title}.")])]) for title in ("C", "C#")]
    build_corpus(pages, tmp_path / "corpus")
    questions = [{"id": "q", "question": "Who made it?", "necessary_evidence": [page("c#")]}]
    assert relevant_titles(build(questions, tmp_path / "corpus", tokenizer, tmp_path)) == {"q": ["C#"]}


def test_test_file_keeps_the_pages_it_can(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Zebra is not in the corpus, Azure has no first passage; the corpus writes Atlas with a small letter."""
    task = build(TEST, corpus, tokenizer, tmp_path)
    assert relevant_titles(task) == {"t1": ["Apple", "Aspen", "atlas"]}
    assert (task.stats["queries"], task.stats["tuples"]) == (1, 3)


def test_one_page_level_candidate_for_each_article(
    corpus: Path, leads: dict[str, tuple[str, str]], azimuth: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The lead if any, even beside a page (Aardvark); else the page's first passage (Azimuth); Azure has none."""
    task = build(TEST, corpus, tokenizer, tmp_path)
    rows = task.corpus.to_pylist()
    assert {row["title"]: row["passage"] for row in rows} == {title: lead for title, (lead, _) in leads.items()} | {
        "Azimuth": azimuth
    }
    assert {(row["sentence"], row["sentence_index"]) for row in rows} == {("", -1)}
    for row in rows:
        first, last = task.passages.passage_starts[row["passage_index"] : row["passage_index"] + 2]
        starts = task.passages.sentence_starts
        ids = task.passages.tokens[starts[first] : starts[last]].tolist()
        assert ids == tokenizer.encode(row["passage"], add_special_tokens=False).ids


def test_zero_shot(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    task = build(DEV, corpus, tokenizer, tmp_path)
    assert {(row["size"], row["split"]) for row in task.splits.to_pylist()} == {("1pct", "test"), ("5pct", "test")}


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([{"id": "q"}], r"question 0: expected an object with 'id' and 'question'"),
        (
            [{"id": "q", "question": "?", "necessary_evidence": [{"url": "x"}]}],
            r"question 'q': expected pages with a 'title'",
        ),
        ([{"id": "q", "question": "?", "decomposition": [], "evidence": None}], r"question 'q': expected pages"),
        ([{"id": "q", "question": " "}], r"question 0: expected an object with 'id' and 'question'"),
        ([{"id": "q", "question": "?", "decomposition": 5}], r"question 'q': decomposition '5'; expected a list"),
        ([{"id": "q", "question": "?", "necessary_evidence": [{"title": 5}]}], r"expected pages with a 'title'"),
        ([TEST[1]], r"none of the pages it names is among the 15 articles"),
        ({}, "expected a list"),
    ],
)
def test_faults_are_named(questions: Any, message: str, corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        build(questions, corpus, tokenizer, tmp_path)


def test_installed_files_have_this_format() -> None:
    """The real files: 310 dev questions with more leaves than questions, 725 test questions with several pages each."""
    fanoutqa = pytest.importorskip("fanoutqa")
    data = Path(fanoutqa.__file__).parent / "data"
    leaves, tests = (read_fanoutqa(data / f"fanout-final-{name}.json") for name in ("dev", "test"))
    assert len(leaves) > 1000
    assert all(len(question.titles) == 1 for question in leaves)
    assert len(tests) == 725
    assert sum(len(question.titles) for question in tests) > 3000
