"""Natural Questions in its two forms, as ReQA paragraphs and as open questions; SQuAD's one file plays every part.

Seen to fail when: tokens are cut at other white space than the blank; tags stay, or words in angle brackets go; the answer's
offset counts tags; two short answers, tables or list items pass; another annotation than the first counts; white space inside
of tags parts tokens, or none does; six tokens pass as an open answer; the last annotations are not asked; &amp; stays in titles.
"""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from mirror import MIRROR, needs
from task_reader import Task
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.natural_questions import build_natural_questions, page_title, read_paragraphs
from pretrieve.benchmarks.official.open_qa import OpenQuestion, read_questions
from pretrieve.benchmarks.official.squad_json import Answer, Question
from pretrieve.benchmarks.official.squad_reqa import build_squad
from pretrieve.benchmarks.reading import build_task
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.splits import Target

# a no-break space is white space to str.split(); <3 is a word.
TEXT = (
    "<H1> Naïve </H1> <P> The <B> caf\u00a0é </B> of I <3 you , opened in 1971 . </P> "
    '<Table> <Th_colspan="2"> x </Th> </Table>'
)
TOKENS = TEXT.split(" ")
PARAGRAPH = (TOKENS.index("<P>"), TOKENS.index("</P>") + 1)


def span(start: int, end: int, **more: int) -> dict[str, int]:
    return {"start_token": start, "end_token": end} | more


def record(**changes: Any) -> dict[str, Any]:
    year = TOKENS.index("1971")
    annotation = {
        "long_answer": span(*PARAGRAPH, candidate_index=0),
        "short_answers": [span(year, year + 1)],
        "yes_no_answer": "NONE",
    }
    return {
        "example_id": 797803103760793766,
        "question_text": "when did the café open ",
        "document_text": TEXT,
        "document_url": "https://en.wikipedia.org//w/index.php?title=I_%3C3_You&amp;oldid=814071202",
        "long_answer_candidates": [span(*PARAGRAPH, top_level=True)],
        "annotations": [annotation],
    } | changes


def annotated(**changes: Any) -> dict[str, Any]:
    made = record()
    made["annotations"][0] |= changes
    return made


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in records).encode()))
    return path


def test_the_form(tmp_path: Path) -> None:
    (paragraph,) = read_paragraphs(write(tmp_path / "nq.jsonl.gz", [record()]), Warnings())
    assert paragraph.article == "I <3 You"
    assert paragraph.context == "The caf\u00a0é of I <3 you , opened in 1971 ."
    (question,) = paragraph.questions
    assert question == Question("797803103760793766", "when did the café open", (Answer("1971", 34),))
    assert paragraph.context[34:].startswith("1971")


def test_what_is_left_out(tmp_path: Path) -> None:
    table = TOKENS.index("<Table>")
    second = record()
    second["annotations"].append(copy.deepcopy(second["annotations"][0]))
    second["annotations"][0]["short_answers"] = []
    records = [
        record(),
        annotated(short_answers=[]),
        annotated(short_answers=[span(5, 6), span(7, 8)]),
        annotated(long_answer=span(-1, -1)),
        annotated(long_answer=span(table, len(TOKENS))),
        annotated(short_answers=[span(1, 2)]),
        second,
    ]
    warnings = Warnings()
    assert len(list(read_paragraphs(write(tmp_path / "nq.jsonl.gz", records), warnings))) == 1
    assert warnings.counts == {
        "not exactly one short answer": 3,
        "no long answer": 1,
        "the long answer is no paragraph": 1,
        "the short answer is not in the paragraph": 1,
    }


def original(html: str, tokens: list[str], long: tuple[int, int], short: tuple[int, int]) -> dict[str, Any]:
    """A record of the original form; tokens are found in the page from left to right."""
    data, place, entries = html.encode(), 0, []
    for token in tokens:
        place = data.index(token.encode(), place)
        end = place + len(token.encode())
        entries.append({"token": token, "start_byte": place, "end_byte": end, "html_token": token.startswith("<")})
        place = end
    made = annotated(long_answer=span(*long), short_answers=[span(*short)])
    del made["document_text"]
    return made | {"document_html": html, "document_tokens": entries, "document_title": "Café & Bar"}


def test_the_original_form_keeps_the_spaces_of_the_page(tmp_path: Path) -> None:
    html = '<P>Caf\u00e9<B>s</B> <a href="x y">open</a><SUP title="a > b">2</SUP>, <B>in\n1971</B>.</P>'
    tokens = ["<P>", "Café", "s", "open", "2", ",", "in", "1971", ".", "</P>"]
    (paragraph,) = read_paragraphs(
        write(tmp_path / "nq.jsonl.gz", [original(html.replace(" > ", " "), tokens, (0, 10), (7, 8))]), Warnings()
    )
    assert paragraph.article == "Café & Bar"
    assert paragraph.context == "Cafés open2, in 1971."
    assert paragraph.questions[0].answers == (Answer("1971", 16),)


