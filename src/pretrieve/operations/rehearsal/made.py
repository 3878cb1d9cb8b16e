"""Made files by the names of the sources that they substitute for, packed as their publishers pack them; here are the
pre-training texts and vocabularies: a dump of Wikipedia, BookCorpus, BERT's ``vocab.txt``."""

from __future__ import annotations

import bz2
import gzip
import random
import string
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.files import whole_file
from pretrieve.operations.rehearsal import examples, retrieval
from pretrieve.operations.rehearsal.world import BUILDINGS, SECTIONS, paragraphs, sentence, words

#: What the log of every made file and checkpoint says.
NOTICE = "made up for a rehearsal, not the publisher's: its checksum is not asked for, and scores on it mean nothing"
#: BERT's special tokens at BERT's places would need 100 unused entries; what counts is that they are there.
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def dump() -> bytes:
    """A MediaWiki export: a page for each building, with sections and links to other pages."""
    pages = []
    for building in BUILDINGS:
        rng, text = random.Random(f"links {building.number}"), []
        for section in SECTIONS:
            text += [f"== {section} =="] if section else []
            for paragraph in paragraphs(building, section):
                linked = rng.sample([other.title for other in BUILDINGS if other is not building], 2)
                text += [f"{paragraph} It stands near [[{linked[0]}]] and [[{linked[1]}]] in the north.", ""]
        number = building.number + 1
        pages.append(
            f"<page><title>{escape(building.title)}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
            f'<text xml:space="preserve">{escape(chr(10).join(text))}</text></revision></page>'
        )
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">'
    return "\n".join([head, *pages, "</mediawiki>\n"]).encode()


def book(number: int) -> bytes:
    """One of BookCorpus's two files: a sentence a line, in lower case."""
    rng = random.Random(f"book {number}")
    return "".join(f"{sentence(rng).lower()}\n" for _ in range(600)).encode()


def vocabulary() -> list[str]:
    """BERT's special tokens, letters and digits alone and within words, and every word of the made texts."""
    letters = string.ascii_lowercase + string.digits
    marks = [*".,?!'-:;()=/\"_"]
    entries = [*SPECIAL, *letters, *marks, *(f"##{letter}" for letter in letters), *words()]
    return list(dict.fromkeys(entries))


def vocabulary_file() -> bytes:
    """``vocab.txt``: an entry a line."""
    return "".join(f"{entry}\n" for entry in vocabulary()).encode()


#: Name of a source → what makes its content.
FORMS: dict[str, Callable[[], bytes]] = {
    "enwiki-20181220": dump,
    "bookcorpus-1": lambda: book(1),
    "bookcorpus-2": lambda: book(2),
    "bert-vocabulary": vocabulary_file,
    **retrieval.FORMS,
    **examples.FORMS,
}


def make(name: str, out: Path) -> int:
    """Write the made file of a source, packed by the ending of ``out``; returns its size in bytes.

    Equal calls write equal files.

    Raises ConfigError for a source without a made substitute.
    """
    if name not in FORMS:
        raise ConfigError(
            f"source {name!r}: a rehearsal makes no substitute for it{nearest(name, FORMS)}; rehearse a scale whose data sets "
            f"have one (src/pretrieve/operations/rehearsal), or write its layout there. There are {len(FORMS)}."
        )
    content = FORMS[name]()
    if out.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif out.suffix == ".bz2":
        content = bz2.compress(content)
    with whole_file(out) as stream:
        stream.write(content)
    return len(content)
