"""Made files in their publishers' layouts: of retrieval benchmarks (MS MARCO, TREC Deep Learning, BEIR, DPR) and of questions
(SQuAD, Natural Questions, MRQA with MultiReQA's boundaries, FanOutQA). :mod:`pretrieve.benchmarks.official` reads them.
"""

import json
from collections.abc import Callable
from typing import Any

from pretrieve.benchmarks.official.beir import SETS
from pretrieve.operations.rehearsal.world import BUILDINGS, SPLITS, Building, asked, others, to_json_lines, to_lines

#: First query id of a split in MS MARCO's files.
_FIRST = {"train": 1000, "dev": 2000, "test": 3000}
_CLOSED = ("bioasq", "signal1m", "trec-news", "robust04")
#: The sets of BEIR that are for download, as the sources name them.
BEIR = [name.replace("/", "-") for name in SETS if name != "msmarco" and name not in _CLOSED]
#: Data set of MultiReQA → its name in the ids of candidates.
MULTIREQA = {
    "squad": "SQuAD",
    "nq": "NaturalQuestions",
    "triviaqa": "TriviaQA",
    "hotpotqa": "HotpotQA",
    "searchqa": "SearchQA",
}


def queries(split: str) -> bytes:
    """``queries.*.tsv``: query id, text."""
    return to_lines((_FIRST[split] + b.number, b.question(split)) for b in asked(split))


def judgements(split: str, letter: str = "", graded: bool = False) -> bytes:
    """``qrels.*.tsv``: query id, 0, document id (with a ``letter`` before it), grade; TREC's have grades up to 3, and 0 for
    judged and not relevant."""
    rows = []
    for building in asked(split):
        query = _FIRST[split] + building.number
        rows.append((query, "Q0" if graded else 0, f"{letter}{building.number}", 3 if graded else 1))
        if graded:
            graded_others = enumerate(others(building, 2))
            rows += [(query, "Q0", f"{letter}{other.number}", grade) for grade, other in graded_others]
    return to_lines(rows, " " if graded else "\t")


def documents() -> bytes:
    """``msmarco-docs.tsv``: id, url, title, body."""
    return to_lines((f"D{b.number}", b.url, b.title, b.text) for b in BUILDINGS)


def beir_corpus() -> bytes:
    """``corpus.jsonl``."""
    return to_json_lines({"_id": f"d{b.number}", "title": b.title, "text": b.text, "metadata": {}} for b in BUILDINGS)


def beir_queries() -> bytes:
    """``queries.jsonl``: of all splits."""
    return to_json_lines(
        {"_id": f"{split}{b.number}", "text": b.question(split), "metadata": {}}
        for split in SPLITS
        for b in asked(split)
    )


def beir_judgements() -> bytes:
    """``qrels/test.tsv``, with its header."""
    rows = [(f"test{b.number}", f"d{b.number}", 1) for b in asked("test")]
    return to_lines([("query-id", "corpus-id", "score"), *rows])


def wikipedia_passages() -> bytes:
    """``psgs_w100.tsv``: header, id from 1, quoted text, title."""
    return to_lines([("id", "text", "title"), *((b.number + 1, f'"{b.text}"', b.title) for b in BUILDINGS)])


def training_file(split: str, id_key: str) -> bytes:
    """``biencoder-*.json``: one array; ``id_key``: what the set calls a passage's id."""

    def passage(building: Building) -> dict[str, str]:
        return {"title": building.title, "text": building.text, id_key: str(building.number + 1)}

    records = [
        {
            "question": b.question(split).lower().rstrip("?"),
            "answers": [b.answer(split)],
            "positive_ctxs": [passage(b)],
            "hard_negative_ctxs": [passage(other) for other in others(b, 3)],
            "negative_ctxs": [passage(other) for other in others(b, 5)[3:]],
        }
        for b in asked(split)
    ]
    return json.dumps(records, indent=1).encode()


def answers_file(split: str) -> bytes:
    """``*.qa.csv``: question, list of answers as Python writes it."""
    return to_lines((b.question(split).lower().rstrip("?"), [b.answer(split)]) for b in asked(split))


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
    "msmarco-collection": lambda: to_lines((b.number, b.text) for b in BUILDINGS),
    "msmarco-titled-passages": lambda: to_lines((b.number, b.text) for b in BUILDINGS),
    "msmarco-titled-titles": lambda: to_lines((b.number, b.title) for b in BUILDINGS),
    "msmarco-queries-train": lambda: queries("train"),
    "msmarco-qrels-train": lambda: judgements("train"),
    "msmarco-queries-dev": lambda: queries("dev"),
    "msmarco-qrels-dev": lambda: judgements("dev"),
    "msmarco-queries-dev-small": lambda: queries("dev"),
    "msmarco-qrels-dev-small": lambda: judgements("dev"),
    "msmarco-docs": documents,
    "msmarco-doctrain-queries": lambda: queries("train"),
    "msmarco-doctrain-qrels": lambda: judgements("train", "D"),
    "msmarco-docdev-queries": lambda: queries("dev"),
    "msmarco-docdev-qrels": lambda: judgements("dev", "D"),
    "dl19-queries": lambda: queries("test"),
    "dl19-passage-qrels": lambda: judgements("test", graded=True),
    "dl19-document-qrels": lambda: judgements("test", "D", graded=True),
    "dl20-queries": lambda: queries("test"),
    "dl20-passage-qrels": lambda: judgements("test", graded=True),
    "beir-msmarco-corpus": beir_corpus,
    "dpr-passages": wikipedia_passages,
    "dpr-nq-train": lambda: training_file("train", "passage_id"),
    "dpr-nq-dev": lambda: training_file("dev", "passage_id"),
    "dpr-nq-dev-answers": lambda: answers_file("dev"),
    "dpr-nq-test-answers": lambda: answers_file("test"),
    "dpr-trivia-train": lambda: training_file("train", "psg_id"),
    "dpr-trivia-dev": lambda: training_file("dev", "psg_id"),
    "dpr-trivia-test-answers": lambda: answers_file("test"),
    "squad-train": squad,
    "nq-simplified-train": natural_questions,
    "fanoutqa-dev": fanoutqa,
}
for _set in BEIR:
    FORMS |= {f"beir-{_set}-corpus": beir_corpus, f"beir-{_set}-queries": beir_queries}
    FORMS[f"beir-{_set}-qrels-test"] = beir_judgements
for _set, _name in MULTIREQA.items():
    for _split in ("train", "dev"):
        FORMS[f"mrqa-{_set}-{_split}"] = lambda split=_split: mrqa(split)
        FORMS[f"multireqa-{_set}-{_split}"] = lambda split=_split, name=_name: candidates(split, name)