HTML = "<P>A caf\u00e9 <I>\u00e9</I> b c</P>"
WORDS = ["<P>", "A", "café", "<I>", "é", "</I>", "b", "c", "</P>"]


def damaged(place: int, **changes: Any) -> dict[str, Any]:
    """A record of the original form with a change to one token; ``...`` takes the key away."""
    made = original(HTML, WORDS, (0, 9), (7, 8))
    made["document_tokens"][place] |= changes
    made["document_tokens"][place] = {
        key: value for key, value in made["document_tokens"][place].items() if value is not ...
    }
    return made


def test_open_questions(tmp_path: Path) -> None:
    in_1971 = span(TOKENS.index("in"), TOKENS.index("in") + 2)
    dev = record()
    dev["annotations"] += [
        {"long_answer": span(-1, -1), "short_answers": []},
        {"long_answer": span(*PARAGRAPH), "short_answers": [in_1971, span(4, 9), span(4, 10)]},
    ]
    path = write(tmp_path / "nq.jsonl.gz", [annotated(short_answers=[]), dev, annotated(short_answers=[span(4, 10)])])
    warnings = Warnings()
    assert [question for _, question in read_questions(path, warnings)] == [
        OpenQuestion("when did the café open", ["1971", "in 1971", "The caf\u00a0é of"])
    ]
    assert warnings.counts == {"question without a short answer": 2}


def test_entities_of_open_answers_are_resolved(tmp_path: Path) -> None:
    """orqa/preprocessing/convert_to_nq_open.py takes the text of the answer's HTML."""
    tokens = ["<P>", "Texas", "A", "&amp;", "M", ".", "</P>"]
    path = write(tmp_path / "nq.jsonl.gz", [original("<P>Texas <B>A&amp;M</B>.</P>", tokens, (0, 7), (1, 5))])
    assert [question.answers for _, question in read_questions(path, Warnings())] == [["Texas A&M"]]
    tokens[3] = f"&#{'9' * 5000};"  # more digits than Python reads
    path = write(tmp_path / "nq.jsonl.gz", [original(f"<P>Texas <B>A{tokens[3]}M</B>.</P>", tokens, (0, 7), (1, 5))])
    assert [question.answers for _, question in read_questions(path, Warnings())] == [["Texas A\ufffdM"]]


@pytest.mark.parametrize(
    ("made", "part"),
    [
        (annotated(long_answer=span(0, 999)), "answer of tokens 0 to 999; the page has"),
        (annotated(short_answers=[span(9, 9)]), "answer of tokens 9 to 9"),
        (annotated(long_answer={"start_token": 3}), "expected 'start_token' and 'end_token'"),
        (record(annotations=[{"long_answer": span(3, 9)}]), "annotations without 'long_answer' and 'short_answers'"),
        (record(document_text=None), "no page; expected 'document_text'"),
        (record(question_text=" "), "question_text ' '; expected text"),
        (annotated(long_answer=span(3, float("inf"))), "expected 'start_token' and 'end_token', whole numbers"),
        (damaged(6, token=None), "token 6 is \"{'token': None"),
        (damaged(6, html_token=...), "token 6 is \"{'token': 'b'"),
        (damaged(6, start_byte="20"), "token 6 is \"{'token': 'b', 'start_byte': '20'"),
        (damaged(6, start_byte=999), "within the 28 bytes of 'document_html'"),
        (damaged(4, end_byte=1.5), "token 4 is"),
        (damaged(4, end_byte=...), "token 4 is"),
        (damaged(4, end_byte=15), "bytes 15 to 21 of document_html, between the tokens 4 and 6, begin or end within a"),
        (damaged(0, token=5), "token 0 is"),
        (original(HTML, WORDS, (0, 8), (6, 7)) | {"document_tokens": ["<P>"] * 9}, "token 0 is '<P>'"),
        ({"question_text": "q", "annotations": []}, "no key 'example_id'"),
    ],
)
def test_messages(tmp_path: Path, made: dict[str, Any], part: str) -> None:
    path = write(tmp_path / "nq.jsonl.gz", [record(), made])
    with pytest.raises(DataError) as caught:
        list(read_paragraphs(path, Warnings()))
    assert str(caught.value).startswith(f"{path}: line 2: ")
    assert part in str(caught.value)


def test_a_blank_paragraph_is_left_out(tmp_path: Path) -> None:
    """Tokens of the simplified form are what stands between blanks, which may be nothing, or other white space."""
    blanks = record(document_text="<P>  \u00a0 </P>")
    blanks["annotations"][0] |= {"long_answer": span(0, 4), "short_answers": [span(1, 3)]}
    warnings = Warnings()
    assert len(list(read_paragraphs(write(tmp_path / "nq.jsonl.gz", [blanks, record(), blanks]), warnings))) == 1
    assert warnings.counts == {"the short answer is blank": 2}


