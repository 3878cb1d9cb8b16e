"""BM25 with Lucene: the analyser, query generator and similarity of Anserini, in one JVM (:mod:`pretrieve.retrieval.lucene`).

Ties and the cut at ``depth`` are made deterministic by the index, not by fetching more: Lucene breaks ties by its
internal document number, and an index that is sorted by document id (Lucene's ``IndexSort``) and merged into one
segment has these numbers in id order. So Lucene's own top-k is exactly the order of :mod:`pretrieve.retrieval.trec_run`,
for any number of threads, and its skipping of low-scoring documents stays on, from hit number ``depth``.

As number n of the index is id n in ascending order, a column of the ids (``ids.arrow`` next to Lucene's files, mapped into
memory) is all that turns hits into ids: reading them from the index would take as long as the search. Ids stay in Arrow's
arrays, in which they take a fifth of the memory of Python's strings. Hits come over as one JSON string
for each query; a Java call for each hit would take longer still.

Scoring (``k1`` and ``b`` apply at search time; an index serves all of them)::

    score(q, d) = sum over terms t of q:  qtf * idf * tf / (tf + k1 * (1 - b + b * |d| / avgdl))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

with ``|d|`` stored in one byte: exact below 40 terms, then rounded down. N and avgdl count the documents that have at least one
term. The analyser of the language decides what a term is: Anserini's own one, in English Porter stems without stop words; in a
language without one (:data:`~pretrieve.corpora.language.NONE`) Lucene's ``StandardAnalyzer``, which only splits and lower-cases.
An index stores its language (``language.json``), so that queries are analysed as its documents were.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import whole_file, write_json
from pretrieve.corpora.language import LANGUAGES
from pretrieve.retrieval.lucene import analyzer_of, in_threads, java_alone, java_classes
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.whole_folder import whole_folder

#: Documents or queries that a thread takes at a time.
_BATCH = 64
#: Field of the ids by which the index is sorted; "id" itself holds them as Anserini does, in another form.
_ORDER = "id_order"
#: File with the id of every document in the order of Lucene's numbers.
_IDS = "ids.arrow"
#: File with the language whose analyser an index was made with.
_LANGUAGE = "language.json"


def build_index(
    documents: Iterable[tuple[str, str]], index_dir: Path | str, threads: int = 1, language: str = "en"
) -> int:
    """Index ``(doc_id, text)`` pairs with the analyser of ``language`` and return their number.

    The index is built next to ``index_dir`` and takes its place when it is complete; what was there is replaced, never
    added to. No document at all gives an empty index. A document without indexable words is kept, is never
    found and changes no score. pyserini's ``LuceneSearcher`` can open the index too.

    Raises DataError when an id repeats, is empty or is not a string, or a text is not valid Unicode, and ConfigError when
    ``threads`` < 1, for a language that is not listed, or ``index_dir`` holds something that is not a Lucene index.
    """
    if threads < 1 or language not in LANGUAGES:
        raise ConfigError(
            f"BM25: threads={threads}, language={language!r}; expected threads >= 1, and one of {', '.join(LANGUAGES)}."
        )
    index_dir = Path(index_dir)
    if index_dir.exists() and not _is_index(index_dir) and (not index_dir.is_dir() or any(index_dir.iterdir())):
        raise ConfigError(
            f"{index_dir}: exists and is not a Lucene index, so it is not replaced; give a new directory."
        )
    with whole_folder(index_dir) as building:
        ids = _write_index(documents, building, threads, language)
        ids = ids.take(pc.sort_indices(ids))  # by their bytes, as Lucene does
        _reject_repeated(ids)
        write_json(building / _LANGUAGE, language)
        table = pa.table({"id": ids})
        with whole_file(building / _IDS) as stream, pa.ipc.new_file(stream, table.schema) as file:
            file.write_table(table)
    return len(ids)


def _is_index(directory: Path) -> bool:
    return directory.is_dir() and any(directory.glob("segments_*"))


@java_alone()
def _write_index(
    documents: Iterable[tuple[str, str]], directory: Path, threads: int, language: str
) -> pa.LargeStringArray:
    """Returns the ids, in any order."""
    java = java_classes()
    config = java.WriterConfig(analyzer_of(language))
    config.setSimilarity(java.BM25())
    config.setIndexSort(java.Sort(java.SortField(_ORDER, java.SortType.STRING)))
    config.setRAMBufferSizeMB(256.0)
    writer = java.Writer(java.Directory.open(java.Paths.get(str(directory))), config)
    contents = java.FieldType()  # as Anserini's "count index": frequencies, no positions, text not stored
    contents.setTokenized(True)
    contents.setIndexOptions(java.IndexOptions.DOCS_AND_FREQS)
    next_batch = _shared_batches(documents)

    # pyjnius keeps the object of a method call in the method, which all objects of a class share: the same method of
    # two objects must not be called from two threads at a time. What is per thread is therefore called under a lock;
    # writer.addDocument, where the work is, is one object's method and runs free.
    per_thread = threading.Lock()

    def work() -> list[pa.Array]:
        # One Lucene document per thread, filled again and again, as Lucene advises.
        with per_thread:
            id_field = java.StringField("id", "", java.Store.YES)
            order_field = java.SortedField(_ORDER, java.BytesRef(b""))
            binary_field = java.BinaryField("id", java.BytesRef(b""))  # by which pyserini's searcher breaks ties
            text_field = java.Field("contents", java.cast("java.lang.CharSequence", java.String("")), contents)
            document = java.Document()
            for field in (id_field, order_field, binary_field, text_field):
                document.add(field)
        written = []
        while batch := next_batch():
            for doc_id, text in batch:
                if not isinstance(doc_id, str) or not doc_id:
                    raise DataError(f"document id {doc_id!r}: expected a non-empty string.")
                if not isinstance(text, str):
                    raise DataError(f"document '{doc_id}': its text is {text!r}, expected a string ('' for none).")
                try:
                    with per_thread:
                        id_field.setStringValue(doc_id)
                        order_field.setBytesValue(java.BytesRef(doc_id.encode()))
                        binary_field.setBytesValue(java.BytesRef(doc_id.encode()))
                        text_field.setStringValue(text)
                except UnicodeEncodeError as error:
                    raise DataError(f"document {doc_id!r}: id or text is not valid Unicode ({error}).") from None
                writer.addDocument(document)
            written.append(pa.array([doc_id for doc_id, _ in batch], pa.large_string()))
        return written

    try:
        ids = pa.concat_arrays(
            [pa.array([], pa.large_string()), *(part for parts in in_threads(work, threads) for part in parts)]
        )
        writer.forceMerge(1)
        writer.commit()
    except BaseException:
        writer.rollback()  # closes it too
        raise
    writer.close()
    return ids


def _reject_repeated(ids: pa.LargeStringArray) -> None:
    """Raise DataError for the first of the ids, in ascending order, that is there twice."""
    place = pc.index(pc.equal(ids[1:], ids[:-1]), True).as_py()
    if place >= 0:
        raise DataError(f"document '{ids[place]}' occurs twice; give every document its own id.")


def search(
    index_dir: Path | str,
    queries: Sequence[tuple[str, str]],
    depth: int,
    k1: float = 0.9,
    b: float = 0.4,
    threads: int = 1,
) -> Run:
    """Rank the index for ``(query_id, text)`` pairs: at most ``depth`` hits each, scores float32 > 0.

    Only documents that share a term with the query are hits. A query without indexable terms (empty, or stop words
    only), with unknown terms only, or on an empty index has an empty ranking. The order of the run is that of
    ``queries``. The result does not depend on ``threads``.

    Raises DataError when ``index_dir`` has no index, or a damaged one, or a query id repeats, and ConfigError when ``depth`` <
    1, ``k1`` is outside 0..1000, ``b`` outside 0..1 or ``threads`` < 1.
    """
    index_dir = Path(index_dir)
    if depth < 1 or not 0 <= k1 <= 1000 or not 0 <= b <= 1 or threads < 1:
        raise ConfigError(
            f"BM25: depth={depth}, k1={k1}, b={b}, threads={threads}; "
            "expected depth >= 1, 0 <= k1 <= 1000, 0 <= b <= 1, threads >= 1."
        )
    if not _is_index(index_dir):
        raise DataError(f"{index_dir}: no Lucene index here, expected files segments_*; build the index first.")
    ranked = _ranked(index_dir, [text for _, text in queries], depth, float(k1), float(b), threads)
    return Run([query_id for query_id, _ in queries], *ranked)


@java_alone()
def _ranked(
    index_dir: Path, texts: list[str], depth: int, k1: float, b: float, threads: int
) -> tuple[list[list[str]], list[np.ndarray]]:
    """Ids and scores of the hits of each text."""
    ids, analyzer = document_ids(index_dir), analyzer_of(_language(index_dir / _LANGUAGE))
    java = java_classes()
    reader = None
    try:
        reader = java.DirectoryReader.open(java.Directory.open(java.Paths.get(str(index_dir))))
        if reader.maxDoc() != len(ids):
            raise DataError(
                f"{index_dir}: {reader.maxDoc():,} documents, and {len(ids):,} in {_IDS}; build the index again."
            )
        # Two constructors fit a DirectoryReader; the cast says which is meant.
        searcher = java.Searcher(java.cast("org.apache.lucene.index.IndexReader", reader))
        searcher.setSimilarity(java.BM25(k1, b))
        generator = java.Generator()
        doc_ids: list[list[str]] = [[] for _ in texts]
        scores: list[np.ndarray] = [np.empty(0, np.float32) for _ in texts]
        next_batch = _shared_batches(enumerate(texts))

        kept = max(1, min(depth, len(ids)))

        def work() -> None:
            # All threads call methods of the same objects, so pyjnius may be used without a lock (see above).
            while batch := next_batch():
                for i, text in batch:
                    collected = java.TopScores.createSharedManager(kept, None, kept)
                    hits = searcher.search(generator.buildQuery("contents", analyzer, text), collected)
                    found = json.loads(java.mapper.writeValueAsString(hits))["scoreDocs"]
                    doc_ids[i] = ids.take(pa.array([hit["doc"] for hit in found], pa.int64())).to_pylist()
                    # Java writes the shortest decimal that is this float32, so no bit is lost.
                    scores[i] = np.array([hit["score"] for hit in found], dtype=np.float32)

        in_threads(work, threads)
    except java.Fault as error:
        raise DataError(
            f"{index_dir}: cannot be searched ({str(error).splitlines()[0]}); build the index again."
        ) from error
    finally:
        if reader is not None:
            reader.close()
    return doc_ids, scores


def document_ids(index_dir: Path) -> pa.ChunkedArray:
    """The ids of an index's documents, in ascending order; DataError where they are missing or damaged."""
    path = index_dir / _IDS
    try:
        ids = pa.ipc.open_file(pa.memory_map(str(path))).read_all()["id"]
        ids.validate()
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: missing or damaged ({error}); build the index again.") from error
    if ids.type != pa.large_string() or ids.null_count:
        raise DataError(f"{path}: ids are {ids.type}, {ids.null_count} missing; expected texts: build the index again.")
    return ids


def _language(path: Path) -> str:
    try:
        language = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: missing or damaged ({error}); build the index again.") from error
    if language not in LANGUAGES:
        raise DataError(
            f"{path}: language {language!r}, expected one of {', '.join(LANGUAGES)}; build the index again."
        )
    return language


def _shared_batches(items: Iterable) -> Callable[[], list]:
    """A function that hands out the next items, safe to call from several threads; an empty list is the end."""
    iterator: Iterator = iter(items)
    lock = threading.Lock()

    def next_batch() -> list:
        with lock:
            return list(islice(iterator, _BATCH))

    return next_batch
