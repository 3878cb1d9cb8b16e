"""Check the question set beside this file, print its statistics, and keep those in README.md fresh (--write).

Exit status 1 and a line for every problem when something is wrong.

The set is edited by hand, so everything a task relies on is checked, and every fault is listed, not just the first:
layout and spans (:mod:`pretrieve.benchmarks.official.squad_json`), unique ids, repeated questions, articles that are in one split
only, the size of the splits, and that the questions are not copies of the sentences that answer them.

A question set whose questions repeat the words of the answer's sentence measures string matching and flatters BM25 (SQuAD is
known for it: paper ``pretraining_tasks`` §4.2). The share of questions without any common content word
(:mod:`pretrieve.benchmarks.made.question_entailment`) is therefore a statistic of the set. A *name* is a word that is written
with a capital letter wherever it stands in the passage (at least once inside a sentence, where a capital is not owed to its first
place); names are omitted, because a question must name what it asks about. Words of the answer itself count like any other.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pretrieve.base.program import run_program
from pretrieve.benchmarks.made.question_entailment import WORD, content_words, stem
from pretrieve.benchmarks.official.squad_json import Paragraph, Question, read_squad
from pretrieve.corpora.sentences import sentence_of, sentence_spans
from pretrieve.corpora.tables import read_table

SPLITS = ("train", "dev", "test")
BEGIN, END = "<!-- statistics: begin -->", "<!-- statistics: end -->"
_WORD = re.compile(r"\w+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]['\"”’)]*\s+|[\"“(]\s*)$")


def names_in(passage: str) -> set[str]:
    """Stems of the words that are names in this passage: never lower case, and capitalised inside a sentence."""
    capital, lower = set(), set()
    for match in WORD.finditer(passage):
        word = match.group()
        if word[0].islower():
            lower.add(stem(word))
        elif word[0].isupper() and not _SENTENCE_START.search(passage[max(0, match.start() - 8) : match.start()]):
            capital.add(stem(word))
    return capital - lower


def shared_content_words(question: str, sentence: str, passage: str) -> set[str]:
    """Content words that the question and the answer's sentence have in common, names omitted.

    A name is found in the passage, or in the question where a word is capitalised after the first place.

    >>> shared_content_words("Who painted the ceiling?", "The ceiling was decorated by Pietro.", "")
    {'ceil'}
    """
    names = names_in(passage) | names_in("x " + question[:1].lower() + question[1:])
    return (content_words(question) & content_words(sentence)) - names


@dataclass(frozen=True)
class Limits:
    """What the whole set must reach; shares are fractions."""

    questions: int = 1200
    articles: int = 90
    no_overlap: float = 1 / 3
    dev: tuple[float, float] = (0.08, 0.12)  # of all questions
    train: tuple[float, float] = (0.805, 0.83)  # of train and test: 80 % must be drawable from train, with room to draw
    answer_chars: int = 120


@dataclass(frozen=True)
class Entry:
    """One question with where it stands; ``overlap``: content words shared with the answer's sentence."""

    split: str
    article: str
    context: str
    question: Question
    overlap: frozenset[str]


def question_id(article: str, question: str) -> str:
    """The id a question of this set must have: it stays when questions are added, moved or sorted."""
    return hashlib.sha256(f"{article}\n{question}".encode()).hexdigest()[:12]


def _entry(split: str, paragraph: Paragraph, question: Question, spans: list[tuple[int, int]]) -> Entry:
    start, end = spans[sentence_of(spans, question.answers[0].start)]
    shared = shared_content_words(question.text, paragraph.context[start:end], paragraph.context)
    return Entry(split, paragraph.article, paragraph.context, question, frozenset(shared))


def read_question_set(directory: Path) -> tuple[list[Entry], list[str]]:
    """All questions of ``{train,dev,test}.json`` and a line for every fault of the files themselves."""
    entries: list[Entry] = []
    problems: list[str] = []
    for split in SPLITS:
        paragraphs, faults = read_squad(Path(directory) / f"{split}.json")
        problems += faults
        for paragraph in paragraphs:
            spans = sentence_spans(paragraph.context)
            entries += [_entry(split, paragraph, question, spans) for question in paragraph.questions]
    return entries, problems


