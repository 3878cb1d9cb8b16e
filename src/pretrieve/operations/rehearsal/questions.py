"""Made questions in their publishers' layouts: SQuAD, Natural Questions, MRQA with MultiReQA's boundaries, FanOutQA.

Layouts: :mod:`pretrieve.benchmarks.official.squad_json`, :mod:`pretrieve.benchmarks.official.natural_questions`,
:mod:`pretrieve.benchmarks.official.multireqa`, :mod:`pretrieve.benchmarks.official.fanoutqa`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pretrieve.operations.rehearsal.world import BUILDINGS, Building, asked, to_json_lines

#: Data set of MultiReQA → its name in the ids of candidates.
MULTIREQA = {
    "squad": "SQuAD",
    "nq": "NaturalQuestions",
    "triviaqa": "TriviaQA",
    "hotpotqa": "HotpotQA",
    "searchqa": "SearchQA",
}


def squad() -> bytes:
    """SQuAD v1.1: an article for each building, a paragraph with a question."""
    articles = []
    for b in BUILDINGS:
        answer = {"text": b.maker, "answer_start": b.text.index(b.maker)}
        question = {"id": f"train{b.number:08x}", "question": b.question("train"), "answers": [answer]}
        articles.append({"title": b.title, "paragraphs": [{"context": b.text, "qas": [question]}]})
    return json.dumps({"version": "1.1", "data": articles}).encode()


def natural_questions() -> bytes:
    """The simplified form: a page of tokens, one paragraph of which is the long answer, and one token the short one."""
    lines = []
    for b in BUILDINGS:
        inside = b.text.replace(".", " .").split(" ")
        tokens = ["<H1>", *b.title.split(" "), "</H1>", "<P>", *inside, "</P>"]
        start, place = tokens.index("<P>"), tokens.index(b.maker)
        annotation = {
            "annotation_id": b.number,
            "yes_no_answer": "NONE",
            "long_answer": {"start_token": start, "end_token": len(tokens), "candidate_index": 0},
            "short_answers": [{"start_token": place, "end_token": place + 1}],
        }
        lines.append(
            {
                "example_id": b.number,
                "question_text": b.question("train").lower().rstrip("?"),
                "document_url": f"https://en.wikipedia.org//w/index.php?title={b.title.replace(' ', '_')}&amp;oldid=1",
                "document_text": " ".join(tokens),
                "long_answer_candidates": [{"start_token": start, "end_token": len(tokens), "top_level": True}],
                "annotations": [annotation],
            }
        )
    return to_json_lines(lines)


def mrqa(split: str) -> bytes:
    """A file of MRQA: a header, then a context a line. Ends of answers are inclusive."""

    def line(b: Building) -> dict[str, Any]:
        answer = b.answer(split)
        begin = b.text.index(answer)
        span = {"text": answer, "char_spans": [[begin, begin + len(answer) - 1]], "token_spans": [[0, 0]]}
        question = {"qid": _qid(b), "question": b.question(split), "detected_answers": [span], "answers": [answer]}
        return {"context": b.text, "qas": [question]}

    return to_json_lines([{"header": {"dataset": "made", "split": split}}, *map(line, asked(split))])


def candidates(split: str, name: str) -> bytes:
    """``candidates.json``: where each sentence of a context is; ends are exclusive."""
    lines = []
    for b in asked(split):
        begin = 0
        for number, sentence in enumerate(b.sentences):
            begin = b.text.index(sentence, begin)
            end = begin + len(sentence)
            lines.append({"candidate_id": f"{name}_{_qid(b)}/_{number}", "response_start": begin, "response_end": end})
            begin = end
    return to_json_lines(lines)


def fanoutqa() -> bytes:
    """FanOutQA's dev file: a question taken apart into one about each of two pages."""

    def part(b: Building) -> dict[str, Any]:
        evidence = {"pageid": b.number + 1, "revid": 1, "title": b.title, "url": ""}
        return {
            "id": f"p{b.number}",
            "question": b.question("test"),
            "decomposition": [],
            "answer": b.maker,
            "evidence": evidence,
        }

    pairs = zip(BUILDINGS[:20:2], BUILDINGS[1:20:2], strict=True)
    questions = [
        {
            "id": f"f{first.number}",
            "question": f"Who made the {first.title} and the {second.title}?",
            "decomposition": [part(first), part(second)],
            "answer": {first.title: first.maker, second.title: second.maker},
        }
        for first, second in pairs
    ]
    return json.dumps(questions).encode()


def _qid(building: Building) -> str:
    return f"{building.number:032x}"


FORMS: dict[str, Callable[[], bytes]] = {
    "squad-train": squad,
    "nq-simplified-train": natural_questions,
    "fanoutqa-dev": fanoutqa,
}
for _set, _name in MULTIREQA.items():
    for _split in ("train", "dev"):
        FORMS[f"mrqa-{_set}-{_split}"] = lambda split=_split: mrqa(split)
        FORMS[f"multireqa-{_set}-{_split}"] = lambda split=_split, name=_name: candidates(split, name)
