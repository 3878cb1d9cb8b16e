"""What a folder of one's own is found to have, and what is said of every kind of bad input, before any job starts.

Seen to fail when: judgements are not compared with ids; a fixed number of documents with sections is asked for in place of a
share; documents, queries and judgements are only looked at for their ids; a split counts as one of which every query is
judged in another, or has documents without text only; a query that nobody judged is refused; a relevance below zero counts
as relevant; ids are only collected, so that one may stand twice; the whole of a large corpus is read; progress is shown; a split
of which nothing is left ends the run; equal documents make pairs; train questions test and train at once.
"""

from __future__ import annotations

import bz2
import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official import beir_folder
from pretrieve.benchmarks.official.beir import beir_files
from pretrieve.benchmarks.official.beir_folder import look_at
from pretrieve.benchmarks.reading import build_collection
from pretrieve.raw import raw_text
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.splits import Target

DOCUMENTS = 30
HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a byte order mark, line ends of Windows, a blank line and an id that is a number: none of it is wrong."""
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    with open(folder / "corpus.jsonl", "w", encoding="utf-8-sig", newline="") as stream:
        for number in range(DOCUMENTS):
            text = f"Word {number}. End."
            if number < 3:
                text = f"A sentence about {number}. Another one.\n\n## Part\n\nMore of it."
            stream.write(json.dumps({"_id": f"d{number}" if number != 28 else 28, "text": text}) + "\r\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "one?"}\n\n{"_id": 2, "text": "two?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\r\nq1\td0\t1\r\n2\t28\t0\r\n")
    return folder


def test_a_folder_is_looked_at(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_text, "SHOWN_FROM", 10)  # bytes of a file whose reading is shown
    found = look_at(folder)
    assert set(found.files) == {"corpus", "queries", "test"} and found.has_queries and not found.has_train
    assert found.has_sections and found.has_sentences, "three of thirty have sections: above five percent"
    corpus = (folder / "corpus.jsonl").read_bytes()
    (folder / "corpus.jsonl").unlink()
    for suffix, pack in ((".bz2", bz2.compress), (".gz", gzip.compress)):
        (folder / f"corpus.jsonl{suffix}").write_bytes(pack(corpus))
        assert look_at(folder).files["corpus"].endswith(suffix)
        (folder / f"corpus.jsonl{suffix}").unlink()
    assert capsys.readouterr() == ("", ""), "every call of Snakemake looks at the folder, and says nothing of it"


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_file_is_there_once_packed_or_not(folder: Path, name: str) -> None:
    place, packed = folder / name, folder / f"{name}.gz"
    packed.write_bytes(gzip.compress(place.read_bytes()))
    for look in (look_at, beir_files):
        with pytest.raises(
            DataError, match=rf"{place.parent}: has {place.name} and {packed.name}; expected one of them"
        ):
            look(folder)
    place.unlink()
    assert str(packed) in look_at(folder).files.values() and packed in beir_files(folder).values()


def test_a_share_of_the_documents_decides(folder: Path) -> None:
    with open(folder / "corpus.jsonl", "a") as stream:
        for number in range(DOCUMENTS, 100):
            stream.write(json.dumps({"_id": f"d{number}", "text": f"Only {number}"}) + "\n")
    found = look_at(folder)
    assert not found.has_sections and found.has_sentences, "3 and 30 of 100"


def test_of_a_large_corpus_the_first_documents_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(folder / "corpus.jsonl", "a") as stream:
        stream.write("no JSON\n")
    monkeypatch.setattr(beir_folder, "SAMPLE", DOCUMENTS)
    monkeypatch.setattr(beir_folder, "LOOKED_AT", 100)
    assert look_at(folder).has_sections
    monkeypatch.setattr(beir_folder, "SAMPLE", DOCUMENTS + 1)
    with pytest.raises(DataError, match=r"corpus.jsonl: line 31: not JSON"):
        look_at(folder)


def change(name: str, content: bytes | str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


DOCUMENT = '{"_id": "a", "text": "b"}\n'
JUDGED = "q1\td0\t1\n"
BLANK = "".join(f'{{"_id": "d{number}", "title": "", "text": " "}}\n' for number in range(DOCUMENTS))


def documents(texts: list[str]) -> str:
    names = ["d0", "28", *(f"d{number}" for number in range(1, len(texts)))]
    return "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in zip(names, texts, strict=False))


ONE = documents(["A whole sentence. And one more of them.", ""])
SENTENCES = documents([f"A whole sentence {number}. And one more of them." for number in range(30)])
EQUAL = documents(["A whole sentence. And one more of them."] * 30)
SHORT = documents([f"words of item {number} in one short line" for number in range(30)])
GERMAN = documents([f"Der Hund von Haus {number} wartet auf den Regen." for number in range(30)])
NUMBERS = documents([f"{number} {number + 1} {number + 2}" for number in range(30)])


def blank_first(folder: Path) -> None:
    """The document that is relevant has no text; the others have."""
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "corpus.jsonl").write_text("\n".join([BLANK.splitlines()[0], *lines[1:]]))


def blank_beside_dev(folder: Path) -> None:
    blank_first(folder)
    (folder / "qrels/dev.tsv").write_text("2\td1\t1\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (shutil.rmtree, "is not a directory; expected one with corpus.jsonl"),
        (lambda f: (f / "corpus.jsonl").unlink(), "corpus.jsonl: no such file .*expected a folder of BEIR's layout"),
        (lambda f: (f / "queries.jsonl").unlink(), "queries.jsonl: no such file, but there is qrels/test.tsv"),
        (change("corpus.jsonl", ""), "corpus.jsonl: has no document"),
        # packed, and cut
        (change("corpus.jsonl", gzip.compress(DOCUMENT.encode() * 99)[:-9]), "corpus.jsonl: not a whole gzip file: it ends in"),
        (change("corpus.jsonl", bz2.compress(DOCUMENT.encode() * 99)[:-9]), "corpus.jsonl: not a whole bzip2 file: it ends in"),
        (change("corpus.jsonl", b"PK\x03\x04...."), "corpus.jsonl: a zip file; expected plain, gzip or bzip2"),
        # lines
        (change("corpus.jsonl", f'{DOCUMENT}{{"_id"'), "corpus.jsonl: line 2: not JSON"),
        (change("corpus.jsonl", f"{DOCUMENT}[]\n"), "corpus.jsonl: line 2: found list .*; expected a JSON object"),
        (change("corpus.jsonl", '{"id": "a", "text": "b"}\n'), "corpus.jsonl: line 1: no key '_id'; it has 'id', 'text'"),
        (change("corpus.jsonl", b'{"_id": "\xe9", "text": "b"}\n'), "corpus.jsonl: line 1, byte 10: 0xe9 is not UTF-8"),
        (change("corpus.jsonl", b"x" * (17 << 20)), "corpus.jsonl: line 1: at least .* bytes; expected at most 16,777,216"),
        (change("corpus.jsonl", DOCUMENT * 2), "corpus.jsonl: line 2: _id 'a' was used before, in line 1"),
        (change("queries.jsonl", '{"_id": 1, "text": "x"}\n{"_id": "1", "text": "y"}\n'), "line 2: _id '1' was used before"),
        (change("corpus.jsonl", f'{DOCUMENT}{{"_id": 0.5, "text": "b"}}\n'), "line 2: '_id' is float '0.5'; .*: write .0.5"),
        (change("corpus.jsonl", '{"_id": "", "text": "b"}\n'), "corpus.jsonl: line 1: '_id' is ''; expected a text that is not"),
        (change("corpus.jsonl", '{"_id": "a", "text": null}\n'), "line 1: 'text' is NoneType 'None'; expected a text"),
        (change("corpus.jsonl", '{"_id": "a", "text": ["b"]}\n'), "corpus.jsonl: line 1: 'text' is list .*; expected a text"),
        (change("corpus.jsonl", '{"_id": "a", "title": 5, "text": "b"}\n'), "line 1: 'title' is int '5'; expected a text"),
        (change("corpus.jsonl", BLANK), "corpus.jsonl: none of its 30 documents has text besides headings"),
        (change("queries.jsonl", '{"_id": "q1", "text": " "}\n{"_id": 2, "text": "x"}\n'), r"0 of its 1 .*\(1 have no text"),
        (change("queries.jsonl", '{"_id": "q1", "text": 1}\n{"_id": 2, "text": "x"}\n'), "line 1: 'text' is int '1'; expected"),
        # judgements
        (change("qrels/test.tsv", f"{JUDGED}q1\tx9\t1\n"), "test.tsv: line 2: 'x9' is not an _id of a document in .*corpus"),
        (change("qrels/test.tsv", "q7\td0\t1\n"), "test.tsv: line 1: 'q7' is not an _id of a query in .*queries.jsonl"),
        (change("qrels/test.tsv", "q1 d0 1\n"), "test.tsv: line 1: 1 fields; expected 3, .* 'query-id', 'corpus-id', 'score'"),
        (change("qrels/test.tsv", "q1\td0\t1\t0\n"), "test.tsv: line 1: 4 fields; expected 3"),
        (change("qrels/test.tsv", f"{HEADER}q1\td0\thigh\n"), "test.tsv: line 2: found 'q1', 'd0', 'high'; expected .*whole"),
        (change("qrels/test.tsv", f"{HEADER}q1\td0\t-1\n"), "test.tsv: line 2: relevance -1 of document 'd0' for query 'q1' is"),
        (change("qrels/test.tsv", b"q1\td\xff\t1\n"), "test.tsv: line 1, byte 5: 0xff is not UTF-8"),
        (change("qrels/test.tsv", f"{JUDGED}q1\td0\t2\n"), "test.tsv: line 2: document 'd0' has relevance 2 .* had 1 before"),
        (change("qrels/test.tsv", f"{HEADER}q1\td0\t2147483648\n"), "line 2: the relevance .* is 2147483648; expected .* up to"),
        (change("qrels/test.tsv", f"q1\td0\t{'9' * 5000}\n"), "line 1: the relevance of document 'd0' .* is 9{20}…; "),
        (change("qrels/test.tsv", f"\n{HEADER}{JUDGED}"), "line 2: the header stands here, for line 1 is empty; expected"),
        (change("qrels/test.tsv", f"\n\n{HEADER}{JUDGED}"), "line 3: the header stands here, for lines 1 to 2 are empty"),
        (change("qrels/test.tsv", f"{HEADER}{JUDGED}{HEADER}"), "line 3: the header stands below other lines; expected"),
        # splits of which nothing is left
        (change("qrels/test.tsv", "q1\td0\t0\n"), "test.tsv: no judgement above 0 in it; expected relevant documents: correct"),
        (blank_first, r"test.tsv: 0 of its 1 queries .* \(1 have no text, or no relevant document with a text or a"),
        (blank_beside_dev, r"test.tsv: 0 of its 1 queries .* expected 1 or more: correct it\."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(folder: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(folder)
    with pytest.raises(DataError, match=words) as raised:
        look_at(folder)
    assert "\n" not in str(raised.value) and str(folder) in str(raised.value)


NO_PAIRS = "no training questions, and fewer than 10 documents with texts of their own"


@pytest.mark.parametrize(
    ("spoil", "splits", "words"),
    [
        (change("qrels/train.tsv", ""), {"test"}, "qrels/train.tsv has no judgement in it, and is left out"),
        (change("qrels/train.tsv", f"{HEADER}\n"), {"test"}, "qrels/train.tsv has no judgement in it, and is left out"),
        (change("qrels/test.tsv", f"{HEADER}{chr(10) * 200}{JUDGED}"), {"test"}, NO_PAIRS),
        (change("qrels/dev.tsv", "q1\td0\t0\n"), {"test"}, "qrels/dev.tsv is left out: no judgement above 0 in it"),
        (
            change("qrels/dev.tsv", JUDGED),
            {"test"},
            r"qrels/dev.tsv is left out: 0 of its 1 .* \(1 are judged in test.tsv too",
        ),
        (
            change("qrels/train.tsv", JUDGED),
            {"test"},
            r"qrels/train.tsv is left out: 0 of its 1 .* \(1 are judged in test.tsv",
        ),
        (
            change("qrels/train.tsv", "2\td1\t1\n"),
            {"test"},
            r"qrels/train.tsv is left out: 0 of its 1 .*; expected 4 or more",
        ),
        (change("qrels/test.tsv", HEADER), set(), "queries.jsonl is not used: there are no judgements"),
        (lambda f: (f / "qrels/test.tsv").unlink(), set(), "queries.jsonl is not used: there are no judgements"),
        (
            lambda f: (f / "qrels/test.tsv").rename(f / "qrels/dev.tsv"),
            {"dev"},
            "no test questions: those of dev.tsv test",
        ),
        (
            change("queries.tsv", "q1\tone?\n"),
            {"test"},
            "queries.tsv is not read; expected queries.jsonl and qrels/test.tsv",
        ),
        (
            change("qrels/Dev.tsv", JUDGED),
            {"test"},
            r"qrels/Dev.tsv is not read; expected test.tsv, dev.tsv or train.tsv",
        ),
        (change("corpus.jsonl", SENTENCES), {"test"}, "no training questions: pairs are sentences"),
        (change("corpus.jsonl", ONE), {"test"}, NO_PAIRS),
        (
            change("corpus.jsonl", EQUAL),
            {"test"},
            "no pairs are made of documents with the text of another one: 29",
        ),
        (change("corpus.jsonl", EQUAL), {"test"}, NO_PAIRS),
        (change("corpus.jsonl", SHORT), {"test"}, "no training questions, and hardly a .*: pairs are two random crops"),
        (
            change("corpus.jsonl", GERMAN),
            {"test"},
            "language: de, in 100% of the texts that were looked at; BM25 takes its",
        ),
        (change("corpus.jsonl", NUMBERS), {"test"}, "language: the texts have no words; BM25 reads them as English"),
    ],
)
def test_what_is_lacking_is_done_without(
    folder: Path, spoil: Callable[[Path], None], splits: set[str], words: str
) -> None:
    spoil(folder)
    found = look_at(folder)
    assert set(found.files) - {"corpus", "queries"} == splits
    assert any(re.match(words, note) for note in found.notes), found.notes
    if splits:
        build_collection("beir", {name: Path(path) for name, path in found.files.items()}, folder.parent / "c")
    if found.pairs:
        build_collection(found.pairs, {"corpus": folder / "corpus.jsonl"}, folder.parent / "p")


@pytest.mark.parametrize(
    ("name", "rows", "omitted"),
    [
        (
            "arguana",
            [f"q1\tgone{n}\t1" for n in range(5)],
            "row of qrels whose document is not in the corpus, left out",
        ),
        ("trec-covid", ["q1\td1\t-1"], "judgement below zero, left out"),
    ],
)
def test_what_is_odd_in_a_published_set_is_allowed_in_its_folder(
    folder: Path, tmp_path: Path, name: str, rows: list[str], omitted: str
) -> None:
    copy = folder.rename(tmp_path / name)
    with open(copy / "qrels/test.tsv", "a") as stream:
        stream.writelines(f"{row}\n" for row in rows)
    files = {part: Path(path) for part, path in look_at(copy).files.items()}
    found = build_collection("beir", files, tmp_path / "c")
    assert found.stats["warnings"][omitted]["count"] == len(rows)
    with open(copy / "qrels/test.tsv", "a") as stream:
        stream.write("q1\tgone\t1\n")
    with pytest.raises(DataError, match=rf"test.tsv: line {len(rows) + 4}: 'gone' is not an _id of a document"):
        look_at(copy)
    with pytest.raises(DataError, match=r"test.tsv: line 4: ('gone0' is not an _id|relevance -1 .* is below zero)"):
        look_at(copy.rename(tmp_path / "mine"))


@pytest.mark.parametrize(("count", "tests", "trains"), [(20, 4, 16), (9, 9, 0)])
def test_train_questions_test_where_nothing_else_does(folder: Path, count: int, tests: int, trains: int) -> None:
    (folder / "qrels/test.tsv").unlink()
    lines = "".join(f'{{"_id": "t{n}", "text": "what?"}}\n' for n in range(count))
    (folder / "queries.jsonl").write_text(lines)
    (folder / "qrels/train.tsv").write_text("".join(f"t{n}\td{n}\t{1 + n % 3}\n" for n in range(count)))
    found = look_at(folder)
    assert found.has_train == bool(trains) and any(note.startswith("no test questions: ") for note in found.notes)
    assert any(note.startswith("no questions for development: a tenth") for note in found.notes) == found.has_train
    files = {name: Path(path) for name, path in found.files.items()}
    stats = build_collection("beir", files, folder.parent / "c", {"test_share": found.test_share}).stats
    assert [stats["counts"].get(f"queries.{split}", 0) for split in ("test", "train")] == [tests, trains]
    assert stats["kept"]["qrels"] == count
    (folder / "qrels/dev.tsv").write_text("t0\td0\t1\n")
    assert look_at(folder).test_share == 0, "dev tests"
    with pytest.raises(ConfigError, match="test_share is 0.2, beside train, dev"):
        build_collection("beir", files | {"dev": folder / "qrels/dev.tsv"}, folder.parent / "c", {"test_share": 0.2})


def test_the_language_may_be_said(folder: Path) -> None:
    found = look_at(folder, language="fi")
    assert found.language == "fi" and not any(note.startswith("language") for note in found.notes)


def test_what_may_not_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to be a traceback before: Python tells a file from none in a folder that may be looked into only."""
    real = Path.is_file

    def is_file(path: Path) -> bool:
        if path.parent.name == "qrels":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    with pytest.raises(DataError, match=r"qrels/test.tsv: cannot be read: Permission denied"):
        look_at(folder)


