"""Any corpus → documents of BEIR's layout: a folder of texts, tables, or a data set of the hub.

What a place is, in this order:

1. ``hub:OWNER/NAME``: a data set of the hub;
2. a file: a table or a text, by its suffix;
3. a folder with tables: those named ``corpus.*``, or all of them where it has no text but ``README`` and the like;
4. a folder of texts.

Tables: :mod:`pretrieve.corpora.record_tables`; texts: :mod:`pretrieve.corpora.folder`. Files that BEIR's layout has beside a
corpus (queries and judgements) are neither. :func:`converted` writes ``corpus.jsonl`` once, and again when what it was made
of changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.base.sizes import factor
from pretrieve.corpora.beir_documents import Document, write_documents
from pretrieve.corpora.builder import Article
from pretrieve.corpora.folder import SUFFIXES as TEXTS
from pretrieve.corpora.folder import read_files
from pretrieve.corpora.plain_text import files_inside, passed_over, refuse_links_out
from pretrieve.corpora.record_tables import HUB, hub_documents, table_documents
from pretrieve.corpora.record_tables import SUFFIXES as TABLES
from pretrieve.corpora.wikitext import Section
from pretrieve.raw.raw_text import LONGEST, Warnings

#: What a document is: a whole file, or each of its sections.
DOCUMENTS = ("files", "sections")
#: Names, without suffix, of texts that are about a folder's contents, not among them.
_ABOUT = ("readme", "license", "licence", "notice", "changelog", "contributing", "dataset_card")

#: Tables of questions or judgements, by their places: ``queries.csv``, and as the hub has them, ``queries/test-0.parquet``.
ASKS = re.compile(r"(queries|qrels)(/.*)?\.(jsonl|csv|tsv|parquet)\b")


@dataclass(frozen=True)
class Wanted:
    """documents: what a document of a folder of texts is (:data:`DOCUMENTS`). columns: id, title or text → the column of a table
    that holds it, where its name does not say so."""

    documents: str = DOCUMENTS[0]
    columns: Mapping[str, str] = field(default_factory=dict)


class Source(NamedTuple):
    """kind: hub, tables or texts; place: what was named; files: those that are read, none of the hub's."""

    kind: str
    place: str
    files: tuple[Path, ...]


class Converted(NamedTuple):
    """corpus: the ``corpus.jsonl``; notes: what was omitted, a line each."""

    corpus: Path
    notes: tuple[str, ...]


def path_of(place: str) -> Path:
    """A place as a path, ``~`` and ``~NAME`` written out. Raises DataError where there is no such home."""
    try:
        return Path(place).expanduser()
    except RuntimeError:
        raise DataError(
            f"{place}: there is no home directory of this user; expected a path that begins with / or ./."
        ) from None


def source_of(place: str) -> Source:
    """What a place is.

    Raises DataError for a place that is nothing, has nothing that can be read, or a link that leads out of it.
    """
    if place.startswith(HUB):
        return Source("hub", place, ())
    path = path_of(place)
    if path.is_file():
        for kind, suffixes in (("tables", TABLES), ("texts", TEXTS)):
            if path.name.lower().endswith(suffixes):
                return Source(kind, place, (path,))
    elif path.is_dir():
        inside = [name for name in files_inside(path, (*TABLES, *TEXTS)) if not _asks(name)]
        tables = [file for file in inside if file.name.lower().endswith(TABLES)]
        named = [file for file in tables if len(file.parts) == 1 and file.name.lower().startswith("corpus.")]
        texts = [file for file in inside if file.name.lower().endswith(TEXTS)]
        are_tables = named or (tables and all(file.name.lower().split(".")[0] in _ABOUT for file in texts))
        if files := (named or tables) if are_tables else texts:
            refuse_links_out(path, files)
            return Source("tables" if are_tables else "texts", place, tuple(path / file for file in files))
    else:
        raise DataError(
            f"{place}: no such file or folder; expected one with documents, or {HUB}OWNER/NAME (docs/your-own-corpus.md)."
        )
    raise DataError(
        f"{place}: nothing in it that can be read as documents; expected corpus.jsonl, files {', '.join(TEXTS)}, or tables "
        f"{', '.join(TABLES)} (docs/your-own-corpus.md)."
    )


def _asks(name: Path) -> bool:
    """Whether a file has questions or judgements, of BEIR's layout or in a table of that name."""
    return name.parts[0] == "qrels" or bool(ASKS.match(name.as_posix().lower()))