def _repeated(entries: list[Entry], key: Callable[[Entry], str], what: str) -> list[str]:
    first: dict[str, Entry] = {}
    problems = []
    for entry in entries:
        other = first.setdefault(key(entry), entry)
        if other is not entry:
            problems.append(
                f"{entry.split}.json: article '{entry.article}', question '{entry.question.id}': {what} as question "
                f"'{other.question.id}' in {other.split}.json, article '{other.article}'; change or drop one."
            )
    return problems


def _content_problems(entries: list[Entry], limits: Limits) -> list[str]:
    """Faults that need the whole set: repeated ids and questions, style, and articles in two splits."""
    problems = _repeated(entries, lambda entry: entry.question.id, "same id")
    problems += _repeated(entries, lambda entry: " ".join(_WORD.findall(entry.question.text.lower())), "same wording")
    home: dict[str, str] = {}
    for entry in entries:
        where = f"{entry.split}.json: article '{entry.article}', question '{entry.question.id}'"
        expected = question_id(entry.article, entry.question.text)
        if entry.question.id != expected:
            problems.append(f"{where}: the id of this article and question should be '{expected}'; put that.")
        if not entry.question.text.endswith("?"):
            problems.append(f"{where}: {entry.question.text!r} does not end with a question mark.")
        for answer in entry.question.answers:
            if answer.text != answer.text.strip() or len(answer.text) > limits.answer_chars:
                problems.append(
                    f"{where}: answer {answer.text!r} has blanks at an end or {len(answer.text)} characters; expected "
                    f"none and at most {limits.answer_chars}."
                )
        for what, value in (("article", entry.article), ("passage", entry.context)):
            split = home.setdefault(f"{what} {value}", entry.split)
            if split != entry.split:
                problems.append(f"{where}: this {what} is in {split}.json too; each belongs to one split.")
                home[f"{what} {value}"] = entry.split  # one line for it, not one for each of its questions
    return problems


def _size_problems(entries: list[Entry], limits: Limits) -> list[str]:
    count = Counter(entry.split for entry in entries)
    articles = len({entry.article for entry in entries})
    pool = count["train"] + count["test"]
    no_overlap = sum(not entry.overlap for entry in entries) / max(len(entries), 1)
    problems = []
    if len(entries) < limits.questions:
        problems.append(f"{len(entries)} questions, expected at least {limits.questions}; write more.")
    if articles < limits.articles:
        problems.append(f"{articles} articles, expected at least {limits.articles}; write questions on more articles.")
    if no_overlap < limits.no_overlap:
        problems.append(
            f"{no_overlap:.1%} of the questions share no content word with the answer's sentence, expected at least "
            f"{limits.no_overlap:.1%}; put questions in words of their own."
        )
    for split, share, (low, high), of in (
        ("dev", count["dev"] / max(len(entries), 1), limits.dev, "all questions"),
        ("train", count["train"] / max(pool, 1), limits.train, "train and test"),
    ):
        if not low <= share <= high:
            problems.append(f"{split}.json holds {share:.1%} of {of}, expected {low:.1%} to {high:.1%}; move articles.")
    return problems


def _corpus_problems(entries: list[Entry], corpus: Path) -> list[str]:
    known = set(read_table(Path(corpus) / "passages.parquet", ["text"])["text"].to_pylist())
    missing = dict.fromkeys(
        (entry.split, entry.article, entry.context) for entry in entries if entry.context not in known
    )
    return [
        f"{split}.json: article '{article}': the context {context[:60]!r}… is not a passage of {corpus}; the "
        f"corpus reader or the context has changed."
        for split, article, context in missing
    ]