def test_a_line_of_ten_megabytes_is_a_line(folder: Path) -> None:
    with open(folder / "corpus.jsonl", "a") as stream:
        stream.write(json.dumps({"_id": "long", "text": "x" * 10_000_000}) + "\n")
    assert look_at(folder).has_sections


def test_questions_without_a_relevant_document_are_not_drawn_to_test(folder: Path) -> None:
    """They were: ten of fifty questions had a relevant document, none of these was drawn, and the run ended at its task."""
    (folder / "qrels/test.tsv").unlink()
    (folder / "queries.jsonl").write_text("".join(f'{{"_id": "t{n}", "text": "what?"}}\n' for n in range(50)))
    (folder / "qrels/train.tsv").write_text("".join(f"t{n}\td0\t{int(n < 10)}\n" for n in range(50)))
    found = look_at(folder)
    files = {name: Path(path) for name, path in found.files.items()}
    queries = build_collection("beir", files, folder.parent / "c", {"test_share": found.test_share}).table("queries")
    tested = [query["query_id"] for query in queries.to_pylist() if query["split"] == "test"]
    assert len(tested) == 2 and set(tested) <= {f"t{n}" for n in range(10)}


def test_queries_of_a_split_that_is_left_out_go_to_the_next(folder: Path) -> None:
    """Train's queries are judged in dev too, where no document is relevant."""
    names = [f"t{number}" for number in range(4)]
    with open(folder / "queries.jsonl", "a") as stream:
        stream.writelines(f'{{"_id": "{name}", "text": "what?"}}\n' for name in names)
    for split, grade in (("dev", 0), ("train", 1)):
        (folder / f"qrels/{split}.tsv").write_text("".join(f"{name}\td0\t{grade}\n" for name in names))
    found = look_at(folder)
    assert found.has_train and "dev" not in found.files
    assert "qrels/dev.tsv is left out: no judgement above 0 in it; expected relevant documents" in found.notes
    files = {name: Path(path) for name, path in found.files.items()}
    queries = build_collection("beir", files, folder.parent / "c").table("queries").to_pylist()
    assert [query["split"] for query in queries if query["query_id"] in names] == ["train"] * 4