def documents_of(source: Source, wanted: Wanted, warnings: Warnings) -> Iterator[Document]:
    """The documents of a place that ``corpus.jsonl`` can hold; longer ones are counted in ``warnings``.

    Raises ConfigError for columns of texts, or documents of a table that are no rows, and what the readers raise.
    """
    texts = source.kind == "texts"
    if wanted.columns if texts else wanted.documents != DOCUMENTS[0]:
        given = f"columns {dict(wanted.columns)}" if texts else f"documents {wanted.documents!r}"
        what = "texts, which have no columns" if texts else "a table, whose documents are its rows"
        raise ConfigError(f"{source.place}: {what}; leave {given} out.")
    if source.kind == "hub":
        found = hub_documents(source.place, wanted.columns, warnings)
    elif source.kind == "tables":
        found = table_documents(source.files, wanted.columns, warnings)
    else:
        found = folder_documents(path_of(source.place), wanted.documents, warnings)
    return (document for document in found if not _too_long(document, warnings))


def _too_long(document: Document, warnings: Warnings) -> bool:
    """Whether no reader takes its line of ``corpus.jsonl``, which has at most six bytes for a character."""
    if sum(map(len, document)) <= LONGEST // 6:
        return False
    if too_long := len(json.dumps(document._asdict(), ensure_ascii=False).encode()) > LONGEST:
        warnings.add(f"document of more than {LONGEST:,} bytes, left out", document.doc_id)
    return too_long


def folder_documents(folder: Path, documents: str, warnings: Warnings) -> Iterator[Document]:
    """The documents of a folder of texts, or of one file (:mod:`pretrieve.corpora.folder`).

    ``documents``: ``files``: id is the file's name within the folder, sections stand in the text under their headings.
    ``sections``: one document each, id ``name#2`` for the second with text, title ``Title: Heading``; for files that are longer
    than what a model reads. A page of a PDF is a section, ``name#2`` its second page. Files of other kinds are counted in
    ``warnings``, but for questions and judgements.

    Raises what the reader raises.
    """
    for file, article in read_files([folder], warnings):
        yield from _of_file(file.as_posix(), article, documents)
    for file in passed_over(folder, TEXTS):
        if not _asks(file):
            warnings.add(f"no {', '.join(TEXTS)} file, passed over", str(folder / file))


def _of_file(name: str, article: Article, documents: str) -> Iterator[Document]:
    sections = [section for section in article.sections if section.paragraphs]
    if documents == "files":
        yield Document(name, article.title, "\n\n".join(map(_with_heading, sections)))
        return
    for number, section in enumerate(sections, start=1):
        title = f"{article.title}: {section.heading}" if section.heading else article.title
        yield Document(f"{name}#{section.page or number}", title, _text(section))


def _text(section: Section) -> str:
    return "\n\n".join(paragraph.text for paragraph in section.paragraphs)


def _with_heading(section: Section) -> str:
    head = f"{'#' * max(2, section.level)} {section.heading}\n\n" if section.heading else ""
    return head + _text(section)


def converted(place: str, folder: Path, wanted: Wanted, code: str = "") -> Converted:
    """``folder/corpus.jsonl`` with the documents of a place. It is written anew when the place, its files (names, sizes, dates),
    what is wanted, the factor of :mod:`pretrieve.base.sizes` or the ``code`` of the readers changed, and where its record is
    damaged; what the hub has under a name is believed to stay.

    Raises DataError as :func:`source_of`, the readers, and where there is no document.
    """
    source = source_of(place)
    # cp -p, archives and mirrors set the date of the contents (mtime); they cannot set that of the last change (ctime).
    stats = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns, stat.st_ctime_ns) for file in source.files]
    key = hashlib.sha256(repr((source.kind, place, stats, wanted, code, factor())).encode()).hexdigest()
    corpus, record = folder / "corpus.jsonl", folder / "made_of.json"
    known = _recorded(record) if record.is_file() and corpus.is_file() else {}
    if known.get("key") != key:
        print(f"{place}: its documents are written to {corpus}, in BEIR's layout.", file=sys.stderr)
        record.unlink(missing_ok=True)
        warnings = Warnings()
        write_documents(corpus, documents_of(source, wanted, warnings))
        # Some name a file whose name is not UTF-8.
        notes = warnings.summary().encode(errors="backslashreplace").decode().splitlines()
        known = {"key": key, "place": place, "notes": notes}
        write_json(record, known)
    return Converted(corpus, tuple(known["notes"]))


def _recorded(record: Path) -> dict[str, Any]:
    """What a record says; empty where it is damaged."""
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # no JSON, or no UTF-8
        return {}
    return known if isinstance(known, dict) and isinstance(known.get("notes"), list) else {}
