"""MultiReQA: sentences by published offsets, on texts in MRQA's format, and the real offsets on SQuAD's paragraphs.

Seen to fail when: the end of a candidate is inclusive, or that of an answer exclusive; candidates are in the order of
their lines; text between candidates is dropped or becomes a candidate; a question is judged by its answers' texts;
candidates of other questions pass; a question without a candidate stays; the header is a context; a sentence that is read
alone has its context beside it, for encoders or for BM25.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mirror import MIRROR, needs
from task_reader import Task
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.multireqa import build_multireqa, read_candidates
from pretrieve.benchmarks.official.squad_json import read_squad
from pretrieve.benchmarks.reading import build_task
from pretrieve.commands.bm25 import _documents
from pretrieve.corpora.tables import read_table
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.splits import Target

#: Candidates of the published files: of the README, and of train/SQuAD as it is.
OFFICIAL_COUNTS = {"dev/SQuAD": 10_642, "dev/NaturalQuestions": 22_118, "train/SQuAD": 95_659}

#: 🚁 is one character and four bytes; "[PAR]" is in no candidate.
CONTEXT = "[PAR] Aardvarks 🚁 dig. They eat ants in Africa.  Ants bite. The end."
SENTENCES = ["Aardvarks 🚁 dig.", "They eat ants in Africa.", "Ants bite."]


def question(qid: str, text: str, *answers: str) -> dict[str, Any]:
    detected = [
        {"text": answer, "char_spans": [[CONTEXT.index(answer), CONTEXT.index(answer) + len(answer) - 1]]}
        for answer in answers
    ]
    return {"qid": qid, "question": text, "detected_answers": detected, "answers": list(answers), "context_tokens": []}


QUESTIONS = [
    question("q1", "What do they do?", "dig"),
    question("q2", "Where? ", "Africa", "Ants"),
    question("q3", "How does it end?", "end"),
    question("q4", "Where?", "ants in Africa."),
    question("q5", "What bites?", "Ants"),  # of which the sentence before speaks as well
]


def write(tmp_path: Path, sentences: list[str] = SENTENCES, **changes: Any) -> tuple[Path, Path]:
    lines = []
    for number in (0, 2, 1)[: len(sentences)]:
        start = CONTEXT.index(sentences[number])
        entry = {"candidate_id": f"SQuAD_q1/q2/q3/q4/q5/_{number}", "response_start": start}
        lines.append(entry | {"response_end": start + len(sentences[number])} | changes)
    (tmp_path / "candidates.json.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    texts = [{"header": {"dataset": "SQuAD", "split": "dev"}}, {"id": "", "context": CONTEXT, "qas": QUESTIONS}]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)))
    return tmp_path / "candidates.json.gz", tmp_path / "texts.jsonl"


def build(tmp_path: Path, tokenizer: Tokenizer, files: tuple[Path, Path], **options: Any) -> Task:
    build_multireqa(
        *files, Target(tokenizer, tmp_path / "task", {"full": "all"}), **{"warnings": Warnings(), **options}
    )
    return Task(tmp_path / "task")


def test_the_task(tmp_path: Path, tokenizer: Tokenizer) -> None:
    warnings = Warnings()
    task = build(tmp_path, tokenizer, write(tmp_path), warnings=warnings)
    corpus = task.corpus.to_pylist()
    assert [row["sentence"] for row in corpus] == SENTENCES
    assert [row["doc_id"] for row in corpus] == [f"SQuAD_q1/q2/q3/q4/q5/_{number}" for number in range(3)]
    assert {row["passage"] for row in corpus} == {CONTEXT}
    # [PAR] and "The end." are sentences of the store, so that an encoder reads the whole context
    assert [row["sentence_index"] for row in corpus] == [1, 2, 3]
    assert len(task.passages.sentence_starts) - 1 == 5
    relevant = {query: sorted(int(doc[-1]) for doc in docs) for query, docs in task.relevant().items()}
    assert relevant == {"q1": [0], "q2": [1, 2], "q5": [2]}  # q4 asks the same as q2
    assert warnings.counts == {"question whose answer begins in no candidate": 1}
    assert set(task.splits["split"].to_pylist()) == {"test"}
    answers = {row["query_id"]: row["answers"] for row in read_table(tmp_path / "task/answers.parquet").to_pylist()}
    assert answers == {"q1": ["dig"], "q2": ["Africa", "Ants", "ants in Africa."], "q5": ["Ants"]}


def test_hotpotqa_numbers_paragraphs_and_their_sentences(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """As in data/dev/HotpotQA/candidates.json.gz: ``HotpotQA_0002f10cb91d4120accae4784ca7f8c8/_0_1``."""
    task = build(tmp_path / "plain", tokenizer, write(tmp_path))
    candidates = tmp_path / "candidates.json.gz"
    lines = gzip.decompress(candidates.read_bytes()).replace(b"SQuAD_", b"HotpotQA_").replace(b"/_", b"/_1_")
    candidates.write_bytes(gzip.compress(lines))
    found = build(tmp_path, tokenizer, (candidates, tmp_path / "texts.jsonl"))
    assert [row["doc_id"] for row in found.corpus.to_pylist()] == [f"HotpotQA_q1/q2/q3/q4/q5/_1_{n}" for n in range(3)]
    assert found.corpus["sentence"] == task.corpus["sentence"]
    assert {query: len(docs) for query, docs in found.relevant().items()} == {"q1": 1, "q2": 2, "q5": 1}


def test_sentences_alone(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Paper ``dual_encoders`` §4: "the answer candidates are individual sentences". Judgements are those of the pairs."""
    files = write(tmp_path)
    pairs = build(tmp_path / "pairs", tokenizer, files)
    alone = build(tmp_path / "alone", tokenizer, files, context=False)
    for name in ("queries", "splits"):
        assert getattr(alone, name).equals(getattr(pairs, name)), name
    assert alone.relevant() == pairs.relevant()
    rows = alone.corpus.to_pylist()
    assert [row["doc_id"] for row in rows] == pairs.corpus["doc_id"].to_pylist()
    assert [row["passage"] for row in rows] == SENTENCES and {row["sentence"] for row in rows} == {""}
    data = Dataset(tmp_path / "alone/task").read_by("t5")
    packed = data.pack_candidates(np.arange(3), 64)
    for start, length, row in zip(packed.starts, packed.lengths, packed.order, strict=True):
        words = [tokenizer.id_to_token(int(token)) for token in packed.tokens[start : start + length]]
        assert words == [*tokenizer.encode(SENTENCES[row], add_special_tokens=False).tokens, "[SEP]"]
    # what BM25 indexes
    assert [text for _, text in _documents(tmp_path / "alone/task")] == SENTENCES
    options = {"context": False, "role": "test"}
    names = dict(zip(("candidates", "texts"), files, strict=True))
    built = build_task("multireqa", names, Target(tokenizer, tmp_path / "keyed", {"full": "all"}), None, options)
    assert built == alone.stats


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"candidate_id": "SQuAD"}, "line 1: candidate_id 'SQuAD'; expected DATASET_QID/QID/…/_NUMBER"),
        ({"response_start": 5, "response_end": 5}, "characters 5 to 5; expected a start below the end"),
        ({"response_end": 999}, "to 999; expected none before 0 and at most"),
        ({"response_start": 6, "response_end": 9}, "characters 6 to 9; expected none before 9"),
        ({"candidate_id": "SQuAD_zz/_0"}, "question 'zz' and 0 more are not in"),
        ({"response_start": "6"}, "characters '6' to"),
        ({"candidate_id": "SQuAD_q1/_" + "1" * 5_000}, "expected DATASET_QID/QID/…/_NUMBER"),
    ],
)
def test_messages_of_candidates(tmp_path: Path, tokenizer: Tokenizer, changes: dict[str, Any], part: str) -> None:
    with pytest.raises(DataError) as caught:
        build(tmp_path, tokenizer, write(tmp_path, **changes))
    assert part in str(caught.value)
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ({"context": "x"}, "line 2: no 'context' with 'qas'"),
        ({"context": "x", "qas": [{"qid": "a"}]}, "expected 'qid', 'question' and 'detected_answers'"),
        (
            {
                "context": "x",
                "qas": [{"qid": "a", "question": "?", "detected_answers": [{"text": "x", "char_spans": [[0, 1]]}]}],
            },
            "question 'a': answer at characters 0 to 1; the context has 1",
        ),
        (
            {
                "context": "x",
                "qas": [
                    {
                        "qid": "a",
                        "question": "?",
                        "detected_answers": [{"text": "x", "char_spans": [[0, float("inf")]]}],
                    }
                ],
            },
            "expected 'qid', 'question' and 'detected_answers'",
        ),
    ],
)
def test_messages_of_texts(tmp_path: Path, tokenizer: Tokenizer, line: dict[str, Any], part: str) -> None:
    candidates, texts = write(tmp_path)
    texts.write_text('{"header": {}}\n' + json.dumps(line))
    with pytest.raises(DataError) as caught:
        build(tmp_path, tokenizer, (candidates, texts))
    assert part in str(caught.value)