def test_what_is_odd_is_not_refused(folder: Path) -> None:
    """Queries without text, judged or not, a document without text, a title that is null, and in train another judgement of a
    query that tests."""
    with open(folder / "queries.jsonl", "a") as stream:
        stream.write('{"_id": "q9", "text": " "}\n')
        stream.writelines(f'{{"_id": "t{number}", "text": "what?"}}\n' for number in range(4))
        stream.write('{"_id": "t99", "text": ""}\n')
    with open(folder / "corpus.jsonl", "a") as stream:
        stream.write('{"_id": "blank", "title": null, "text": " "}\n')
    judged = "".join(f"t{number}\td{number}\t1\n" for number in range(4))
    (folder / "qrels/train.tsv").write_text(f"q1\td0\t3\nt0\tblank\t1\nt99\td0\t1\n{judged}")
    found = look_at(folder)
    assert found.has_train
    files = {name: Path(path) for name, path in found.files.items()}
    stats = build_collection("beir", files, folder.parent / "c").stats
    assert stats["kept"]["queries"] == 6 and stats["warnings"]["query without text, left out"]["count"] == 1


@pytest.mark.parametrize("dev", [False, True])
def test_the_smallest_train_split_is_the_smallest_that_the_task_takes(
    folder: Path, dev: bool, tokenizer: Tokenizer
) -> None:
    if dev:
        (folder / "qrels/dev.tsv").write_text("d\td1\t1\n")
    least = 3 if dev else 4
    with open(folder / "queries.jsonl", "a") as stream:
        stream.writelines(f'{{"_id": "{name}", "text": "what?"}}\n' for name in ["d", *(f"t{n}" for n in range(least))])
    for count in (least, least - 1):
        (folder / "qrels/train.tsv").write_text("".join(f"t{number}\td{number}\t1\n" for number in range(count)))
        files = {"corpus": folder / "corpus.jsonl", "queries": folder / "queries.jsonl"}
        files |= {split.stem: split for split in (folder / "qrels").iterdir()}
        collection = build_collection("beir", files, folder.parent / "c")
        if count == least:
            assert look_at(folder).has_train
            build_collection_task(collection.directory, Target(tokenizer, folder.parent / "t", {"full": "all"}, 1))
        else:
            found = look_at(folder)
            assert not found.has_train and any(
                f"train.tsv is left out: {count} of its {count} queries" in note and f"expected {least} or more" in note
                for note in found.notes
            )
            with pytest.raises(ConfigError, match="too few questions to train on"):
                build_collection_task(collection.directory, Target(tokenizer, folder.parent / "t", {"full": "all"}, 1))
