"""A folder in BEIR's layout, looked at before any job starts: which files it has, whether they fit together, and what can be
trained on it.

The layout is that of :mod:`pretrieve.benchmarks.official.beir`. Here is found, within seconds, what would otherwise stop a run
after minutes: a missing file, a line that is no JSON, an id that stands twice, a judgement of an unknown id, a split of which
nothing is left. The functions that say what a document, a query or a judgement must be are those of the jobs' readers. Files
up to :data:`LOOKED_AT` bytes are read as a whole; of larger ones the first documents decide what can be trained, and the first
jobs check the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.inverse_cloze import LEAST_PAIRS, queries_of
from pretrieve.benchmarks.official.beir import packed_file
from pretrieve.corpora.beir_documents import document_fields, id_of, sections_of, text_of
from pretrieve.corpora.sentences import sentence_spans
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.tasks.collection_ids import is_new_judgement, where
from pretrieve.tasks.qrels_lines import PRECEDENCE, read_qrels

#: Ids of files up to this size are compared.
LOOKED_AT = 64 << 20
#: So many documents decide what can be trained.
SAMPLE = 2000
#: Two queries train and one validates; without a dev split, one more is taken for it.
LEAST_TRAIN = 3
#: Share of the documents that must have sections, or two sentences, for an objective that is made of them.
ENOUGH = 0.05


@dataclass(frozen=True)
class Folder:
    """What a folder has. files: as the reader ``beir`` takes them; has_sections, has_sentences: whether enough documents
    have sections (for BFS) and two sentences (for ICT); has_pairs: whether training pairs can be made of them."""

    files: Mapping[str, str]
    has_sections: bool
    has_sentences: bool
    has_pairs: bool

    @property
    def has_queries(self) -> bool:
        return "queries" in self.files

    @property
    def has_train(self) -> bool:
        return "train" in self.files


def look_at(directory: Path) -> Folder:
    """Find the files of a folder and check what stands in them.

    Raises
    ------
    DataError
        for a folder or file that is missing, a file that is there packed and unpacked, a line that is not in the layout, an id
        that stands twice, a judgement of an unknown id or below zero, two that differ, documents that all lack a text, no
        judgement to test with, or a split whose queries all belong to another one or have no text, or no relevant document
        with a text; and for what may not be read.
    """
    try:
        return _look_at(directory)
    except OSError as error:
        raise DataError(
            f"{error.filename or directory}: cannot be read: {error.strerror or error}; expected files that you may read: change "
            "their permissions."
        ) from error


def _look_at(directory: Path) -> Folder:
    if not directory.is_dir():
        raise DataError(
            f"my_corpus: {directory} is no directory; expected one with corpus.jsonl (docs/your-own-corpus.md)."
        )
    corpus, queries = (packed_file(directory, name) for name in ("corpus.jsonl", "queries.jsonl"))
    if corpus is None:
        raise DataError(
            f"{directory}/corpus.jsonl: no such file (nor with .gz, .bz2). Make it of a folder of texts: python "
            f"pretrieve make-corpus FOLDER --out {directory}/corpus.jsonl"
        )
    files = {"corpus": str(corpus)}
    judged = [split for split in ("train", "dev", "test") if (directory / f"qrels/{split}.tsv").is_file()]
    if queries is not None:
        if not {"dev", "test"} & set(judged):
            raise DataError(
                f"{directory}/qrels/test.tsv: no such file, and no dev.tsv; expected judgements to test with, lines of "
                "query-id, corpus-id and score."
            )
        files |= {"queries": str(queries)} | {split: str(directory / f"qrels/{split}.tsv") for split in judged}
    elif judged:
        raise DataError(f"{directory}/queries.jsonl: no such file, but there is qrels/{judged[0]}.tsv; expected both.")
    small = sum(Path(file).stat().st_size for file in files.values()) <= LOOKED_AT
    documents = _look_at_documents(corpus, small)
    if queries is not None and small:
        _check_queries(documents, queries, {split: Path(files[split]) for split in judged})
    return Folder(files, documents.has_sections, documents.has_sentences, documents.has_pairs)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects with their lines; without progress, for this is done before anything begins. The jobs count what is odd."""
    return read_json_lines(path, ("_id", "text"), label=None, warnings=Warnings())