BLANK_QUESTION = {"qid": "zz", "question": " \u00a0", "detected_answers": [{"text": "dig", "char_spans": [[17, 19]]}]}


def with_questions(texts: Path, *more: dict[str, Any]) -> None:
    lines = [{"header": {}}, {"context": CONTEXT, "qas": [*more, *QUESTIONS]}]
    texts.write_text("\n".join(map(json.dumps, lines)))


def test_blank_questions_are_left_out_and_counted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    candidates, texts = write(tmp_path)
    build(tmp_path / "without", tokenizer, (candidates, texts))
    with_questions(texts, BLANK_QUESTION, BLANK_QUESTION | {"qid": "yy"})
    warnings = Warnings()
    task = build(tmp_path, tokenizer, (candidates, texts), warnings=warnings)
    assert warnings.counts == {"blank question left out": 2, "question whose answer begins in no candidate": 1}
    assert warnings.examples["blank question left out"] == f"{texts}: line 2, question 'zz'"
    assert sorted(task.relevant()) == ["q1", "q2", "q5"]
    for file in (tmp_path / "without/task").rglob("*.parquet"):
        assert (tmp_path / "task" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(("answer", "found"), [(5, "'5'"), (None, "'None'"), (" ", "' '"), (["dig"], "['dig']")])
def test_an_answer_that_is_no_text_is_found_in_its_line(
    tmp_path: Path, tokenizer: Tokenizer, answer: Any, found: str
) -> None:
    candidates, texts = write(tmp_path)
    entry = {"qid": "zz", "question": "?", "detected_answers": [{"text": answer, "char_spans": [[17, 19]]}]}
    with_questions(texts, entry)
    with pytest.raises(DataError) as caught:
        build(tmp_path, tokenizer, (candidates, texts))
    assert str(caught.value).startswith(f"{texts}: line 2: question 'zz': answer ") and found in str(caught.value)


def test_no_question_that_can_be_used(tmp_path: Path, tokenizer: Tokenizer) -> None:
    candidates, texts = write(tmp_path)
    for entry in (entries := json.loads(texts.read_text().splitlines()[1])["qas"]):
        entry["question"] = ""
    texts.write_text(json.dumps({"context": CONTEXT, "qas": entries}))
    with pytest.raises(
        DataError, match=r"texts\.jsonl: no question that can be used; .*blank question left out: 5, the first"
    ):
        build(tmp_path, tokenizer, (candidates, texts))
    assert not (tmp_path / "task").exists()


@needs("multireqa")
@pytest.mark.parametrize("name", OFFICIAL_COUNTS)
def test_the_real_offsets(name: str) -> None:
    candidates = list(read_candidates(MIRROR / f"multireqa/{name}/candidates.json.gz"))
    assert len({candidate.id for candidate in candidates}) == len(candidates) == OFFICIAL_COUNTS[name]
    questions = {tuple(candidate.questions) for candidate in candidates}
    assert {len(question) for group in questions for question in group} == {32}
    expected = {"dev/SQuAD": (2_067, 10_507), "dev/NaturalQuestions": (7_157, 7_157), "train/SQuAD": (18_885, 86_588)}
    assert (len(questions), sum(map(len, questions))) == expected[name]


@needs("multireqa")
def test_offsets_are_characters_with_an_exclusive_end() -> None:
    """The candidates of a context must fit a paragraph of SQuAD: with the end read otherwise, next to none does."""
    paragraphs, problems = read_squad(MIRROR / "squad/dev-v1.1.reconstructed.json.gz")
    assert not problems
    of_length = defaultdict(list)
    for paragraph in paragraphs:
        of_length[len(paragraph.context)].append(paragraph.context)
    groups = defaultdict(list)
    for candidate in read_candidates(MIRROR / "multireqa/dev/SQuAD/candidates.json.gz"):
        groups[candidate.questions[0]].append((candidate.start, candidate.end))

    def fits(context: str, spans: list[tuple[int, int]]) -> bool:
        texts = ((context[start:end], context[end : end + 1]) for start, end in spans)
        return all(text.strip() == text and not behind.strip() for text, behind in texts)

    fitting = sum(any(fits(context, spans) for context in of_length[max(spans)[1]]) for spans in groups.values())
    assert len(groups) == len(paragraphs) == 2_067
    assert fitting == 1_918