def check_question_set(
    directory: Path, corpus: Path | None = None, limits: Limits | None = None
) -> tuple[list[Entry], list[str]]:
    """Read and check the set; returns its questions and a line for every problem (none: the set is sound).

    With ``corpus``, a directory of :mod:`pretrieve.corpora.tables`, every context must be one of its passages.
    """
    limits = limits or Limits()
    entries, problems = read_question_set(directory)
    problems += _content_problems(entries, limits) + _size_problems(entries, limits)
    if corpus is not None:
        problems += _corpus_problems(entries, corpus)
    return entries, problems


def _columns(entries: list[Entry]) -> list[str]:
    """The figures of one group of questions, formatted; see the row names in :func:`statistics_table`."""
    if not entries:
        return ["0"] * 3 + ["–"] * 5
    overlaps = [len(entry.overlap) for entry in entries]
    return [
        f"{len(entries):,}",
        f"{len({entry.article for entry in entries})}",
        f"{len({entry.context for entry in entries}):,}",
        f"{fmean(len(_WORD.findall(entry.question.text)) for entry in entries):.1f}",
        f"{fmean(len(_WORD.findall(entry.question.answers[0].text)) for entry in entries):.1f}",
        f"{fmean(len(_WORD.findall(entry.context)) for entry in entries):.0f}",
        f"{sum(not overlap for overlap in overlaps) / len(entries):.1%}",
        f"{fmean(overlaps):.2f}",
    ]


def statistics_table(entries: list[Entry]) -> str:
    """Statistics as two Markdown tables: a column for each split and all, and the first words of the questions."""
    names = (
        "questions",
        "articles",
        "paragraphs with a question",
        "words per question, mean",
        "words per answer, mean",
        "words per paragraph, mean over questions",
        "share no content word with the answer's sentence",
        "content words shared with it, mean",
    )
    groups = [[entry for entry in entries if entry.split == split] for split in SPLITS] + [entries]
    columns = zip(*map(_columns, groups), strict=True)
    lines = [f"| | {' | '.join(SPLITS)} | all |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {name} | {' | '.join(values)} |" for name, values in zip(names, columns, strict=True)]
    first = Counter(entry.question.text.split()[0].lower().strip(",") for entry in entries)
    common = sorted(first.items(), key=lambda item: (-item[1], item[0]))
    shown = [item for item in common[:10] if item[1] > 1]
    rest = len(entries) - sum(number for _, number in shown)
    lines += ["", "| first word | questions | share |", "|---|---:|---:|"]
    lines += [
        f"| {word} | {number} | {number / len(entries):.1%} |" for word, number in [*shown, ("*other*", rest)] if number
    ]
    return "\n".join(lines)


def update_readme(readme: Path, table: str, write: bool) -> list[str]:
    """Compare the statistics between the README's markers with ``table``; with ``write``, put them there instead.

    Returns a line for each problem: a README without the two markers, or one whose statistics are stale.
    """
    try:
        text = Path(readme).read_text(encoding="utf-8")
    except FileNotFoundError:
        return [f"{readme}: no such file; expected the README of the question set."]
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return [
            f"{readme}: expected the markers {BEGIN!r} and, behind it, {END!r}; add them where the statistics belong."
        ]
    fresh = f"{before}{BEGIN}\n{table}\n{END}{after}"
    if fresh == text:
        return []
    if write:
        Path(readme).write_text(fresh, encoding="utf-8")
        return []
    return [f"{readme}: the statistics are stale; run the check with --write."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "directory", type=Path, nargs="?", default=Path(__file__).parent, help="holds {train,dev,test}.json"
    )
    parser.add_argument("--corpus", type=Path, help="corpus directory: check that every context is one of its passages")
    parser.add_argument("--write", action="store_true", help="write the statistics into README.md")
    args = parser.parse_args()
    entries, problems = check_question_set(args.directory, args.corpus)
    table = statistics_table(entries)
    print(table)
    problems += update_readme(args.directory / "README.md", table, args.write)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run_program(main)