class _Ids(dict[str, int]):
    """Id → line of a file. Raises DataError for one that stands twice."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind, self.path = kind, path

    def take(self, name: str, line: int) -> None:
        first = self.setdefault(name, line)
        if first != line:
            raise DataError(
                f"{self.path}: line {line}: _id {name!r} was used before, in line {first}; expected each id once: "
                "give one of them another, or leave it out."
            )

    def expect(self, name: str, place: Callable[[], str]) -> None:
        if name not in self:
            raise DataError(
                f"{place()}{name!r} is no _id of a {self.kind} in {self.path}; correct it or leave the line out."
            )


@dataclass
class _Documents:
    """empty: ids of those without a text and a title, which a collection leaves out."""

    ids: _Ids
    empty: set[str] = field(default_factory=set)
    has_sections: bool = False
    has_sentences: bool = False
    has_pairs: bool = False


def _look_at_documents(path: Path, whole: bool) -> _Documents:
    """Check every document, or the first ones where the file is not looked at as a whole."""
    found = _Documents(_Ids("document", path))
    looked = sections = sentences = pairs = 0
    has_text = False
    for line, record in _lines(path) if whole else islice(_lines(path), SAMPLE):
        doc_id, title, text = document_fields(record, path, line, Warnings())
        found.ids.take(doc_id, line)
        if not text.strip() and not title.strip():
            found.empty.add(doc_id)
        if looked < SAMPLE or not has_text:
            parts = [section for section in sections_of(text) if section.paragraphs]
            has_text |= bool(parts)
            if looked < SAMPLE:
                looked += 1
                sections += len(parts) > 1
                sentences += any(len(sentence_spans(p.text)) > 1 for part in parts for p in part.paragraphs)
                pairs += pairs < LEAST_PAIRS and bool(queries_of(text))
    if not found.ids:
        raise DataError(f'{path}: has no document; expected lines such as {{"_id": "1", "title": "…", "text": "…"}}.')
    if whole and not has_text:
        raise DataError(
            f"{path}: none of its {len(found.ids):,} documents has a text beside headings; expected texts to train on."
        )
    least = max(1, ENOUGH * looked)
    found.has_sections, found.has_sentences = sections >= least, sentences >= least
    # Of a long file there may be more behind.
    found.has_pairs = pairs >= LEAST_PAIRS or (looked == SAMPLE and found.has_sentences)
    return found


def _check_queries(documents: _Documents, path: Path, qrels: Mapping[str, Path]) -> None:
    """Compare queries and judgements with each other and with the documents, and see what is left of each split."""
    ids, faults, empty = _Ids("query", path), dict[str, DataError](), set[str]()
    for line, record in _lines(path):
        name = id_of(record, path, line, Warnings())
        ids.take(name, line)
        try:
            if not text_of(record, "text", path, line).strip():
                empty.add(name)  # the reader leaves it out
        except DataError as error:
            faults[name] = error  # no fault of a query that nobody judged: it is left out
    split_of, known = dict[str, str](), dict[int, int]()
    for split in (split for split in PRECEDENCE if split in qrels):
        relevant, usable = set[str](), set[str]()
        for line, query_id, doc_id, relevance in read_qrels(qrels[split], "beir", Warnings(), label=None):
            place = partial(where, str(qrels[split]), line)
            ids.expect(query_id, place)
            documents.ids.expect(doc_id, place)
            if query_id in faults:
                raise faults[query_id]
            kept = split_of.setdefault(query_id, split) == split
            # Of a query that belongs to another split, two judgements may differ: this one is left out.
            is_new_judgement(place, known if kept else {}, query_id, doc_id, relevance)
            if relevance > 0:
                relevant.add(query_id)
                if kept and query_id not in empty and doc_id not in documents.empty:
                    usable.add(query_id)
        _check_what_is_left(qrels, split, relevant, usable, split_of)


def _check_what_is_left(
    qrels: Mapping[str, Path], split: str, relevant: set[str], usable: set[str], split_of: Mapping[str, str]
) -> None:
    path = qrels[split]
    if not relevant:
        raise DataError(f"{path}: no judgement above 0 in it; expected relevant documents: leave an empty split out.")
    least = 1
    if split == "train":
        least = LEAST_TRAIN if {"dev", "test"} <= qrels.keys() else LEAST_TRAIN + 1
    if len(usable) >= least:
        return
    moved = [query_id for query_id in relevant if split_of[query_id] != split]
    others = " or ".join(qrels[other].name for other in PRECEDENCE if other in {split_of[name] for name in moved})
    blank = len(relevant) - len(moved) - len(usable)
    reasons = [
        *([f"{len(moved):,} are judged in {others} too and belong there"] if moved else []),
        *([f"{blank:,} have no text, or no relevant document with a text or a title"] if blank else []),
    ]
    tests = split == "test" or "test" not in qrels
    because = f" ({', '.join(reasons)})" if reasons else ""
    raise DataError(
        f"{path}: {len(usable):,} of its {len(relevant):,} queries with a relevant document can be used{because}; expected "
        f"{least} or more: {'correct it' if tests else 'add some, or leave the file out'}."
    )
