"""A folder in BEIR's layout, looked at before any job starts: which files it has, whether they fit together, and what can be
trained on it.

The layout is that of :mod:`pretrieve.tasks.beir`, whose readers check every line once more when the collection is built. Here is
found, within seconds, what would otherwise stop a run after minutes: a missing file, a line that is no JSON, an id that stands
twice, a judgement of an unknown id or below zero. Ids of files up to :data:`LOOKED_AT` bytes are compared; of larger ones
the first documents decide what can be trained, and the first job compares the ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pretrieve.corpora.beir_documents import sections_of
from pretrieve.corpora.raw_text import Warnings, read_json_lines
from pretrieve.errors import DataError
from pretrieve.tasks.qrels_lines import read_qrels
from pretrieve.text.sentences import sentence_spans

#: Ids of files up to this size are compared.
LOOKED_AT = 64 << 20
#: So many documents decide what can be trained.
SAMPLE = 2000
#: Share of the documents that must have sections, or two sentences, for an objective that is made of them.
ENOUGH = 0.05


@dataclass(frozen=True)
class Folder:
    """What a folder has. files: as the reader ``beir`` takes them; has_sections, has_sentences: whether enough documents
    have sections (for BFS) and two sentences (for ICT)."""

    files: Mapping[str, str]
    has_sections: bool
    has_sentences: bool

    @property
    def has_queries(self) -> bool:
        return "queries" in self.files

    @property
    def has_train(self) -> bool:
        return "train" in self.files


def look_at(directory: Path) -> Folder:
    """Find the files of a folder and compare their ids.

    Raises
    ------
    DataError
        for a folder or file that is missing, a line that is not in the layout, an id that stands twice, a judgement of an unknown
        id or below zero, or no judgement to test with.
    """
    if not directory.is_dir():
        raise DataError(
            f"my_corpus: {directory} is no directory; expected one with corpus.jsonl (docs/your-own-corpus.md)."
        )
    corpus, queries = (_packed(directory, name) for name in ("corpus.jsonl", "queries.jsonl"))
    if corpus is None:
        raise DataError(
            f"{directory}/corpus.jsonl: no such file (nor with .gz, .bz2). Make it of a folder of texts: python "
            f"workflow_scripts/make_corpus.py FOLDER --out {directory}/corpus.jsonl"
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
    lines = _lines(corpus) if small else islice(_lines(corpus), SAMPLE)
    documents, has_sections, has_sentences = _look_at_documents(corpus, lines)
    if queries is not None and small:
        texts = {"query": _ids(queries, _lines(queries)), "document": documents}
        for split in judged:
            _check_judgements(Path(files[split]), texts, {"query": queries, "document": corpus})
    return Folder(files, has_sections, has_sentences)


def _packed(directory: Path, name: str) -> Path | None:
    return next((p for suffix in ("", ".gz", ".bz2") if (p := directory / f"{name}{suffix}").is_file()), None)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects with their lines; without progress, for this is done before anything begins. The jobs count what is odd."""
    return read_json_lines(path, ("_id", "text"), label=None, warnings=Warnings())


def _ids(path: Path, lines: Iterator[tuple[int, dict[str, Any]]]) -> dict[str, int]:
    """Id → line."""
    found: dict[str, int] = {}
    for number, record in lines:
        first = found.setdefault(str(record["_id"]), number)
        if first != number:
            raise DataError(
                f"{path}: line {number}: _id {str(record['_id'])!r} was used before, in line {first}; expected each id once: "
                "give one of them another, or leave it out."
            )
    return found


def _look_at_documents(path: Path, lines: Iterator[tuple[int, dict[str, Any]]]) -> tuple[dict[str, int], bool, bool]:
    """Ids with their lines, and whether enough documents have sections, and a passage of two sentences."""
    looked = sections = sentences = 0

    def watched() -> Iterator[tuple[int, dict[str, Any]]]:
        nonlocal looked, sections, sentences
        for number, record in lines:
            if looked < SAMPLE:
                looked += 1
                parts = [section for section in sections_of(str(record["text"])) if section.paragraphs]
                sections += len(parts) > 1
                sentences += any(len(sentence_spans(p.text)) > 1 for part in parts for p in part.paragraphs)
            yield number, record

    ids = _ids(path, watched())
    if not ids:
        raise DataError(f'{path}: has no document; expected lines such as {{"_id": "1", "title": "…", "text": "…"}}.')
    least = max(1, ENOUGH * looked)
    return ids, sections >= least, sentences >= least


def _check_judgements(path: Path, ids: Mapping[str, Mapping[str, int]], files: Mapping[str, Path]) -> None:
    relevant = 0
    for number, *names, relevance in read_qrels(path, "beir", Warnings(), label=None):
        for (kind, known), name in zip(ids.items(), names, strict=True):
            if name not in known:
                raise DataError(
                    f"{path}: line {number}: {name!r} is no _id of a {kind} in {files[kind]}; correct it or leave the line out."
                )
        if relevance < 0:
            raise DataError(
                f"{path}: line {number}: relevance {relevance} of document {names[1]!r} for query {names[0]!r} is below zero; "
                "expected 0 (judged, not relevant), 1 or more."
            )
        relevant += relevance > 0
    if not relevant:
        raise DataError(f"{path}: no judgement above 0 in it; expected relevant documents: leave an empty split out.")
