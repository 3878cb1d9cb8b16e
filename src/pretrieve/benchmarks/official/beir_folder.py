"""A folder in BEIR's layout, looked at before any job starts: which files it has, whether they fit together, and what can be
trained on it.

Here is found, within seconds, what would otherwise stop a run after minutes: a missing file, a line that is not JSON, an id that
appears twice, a judgement of an unknown id, a test split of which nothing is left. What can be done without is noted, in one line
each. Files up to :data:`LOOKED_AT` bytes are read as a whole; of larger ones the first documents decide what can be trained, and
the first jobs check the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of
from pretrieve.benchmarks.made.corpus_pairs import LEAST_PAIRS, DistinctTexts, has_crops, queries_of
from pretrieve.benchmarks.official.beir import not_read, packed_file
from pretrieve.benchmarks.official.beir_sets import set_called
from pretrieve.corpora.any_corpus import ASKS
from pretrieve.corpora.beir_documents import Ids, id_of, read_documents, sections_of, text_of
from pretrieve.corpora.language import language_of
from pretrieve.corpora.sentences import sentence_spans
from pretrieve.raw.raw_text import Warnings, read_json_lines, read_lines
from pretrieve.tasks.collection_ids import is_new_judgement, where
from pretrieve.tasks.qrels_lines import BEIR_COLUMNS, PRECEDENCE, read_qrels
from pretrieve.tasks.splits import draw_key

#: Ids of files up to this size are compared.
LOOKED_AT = 64 << 20
#: How many documents decide what can be trained; how many of them, and of their first characters, which language it is.
SAMPLE, READ, CHARACTERS = 2000, 500, 400
#: Two queries train and one validates; without a dev split, one more is taken for it.
LEAST_TRAIN = 3
#: Share of the train queries that test where nothing else does, and queries from which on both can be had.
TEST_SHARE, LEAST_SHARED = 0.2, 10
#: Share of the documents that must have sections, or two sentences, for an objective that is made of them.
ENOUGH = 0.05


@dataclass(frozen=True)
class Folder:
    """What a folder has. files: as the reader ``beir`` takes them; has_sections, has_sentences: whether enough documents
    have sections (for BFS) and two sentences (for ICT); pairs: the reader that makes training pairs of the documents, ''
    where none can; language: of :data:`pretrieve.corpora.language.LANGUAGES`; contents: file → :func:`contents_of`;
    test_share: of the train queries, which test where nothing else does; notes: what is done without, and why, a line each."""

    files: Mapping[str, str]
    has_sections: bool
    has_sentences: bool
    pairs: str
    language: str
    contents: Mapping[str, str]
    test_share: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def has_queries(self) -> bool:
        return "queries" in self.files

    @property
    def has_train(self) -> bool:
        return "train" in self.files and self.test_share < 1


def look_at(directory: Path, corpus: Path | None = None, language: str = "auto") -> Folder:
    """Find the files of a folder and check what stands in them. ``corpus``: the documents, where they are not in the folder.

    Raises DataError for a file that is missing, there twice or may not be read, a line that is not in the layout, an id that
    appears twice, a judgement of an unknown id or below zero, two that differ, documents that all lack a text, or test queries
    that all have no text, or no relevant document with a text.
    """
    try:
        return _look_at(directory, corpus, language)
    except OSError as error:
        raise DataError(
            f"{error.filename or directory}: cannot be read: {error.strerror or error}; expected files that you may read: change "
            "their permissions."
        ) from error


def _look_at(directory: Path, corpus: Path | None, language: str) -> Folder:
    if not directory.is_dir():
        raise DataError(
            f"my_corpus: {directory} is not a directory; expected one with corpus.jsonl (docs/your-own-corpus.md)."
        )
    corpus = corpus or packed_file(directory, "corpus.jsonl")
    if corpus is None:
        raise DataError(
            f"{directory}/corpus.jsonl: no such file (nor with .gz, .bz2); expected a folder of BEIR's layout."
        )
    files, notes = {"corpus": str(corpus)}, list[str]()
    qrels = _judgements(directory, notes)
    queries = packed_file(directory, "queries.jsonl")
    others = {file.name for file in directory.iterdir() if ASKS.match(file.name)} - {queries.name if queries else ""}
    notes += [f"{name} is not read; expected queries.jsonl and qrels/test.tsv" for name in sorted(others)]
    if queries is None and qrels:
        raise DataError(f"{directory}/queries.jsonl: no such file, but there is qrels/{min(qrels)}.tsv; expected both.")
    if queries is not None and not qrels:
        notes.append(f"{queries.name} is not used: there are no judgements in qrels/test.tsv, dev.tsv or train.tsv")
        queries = None
    small = sum(path.stat().st_size for path in (corpus, queries, *qrels.values()) if path) <= LOOKED_AT
    documents = _look_at_documents(corpus, small)
    share = 0.0
    if queries is not None:
        # The first jobs check larger files.
        usable = _check_queries(documents, queries, qrels, notes) if small else LEAST_SHARED
        if set(qrels) == {"train"}:
            share = TEST_SHARE if usable >= LEAST_SHARED else 1.0
            what = f"{share:.0%} of the questions" if share < 1 else "all questions"
            count = "" if share < 1 else f" ({usable})"
            notes.append(f"no test questions: {what} in train.tsv{count} test, and do not train")
        elif "test" not in qrels:
            notes.append("no test questions: those of dev.tsv test")
        if share < 1 and "train" in qrels and not {"dev", "test"} <= qrels.keys():
            notes.append("no questions for development: a tenth of those in train.tsv")
        files |= {"queries": str(queries)} | {split: str(path) for split, path in qrels.items()}
    pairs = "random-crops" if documents.crop_pairs >= LEAST_PAIRS else ""
    if documents.has_sentences and documents.sentence_pairs >= LEAST_PAIRS:
        pairs = "inverse-cloze"
    if queries is None:
        notes.append("no questions: nothing is compared; the documents are indexed for BM25")
    elif "train" not in qrels or share == 1:
        notes.append(_PAIR_NOTES[pairs])
        if documents.repeated:
            among = "" if small else f" of the first {SAMPLE:,}"
            notes.append(f"no pairs are made of documents with the text of another one: {documents.repeated:,}{among}")
    if language == "auto":
        found = language_of(text for _, text in sorted(documents.begins)[:READ])
        language = found.code
        notes.append(_language_note(found.found, found.share, language))
    contents = {file: contents_of(Path(file)) for file in files.values()}
    return Folder(
        files, documents.has_sections, documents.has_sentences, pairs, language, contents, share, tuple(notes)
    )


def contents_of(file: Path) -> str:
    """What tells the contents of a file from others that were at its place before: up to :data:`LOOKED_AT` bytes a hash of them,
    whatever its date; above, size and date in whole seconds, which archives keep."""
    about = file.stat()
    return sha256_of(file) if about.st_size <= LOOKED_AT else f"{about.st_size} bytes of {int(about.st_mtime)}"


_PAIR_NOTES = {
    "inverse-cloze": "no training questions: pairs are sentences and the documents that they were taken from",
    "random-crops": "no training questions, and hardly a document has two sentences: pairs are two random crops of a document",
    "": f"no training questions, and fewer than {LEAST_PAIRS} documents with texts of their own to make pairs of: nothing is "
    "trained",
}


def _language_note(found: str, share: float, code: str) -> str:
    if not found:
        return "language: the texts have no words; BM25 reads them as English"
    how = f"BM25 has no analyser for it: words are not stemmed ({code})" if found != code else "BM25 takes its analyser"
    return f"language: {found}, in {share:.0%} of the texts that were looked at; {how}"


def _judgements(directory: Path, notes: list[str]) -> dict[str, Path]:
    """Split → its file, where there is one with a line in it."""
    notes += [f"qrels/{name} is not read; expected test.tsv, dev.tsv or train.tsv" for name in not_read(directory)]
    found = {split: path for split in PRECEDENCE if (path := packed_file(directory / "qrels", f"{split}.tsv"))}
    for split, path in list(found.items()):
        lines = (line.text for line in read_lines(path, label=None))
        if all(not line.strip() or tuple(line.split("\t")) == BEIR_COLUMNS for line in lines):
            notes.append(f"qrels/{split}.tsv has no judgement in it, and is left out")
            del found[split]
    return found


@dataclass
class _Documents:
    """empty: ids of those without a text and a title, which a collection omits; begins: (order of a draw, first characters);
    sentence_pairs, crop_pairs: documents with a text of their own that a pair can be made of; repeated: those without one."""

    ids: Ids
    empty: set[str] = field(default_factory=set)
    has_sections: bool = False
    has_sentences: bool = False
    sentence_pairs: int = 0
    crop_pairs: int = 0
    repeated: int = 0
    begins: list[tuple[int, str]] = field(default_factory=list)


def _look_at_documents(path: Path, whole: bool) -> _Documents:
    """Check every document, or the first ones where the file is not looked at as a whole."""
    found, texts = _Documents(Ids("document", path, set_called(path.resolve().parent.name).lacking)), DistinctTexts()
    looked = sections = sentences = 0
    has_text = False
    # Without progress, for this is done before anything begins. The jobs count what is odd.
    for line, (doc_id, title, text) in islice(read_documents(path, Warnings(), label=None), None if whole else SAMPLE):
        found.ids.take(doc_id, line)
        if not text.strip():
            found.empty.update([] if title.strip() else [doc_id])
            continue
        new = texts.is_new(text)
        found.repeated += not new
        if looked < SAMPLE or not has_text:
            parts = [section for section in sections_of(text) if section.paragraphs]
            has_text |= bool(parts)
        if looked < SAMPLE:
            looked += 1
            found.begins.append((draw_key(1, doc_id), f"{title} {text}"[:CHARACTERS]))
            sections += len(parts) > 1
            sentences += any(len(sentence_spans(p.text)) > 1 for part in parts for p in part.paragraphs)
        if new and found.sentence_pairs < LEAST_PAIRS:
            found.sentence_pairs += bool(queries_of(text))
        if new and found.crop_pairs < LEAST_PAIRS:
            found.crop_pairs += has_crops(text)
    if not found.ids:
        raise DataError(f'{path}: has no document; expected lines such as {{"_id": "1", "title": "…", "text": "…"}}.')
    if whole and not has_text:
        raise DataError(
            f"{path}: none of its {len(found.ids):,} documents has text besides headings; expected texts to train on."
        )
    least = max(1, ENOUGH * looked)
    found.has_sections, found.has_sentences = sections >= least, sentences >= least
    return found


def _check_queries(documents: _Documents, path: Path, qrels: dict[str, Path], notes: list[str]) -> int:
    """Compare queries and judgements with each other and with the documents, and see what is left of each split: one of which
    nothing is left is taken out of ``qrels``, and noted, unless it tests. Returns the usable queries of the last split."""
    ids, faults, empty = Ids("query", path), dict[str, DataError](), set[str]()
    for line, record in read_json_lines(path, ("_id", "text"), label=None, warnings=Warnings()):
        name = id_of(record, path, line, Warnings())
        ids.take(name, line)
        try:
            if not text_of(record, "text", path, line).strip():
                empty.add(name)  # the reader omits it
        except DataError as error:
            faults[name] = error  # no fault of a query that nobody judged: it is omitted
    split_of, left, below_zero = dict[str, str](), 0, set_called(path.resolve().parent.name).below_zero
    for split in (split for split in PRECEDENCE if split in qrels):
        relevant, usable, known = set[str](), set[str](), dict[int, int]()
        for line, query_id, doc_id, relevance in read_qrels(qrels[split], "beir", Warnings(), None, below_zero):
            place = partial(where, str(qrels[split]), line)
            ids.expect(query_id, place)
            documents.ids.expect(doc_id, place)
            if query_id in faults:
                raise faults[query_id]
            kept = split_of.setdefault(query_id, split) == split
            # Of a query that belongs to another split, two judgements may differ: this one is omitted.
            is_new_judgement(place, known if kept else {}, query_id, doc_id, relevance)
            if relevance > 0:
                relevant.add(query_id)
                there = doc_id in documents.ids and doc_id not in documents.empty
                if kept and query_id not in empty and there:
                    usable.add(query_id)
        left = len(usable)
        lacks = _what_it_lacks(qrels, split, relevant, usable, split_of)
        if lacks and (split == "test" or len(qrels) == 1 or (split == "dev" and "test" not in qrels)):
            raise DataError(f"{qrels[split]}: {lacks}: correct it.")
        if lacks:
            notes.append(f"qrels/{split}.tsv is left out: {lacks}")
            del qrels[split]
            # The readers will not see its file: its queries may belong to the next split that judges them.
            split_of = {name: own for name, own in split_of.items() if own != split}
    return left


def _what_it_lacks(
    qrels: Mapping[str, Path], split: str, relevant: set[str], usable: set[str], split_of: Mapping[str, str]
) -> str:
    """Why a split cannot be used; '' where it can."""
    least = 1
    if split == "train" and len(qrels) > 1:
        least = LEAST_TRAIN if {"dev", "test"} <= qrels.keys() else LEAST_TRAIN + 1
    if not relevant:
        return "no judgement above 0 in it; expected relevant documents"
    if len(usable) >= least:
        return ""
    moved = [query_id for query_id in relevant if split_of[query_id] != split]
    others = " or ".join(qrels[other].name for other in PRECEDENCE if other in {split_of[name] for name in moved})
    blank = len(relevant) - len(moved) - len(usable)
    reasons = [f"{len(moved):,} are judged in {others} too and belong there"] if moved else []
    reasons += [f"{blank:,} have no text, or no relevant document with a text or a title"] if blank else []
    because = f" ({', '.join(reasons)})" if reasons else ""
    found = f"{len(usable):,} of its {len(relevant):,} queries with a relevant document can be used"
    return f"{found}{because}; expected {least} or more"