def test_titles() -> None:
    assert page_title({"document_url": "https://en.wikipedia.org//w/index.php?title=AT%26T&amp;oldid=1"}) == "AT&T"
    assert page_title({"document_url": "https://example.org/?oldid=1&amp;title=Rock_%26_Roll"}) == "Rock & Roll"
    assert page_title({"document_url": "http://[example.org/?title=x"}) == ""
    assert page_title({"document_url": "https://example.org/"}) == page_title({}) == ""


def test_the_task(tmp_path: Path, tokenizer: Tokenizer) -> None:
    records = [record(example_id=number, question_text=f"question {number}?") for number in range(40)]
    statistics = build_natural_questions(
        write(tmp_path / "nq.jsonl.gz", records),
        Target(tokenizer, tmp_path / "task", {"half": 0.5, "80pct": 0.8}, seed=1),
        Warnings(),
    )
    assert statistics["queries"] == statistics["tuples"] == 40
    assert statistics["passages"] == 1
    # 4 of 40 are dev; of the other 36 at most 81.5 % train
    assert statistics["splits"]["80pct"] == {"train": 26, "valid": 3, "test": 7, "dev": 4}
    assert set(Task(tmp_path / "task").relevant()["7"]) <= {
        row["doc_id"] for row in Task(tmp_path / "task").corpus.to_pylist()
    }


def test_more_sentences_of_a_corpus(tmp_path: Path, tokenizer: Tokenizer, corpus: Path) -> None:
    records = [record(example_id=number, question_text=f"question {number}?") for number in range(40)]
    files = {"file": write(tmp_path / "nq.jsonl.gz", records)}

    def built(name: str, **options: Any) -> Task:
        target = Target(tokenizer, tmp_path / name, {"half": 0.5})
        build_task("natural-questions", files, target, corpus if options else None, options)
        return Task(tmp_path / name)

    closed, opened = built("closed"), built("open", open="sentences", max_extra=5)
    assert opened.relevant() == closed.relevant() and opened.splits.equals(closed.splits)
    rows, more = closed.corpus.to_pylist(), opened.corpus.to_pylist()
    assert more[: len(rows)] == rows and len(more) == len(rows) + 5
    assert all(row["doc_id"].startswith("c") and row["sentence"] in row["passage"] for row in more[len(rows) :])
    assert all(row["sentence"] for row in more)


@needs("squad")
def test_one_file_of_squad_plays_every_part(tmp_path: Path, tokenizer: Tokenizer, corpus: Path) -> None:
    file = MIRROR / "squad/dev-v1.1.reconstructed.json.gz"
    sizes = {"1pct": 0.01, "5pct": 0.05, "80pct": 0.8}
    statistics = build_squad({"file": file}, Target(tokenizer, tmp_path / "reqa", sizes, seed=1))
    assert statistics["passages"] == 2_067
    assert statistics["queries"] == 10_533  # of 10,570; the others are asked in the same words
    assert abs(statistics["candidates"] - 10_250) < 25  # squad_eval.py of google/retrieval-qa-eval counts 10,250
    parts: dict[str, dict[str, str]] = {size: {} for size in sizes}
    for row in Task(tmp_path / "reqa").splits.to_pylist():
        parts[row["size"]][row["query_id"]] = row["split"]
    for size, part in parts.items():
        assert len(part) == 10_533
        pool = sum(value != "dev" for value in part.values())
        training = sum(value in ("train", "valid") for value in part.values())
        assert training == round(sizes[size] * pool)
    trained = {size: {query for query, value in part.items() if value == "train"} for size, part in parts.items()}
    assert trained["1pct"] < trained["5pct"] < trained["80pct"]
    open_qa = build_squad({"file": file}, Target(tokenizer, tmp_path / "open", {"80pct": 0.8}, 1), corpus)
    assert open_qa["candidates"] == open_qa["passages"] > 2_067
    assert (tmp_path / "open/answers.parquet").is_file()


def test_one_file_of_squad_is_drawn_from(tmp_path: Path, squad_file: Any, tokenizer: Tokenizer) -> None:
    questions = [(f"q{n}", f"Question {n}?", "burrows") for n in range(30)]
    file = squad_file("one", {"Aardvark": {"The aardvark digs burrows. It eats ants.": questions}})
    target = Target(tokenizer, tmp_path / "task", {"full": "all"})
    build_task("squad", {"file": file}, target)
    assert Task(tmp_path / "task").stats["splits"]["full"] == {"train": 21, "valid": 2, "test": 4, "dev": 3}
    with pytest.raises(ConfigError, match="squad: it needs the files train, test, or file alone; found file, train"):
        build_task("squad", {"file": file, "train": file}, target)
