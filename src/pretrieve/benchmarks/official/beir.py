"""BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/{train,dev,test}.tsv``.

https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset (Thakur et al. 2021)::

    corpus.jsonl   {"_id": "4983", "title": "Microstructural …", "text": "Alterations of …", "metadata": {…}}
    queries.jsonl  {"_id": "1", "text": "0-dimensional biomaterials …", "metadata": {…}}
    qrels/*.tsv    query-id <tab> corpus-id <tab> score, with a header line

``title`` and ``metadata`` may be missing; ids are strings (a number is read as one, and counted). A query's split is where it is
judged; one without judgements, or without text, is omitted. All files may be packed. CQADupStack is twelve such directories,
twelve collections, and one number, their mean (:func:`pretrieve.evaluation.conventions.mean_of_means`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.inside import refuse_outside
from pretrieve.benchmarks.official.beir_sets import SETS, set_called
from pretrieve.corpora.beir_documents import Ids, id_of, read_documents, text_of
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_ids import is_new_judgement, where
from pretrieve.tasks.collection_tables import SPLITS
from pretrieve.tasks.qrels_lines import add_judgements, read_qrels, splits_of_queries
from pretrieve.tasks.splits import rounded, shuffled

_JUDGEMENTS = re.compile(r"(train|dev|test)\.tsv(\.gz|\.bz2)?")


def beir_files(directory: Path) -> dict[str, Path]:
    """The files of a directory in the layout, packed or not, by their names in :data:`~pretrieve.benchmarks.readers.READERS`.
    Raises DataError when a required one is missing or there twice, or there is no judgement at all."""
    files = {}
    for name in ("corpus", "queries"):
        found = packed_file(directory, f"{name}.jsonl")
        if found is None:
            raise DataError(
                f"{directory / name}.jsonl: no such file (nor with .gz, .bz2); expected a directory in BEIR's layout."
            )
        files[name] = found
    judgements = {split: packed_file(directory / "qrels", f"{split}.tsv") for split in SPLITS}
    if not any(judgements.values()):
        raise DataError(
            f"{directory}/qrels: no train.tsv, dev.tsv or test.tsv (nor with .gz, .bz2); expected at least one."
        )
    return files | {split: path for split, path in judgements.items() if path}


def not_read(directory: Path) -> list[str]:
    """The names of other files in ``qrels/``: ``validation.tsv`` is no ``dev.tsv``."""
    names = (path.name for path in (directory / "qrels").glob("[!.]*") if path.is_file())
    return sorted(name for name in names if not _JUDGEMENTS.fullmatch(name))


def packed_file(directory: Path, name: str) -> Path | None:
    """A file by its name, or packed as ``.gz`` or ``.bz2``; None where there is neither. Raises DataError where there are two:
    which of them is newer cannot be known."""
    found = [place for suffix in ("", ".gz", ".bz2") if (place := directory / f"{name}{suffix}").is_file()]
    if len(found) > 1:
        names = " and ".join(place.name for place in found)
        raise DataError(f"{directory}: has {names}; expected one of them: remove or rename the others.")
    return found[0] if found else None


def read_beir(
    files: Mapping[str, Path],
    writer: CollectionWriter,
    name: str = "",
    below_zero: str = "error",
    test_share: float = 0.0,
) -> None:
    """Read a set in BEIR's layout.

    files: ``corpus``, ``queries``, and at least one of the judgements ``train``, ``dev``, ``test``. name: a BEIR set, such as
    ``scifact`` or ``cqadupstack/android``, whose counts must come out; '' for other data. A folder with the name of a set is
    allowed that set's peculiarities. below_zero: ``error``, or ``leave-out``
    where a relevance below zero means "not judged". test_share: share of the train queries with a relevant document that
    become test queries, drawn by their ids; for data without test and dev queries.

    Raises ConfigError when there are no judgements, or a share beside test or dev queries, and DataError when a file is damaged
    or not in the layout.
    """
    qrels = {split: files[split] for split in SPLITS if split in files}
    if not qrels:
        raise ConfigError("reader 'beir' has no judgements: give at least one of the files train, dev and test.")
    if test_share and set(qrels) != {"train"}:
        raise ConfigError(f"test_share is {test_share}, beside {', '.join(qrels)}; expected judgements of train alone.")
    if name:
        writer.expected |= SETS[name].expected(qrels)
    own = set_called(name or files["queries"].resolve().parent.name)
    writer.lacking = own.lacking
    if name or own.below_zero == "leave-out":
        below_zero = own.below_zero
    split_of = splits_of_queries(qrels, "beir", writer.warnings)
    if test_share:
        usable = {judged.query_id for judged in read_qrels(qrels["train"], "beir") if judged.relevance > 0}
        split_of |= dict.fromkeys(shuffled(usable, 1)[: rounded(test_share * len(usable))], "test")
    path = files["corpus"]
    for line, document in read_documents(path, writer.warnings):
        writer.at(path, line)
        writer.add_document(*document)
    path, first = files["queries"], dict[str, int]()
    for line, record in read_json_lines(path, ["_id", "text"], warnings=writer.warnings):
        writer.at(path, line)
        query_id = id_of(record, path, line, writer.warnings)
        if query_id not in split_of:
            writer.warnings.add("query that is not judged, left out", f"{path}: line {line}: {query_id!r}")
            continue
        # The writer sees no query without text, so an id that has one line with and one without is found here.
        if (before := first.setdefault(query_id, line)) != line:
            raise DataError(
                f"{path}: line {line}: query id {query_id!r} was used before, by {path}: line {before}; expected every id once."
            )
        if (text := text_of(record, "text", path, line)).strip():
            writer.add_query(query_id, text, split_of[query_id])
        else:
            writer.warnings.add("query without text, left out", f"{path}: line {line}: {query_id!r}")
            split_of[query_id] = ""  # its judgements go with it
    add_judgements(writer, qrels, "beir", split_of, below_zero, moved=bool(test_share))


@dataclass(frozen=True)
class BeirTest:
    """The test questions of a folder, in memory. documents: id → (title, text); queries: id → text; qrels: query → document →
    grade above 0; split: test or dev."""

    name: str
    split: str
    documents: dict[str, tuple[str, str]]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def read_beir_test(folder: Path) -> BeirTest:
    """Read the test split of a folder, or dev where there is no test, without documents that lack a text and a title, and queries
    that lack a text or a relevant document. In a folder with the name of a BEIR set, a relevance below zero means what it does
    there, and judged documents may be missing from the corpus: they are never found, as in BEIR's own scores.

    Raises DataError when a file is missing, damaged or a link out of the folder, an id appears twice, a judgement is of an
    unknown id or below zero, two of one pair differ, or there is nothing to test with.
    """
    files = beir_files(folder)
    refuse_outside(files.values(), folder)
    split = "test" if "test" in files else "dev"
    if split not in files:
        raise DataError(f"{folder}/qrels: has no test.tsv and no dev.tsv; expected one of them to test with.")
    warnings, documents, texts = Warnings(), dict[str, tuple[str, str]](), dict[str, str]()
    own = set_called(folder.resolve().name)
    doc_ids, query_ids = Ids("document", files["corpus"], own.lacking), Ids("query", files["queries"])
    for line, (doc_id, title, text) in read_documents(files["corpus"], warnings, label=None):
        doc_ids.take(doc_id, line)
        documents[doc_id] = (title, text)
    for line, record in read_json_lines(files["queries"], ("_id", "text"), label=None, warnings=warnings):
        query_ids.take(query_id := id_of(record, files["queries"], line, warnings), line)
        if (text := text_of(record, "text", files["queries"], line)).strip():
            texts[query_id] = text
    empty = {doc_id for doc_id, fields in documents.items() if not any(map(str.strip, fields))}
    qrels, known = dict[str, dict[str, int]](), dict[int, int]()
    for line, query_id, doc_id, grade in read_qrels(files[split], "beir", warnings, None, own.below_zero):
        place = partial(where, str(files[split]), line)
        query_ids.expect(query_id, place)
        doc_ids.expect(doc_id, place)
        is_new_judgement(place, known, query_id, doc_id, grade)
        if grade > 0 and query_id in texts and doc_id not in empty:
            qrels.setdefault(query_id, {})[doc_id] = grade
    if not qrels:
        raise DataError(f"{files[split]}: no query of it has a text and a relevant document; expected one or more.")
    documents = {doc_id: fields for doc_id, fields in documents.items() if doc_id not in empty}
    return BeirTest(folder.resolve().name, split, documents, {query_id: texts[query_id] for query_id in qrels}, qrels)
