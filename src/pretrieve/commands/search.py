"""Search the documents of a deployed directory: print the best ones, or write a run or JSON lines for a file of questions."""

import argparse
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from pretrieve.base.arguments import add_threads, required
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import whole_file
from pretrieve.base.given import given_number
from pretrieve.corpora.beir_documents import Ids, id_of, text_of
from pretrieve.corpora.plain_text import text_lines
from pretrieve.raw.raw_text import Warnings, read_columns, read_json_lines
from pretrieve.retrieval.deployed_index import DeployedIndex, Hit, load_index
from pretrieve.retrieval.trec_run import write_trec

#: Questions of a file that are searched together.
BATCH = 256
#: Endings of files of questions, each of which may be packed.
_KINDS = ("", ".txt", ".jsonl", ".tsv")
#: A first line of a .tsv that names its columns.
_HEADER = re.compile(
    r"(_?id|(q|query|question|topic)[-_ ]?id|topic)\t(text|(query|question|topic)([-_ ]?text)?)", re.IGNORECASE
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", nargs="?", default="", help="what to search for")
    required(parser, Path, index="a directory that make my-corpus or pretrieve index made")
    parser.add_argument("--file", type=Path, help="questions, one a line; .jsonl: _id and text; .tsv: id, tab, text")
    parser.add_argument("--top", type=int, default=10, help="documents for each question")
    parser.add_argument("--out", type=Path, help="NAME.trec, NAME.trec.gz or NAME.jsonl, in place of printing")
    add_threads(parser)


def main(options: argparse.Namespace) -> None:
    if bool(options.question.strip()) == (options.file is not None):
        raise ConfigError("give one question, or a file of questions: --file questions.txt.")
    given_number(options.top, "--top")
    kind = _kind(options.out)
    index = load_index(options.index, options.threads)
    questions = _questions(options.file) if options.file else [("1", options.question)]
    if kind == "trec":
        run = index.rank([text for _, text in questions], options.top, [name for name, _ in questions])
        write_trec(options.out, run, "pretrieve")
    elif kind == "jsonl":
        with whole_file(options.out) as stream:
            for name, text, hits in _found(index, questions, options.top):
                record = {"query_id": name, "text": text, "hits": [hit._asdict() for hit in hits]}
                stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    else:
        for name, text, hits in _found(index, questions, options.top):
            if options.file:
                print(f"{on_one_line(name)}  {on_one_line(text)}")
            print(_page(text, hits))


def _kind(out: Path | None) -> str:
    name = "" if out is None else out.name.removesuffix(".gz")
    kind = next((kind for kind in ("trec", "jsonl") if name.endswith(f".{kind}")), "")
    if out is not None and (not kind or (kind == "jsonl" and name != out.name)):
        raise ConfigError(f"--out {out}: expected a name that ends in .trec, .trec.gz or .jsonl.")
    return kind


def _questions(path: Path) -> list[tuple[str, str]]:
    """(id, text) of every line with a question; ids are the numbers of the lines where the file has none."""
    warnings, questions, ids = Warnings(), [], Ids("question", path)
    kind = Path(path.name.lower().removesuffix(".gz").removesuffix(".bz2")).suffix
    if kind == ".jsonl":
        for n, record in read_json_lines(path, ("_id", "text"), label=None, warnings=warnings):
            ids.take(name := id_of(record, path, n, warnings), n)
            questions.append((name, text_of(record, "text", path, n)))
    elif kind == ".tsv":
        for n, (name, text) in read_columns(path, ("id", "text"), label=None, warnings=warnings):
            if n == 1 and _HEADER.fullmatch(f"{name}\t{text}"):
                warnings.add("header, not searched for", f"{path}: line 1: {name!r}, {text!r}")
                continue
            if not name:
                raise DataError(
                    f"{path}: line {n}: no id in front of {text[:60]!r}; expected an id, a tab, a question."
                )
            ids.take(name, n)
            questions.append((name, text))
    elif kind in ("", ".txt"):
        questions = [(str(n), text) for n, text in enumerate(text_lines(path), 1) if text.strip()]
    # Ids in front of the questions would be searched for, too.
    if kind not in _KINDS or (kind in ("", ".txt") and questions and all("\t" in text for _, text in questions)):
        raise ConfigError(
            f"--file {path}: expected lines of one question each in a .txt, .jsonl with _id and text, or a .tsv of id, tab, "
            "question: convert or rename it."
        )
    if not questions:
        raise DataError(f"{path}: has no question; expected one a line.")
    if warnings.counts:
        print(warnings.summary(), file=sys.stderr)
    return questions


def _found(index: DeployedIndex, questions: Sequence[tuple[str, str]], top: int):
    """(id, text, hits) of every question."""
    remaining = iter(questions)
    while batch := list(islice(remaining, BATCH)):
        for (name, text), hits in zip(batch, index.search([text for _, text in batch], top), strict=True):
            yield name, text, hits


def _page(question: str, hits: Sequence[Hit]) -> str:
    if not hits:
        return "nothing was found: no document has a word of the question.\n"
    lines = []
    for hit in hits:
        heading = "  ".join(filter(None, [on_one_line(hit.doc_id), on_one_line(hit.title)]))
        lines += [f"{hit.rank:>3}  {hit.score:.4f}  {heading}"]
        lines += textwrap.wrap(snippet(hit.text, question), 100, initial_indent=" " * 13, subsequent_indent=" " * 13)
    return "\n".join(lines) + "\n"


#: Shorter words are in every text.
_SHORTEST = 4
#: Not printable to Python, and a part of words of Persian or Hindi, and of emoji: ZERO WIDTH NON-JOINER and JOINER.
_JOINERS = "\u200c\u200d"


def on_one_line(text: str) -> str:
    """A text for a terminal: blanks for line breaks and for what a terminal would obey.

    >>> on_one_line("a\\x1b[2Jboat\\nfloats")
    'a [2Jboat floats'
    """
    return " ".join("".join(sign if sign.isprintable() or sign in _JOINERS else " " for sign in text).split())


def snippet(text: str, question: str, length: int = 200) -> str:
    """The ``length`` characters with the most different words of the question; the beginning, where there is none.

    >>> snippet("The sea is deep. " * 9 + "An anchor holds a boat.", "what holds a boat?", 40)
    '… The sea is deep. An anchor holds a boat.'
    """
    line = on_one_line(text)
    if len(line) <= length:
        return line
    words = {word for word in re.findall(r"\w+", question.lower()) if len(word) >= _SHORTEST}
    found = [(match.start(), match[0].lower()) for match in re.finditer(r"\w+", line) if match[0].lower() in words]
    best, most, end = 0, 0, 0
    within = Counter[str]()  # of the words from a place on, over ``length`` characters
    for start, word in found:
        while end < len(found) and found[end][0] < start + length:
            within[found[end][1]] += 1
            end += 1
        if len(within) > most:
            best, most = start, len(within)
        within[word] -= 1
        if not within[word]:
            del within[word]
    begin = max(0, min(best - length // 8, len(line) - length))
    # Cut at a blank that is near; where there is none, as in Chinese or Thai, between any two characters.
    near = length // 4
    start = max(0, begin - near)
    begin = line.rfind(" ", start, begin) + 1 or (begin if start else 0)
    shown = line[begin : begin + length]
    if begin + length < len(line):
        end = shown.rfind(" ", length - near)
        shown = (shown[:end] if end > 0 else shown) + " …"
    return f"… {shown}" if begin else shown
