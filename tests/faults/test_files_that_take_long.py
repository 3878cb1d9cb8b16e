"""Files of one's own corpus that a parser gives up on, or does not come back from for hours: left out and counted.

Seen to fail when: files have no limit of time; html.parser's own errors pass; patterns of Markdown look for the same
end again and again.
"""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from pretrieve.corpora import beir_documents
from pretrieve.corpora import folder as limits
from pretrieve.corpora.any_corpus import Wanted, documents_of, source_of
from pretrieve.corpora.folder import TooSlow, time_limit
from pretrieve.corpora.markdown import sections_of
from pretrieve.raw.raw_text import Warnings

LEFT_OUT = "file that takes too long to read, left out"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.2)
    monkeypatch.setattr(limits, "BYTES_PER_SECOND", 1 << 40)


def read(folder: Path) -> tuple[list[str], dict[str, int]]:
    warnings = Warnings()
    found = [document.doc_id for document in documents_of(source_of(str(folder)), Wanted(), warnings)]
    return found, warnings.counts


#: What html.parser needs minutes for: its time grows with the square of their length.
SLOW = {
    "comment.html": "<!--" * 300_000,
    "attribute.html": '<a b="' * 300_000,
    "processing.html": "<?" * 300_000,
    "end.html": "<p>x" + "</p" * 300_000,
}


@pytest.mark.parametrize("name", SLOW)
def test_a_file_that_takes_too_long_is_left_out(tmp_path: Path, soon: None, name: str) -> None:
    (tmp_path / name).write_text(SLOW[name])
    (tmp_path / "a.txt").write_text("It rained.")
    begin = time.process_time()
    assert read(tmp_path) == (["a.txt"], {LEFT_OUT: 1})
    assert time.process_time() - begin < 10


#: Markdown that its patterns needed minutes for, and are done with at once.
QUICK = {
    "comments": "<!--" * 100_000,
    "images": "![" * 100_000,
    "images with addresses": "![](" * 100_000,
    "emphasis": "*a " * 20_000,
    "blanks": " " * 100_000 + "x",
    "blanks in a heading": "# a" + " " * 100_000 + "b",
    "blanks in a link": "[a](" + " " * 100_000 + "x",
}


@pytest.mark.parametrize("name", QUICK)
def test_markdown_is_read_in_one_go(name: str) -> None:
    begin = time.process_time()
    sections_of(f"{QUICK[name]}\n\nIt rained.".split("\n"))
    assert time.process_time() - begin < 3


def test_headings_of_a_corpus_are_read_in_one_go() -> None:
    begin = time.process_time()
    beir_documents.sections_of("# a" + " " * 100_000 + "b")
    assert time.process_time() - begin < 3


#: What ended a run with a traceback.
UNREADABLE = {
    "declaration.html": "<![" * 3,
    "number.html": f"<p>&#{'9' * 5000};",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_page_that_the_parser_gives_up_on_is_left_out(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(UNREADABLE[name])
    (tmp_path / "a.txt").write_text("It rained.")
    assert read(tmp_path) == (["a.txt"], {"web page that cannot be read, left out": 1})


def test_an_encoding_that_makes_half_a_character_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(rb"<meta charset=unicode_escape><title>\ud800T</title><p>T one \ud800 two")
    ((_, title, text),) = documents_of(source_of(str(tmp_path)), Wanted(), Warnings())
    assert (title, text.split()) == ("T", ["T", "one", "two"])


def compute(seconds: float) -> None:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        sum(range(1000))


def test_the_limit_counts_what_is_computed_and_can_be_raised(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with time_limit("a.md", 10):
        time.sleep(1)
    said = r"a\.md: not read after 0\.2 seconds of computing.*10 bytes.*PRETRIEVE_SIZE_LIMIT"
    with pytest.raises(TooSlow, match=said), time_limit("a.md", 10):
        try:
            compute(2)
        except Exception:  # as a parser that takes all faults for the file's
            pytest.fail("the limit is no fault of the file")
    monkeypatch.setenv("PRETRIEVE_SIZE_LIMIT", "10")
    with time_limit("a.md", 10):
        compute(0.4)
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_another_thread_has_no_limit(soon: None) -> None:
    ended = []

    def work() -> None:
        with time_limit("a.md", 10):
            compute(0.4)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended
