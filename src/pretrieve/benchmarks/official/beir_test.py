"""The test questions of a folder in BEIR's layout, in memory: for evaluating a model that is there already.

The files and their checks are those of :mod:`pretrieve.benchmarks.official.beir`, and so is what counts: documents without a text
and a title are omitted, and so are queries without a text or without a relevant document.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.base.inside import refuse_outside
from pretrieve.benchmarks.official.beir import beir_files
from pretrieve.corpora.beir_documents import document_fields, id_of, text_of
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.tasks.qrels_lines import read_qrels


@dataclass(frozen=True)
class BeirTest:
    """documents: id → (title, text); queries: id → text; qrels: query → document → grade above 0; split: test or dev."""

    name: str
    split: str
    documents: dict[str, tuple[str, str]]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def read_beir_test(folder: Path) -> BeirTest:
    """Read the test split of a folder, or dev where there is no test.

    Raises DataError when a file is missing, damaged or a link out of the folder, a judgement is of an unknown document, or
    there is nothing to test with.
    """
    folder = Path(folder)
    files = beir_files(folder)
    refuse_outside(files.values(), folder)
    split = "test" if "test" in files else "dev"
    if split not in files:
        raise DataError(f"{folder}/qrels: has no test.tsv and no dev.tsv; expected one of them to test with.")
    warnings, documents, texts = Warnings(), dict[str, tuple[str, str]](), dict[str, str]()
    for line, record in read_json_lines(files["corpus"], ("_id", "text"), label=None, warnings=warnings):
        doc_id, title, text = document_fields(record, files["corpus"], line, warnings)
        documents[doc_id] = (title, text)
    for line, record in read_json_lines(files["queries"], ("_id", "text"), label=None, warnings=warnings):
        text = text_of(record, "text", files["queries"], line)
        if text.strip():
            texts[id_of(record, files["queries"], line, warnings)] = text
    empty = {doc_id for doc_id, fields in documents.items() if not any(map(str.strip, fields))}
    qrels: dict[str, dict[str, int]] = {}
    for line, query_id, doc_id, grade in read_qrels(files[split], "beir", warnings, label=None):
        if grade > 0 and query_id in texts and doc_id not in documents:
            raise DataError(f"{files[split]}: line {line}: {doc_id!r} is not a document of {files['corpus']}.")
        if grade > 0 and query_id in texts and doc_id not in empty:
            qrels.setdefault(query_id, {})[doc_id] = grade
    if not qrels:
        raise DataError(f"{files[split]}: no query of it has a text and a relevant document; expected one or more.")
    documents = {doc_id: fields for doc_id, fields in documents.items() if doc_id not in empty}
    return BeirTest(folder.resolve().name, split, documents, {query_id: texts[query_id] for query_id in qrels}, qrels)
