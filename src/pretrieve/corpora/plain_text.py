"""Plain text, as BookCorpus has it: a file is a book.

BookCorpus (Zhu et al. 2015, arXiv:1506.06724) is read in both forms that go round: one sentence a line, or one
paragraph a line, with or without blank lines between paragraphs; Project Gutenberg's hard-wrapped files fit as well.
There is no markup, so a book is one section and gives ICT only, by the letter of the paper also BFS (every sentence is
in the "first section"); there are no links.

* A paragraph is what stands between blank lines, its lines joined.
* A paragraph of :data:`WORDS` words or more ends at the end of that line. So a file without blank lines, one sentence
  a line, is cut into passages of about that length, and a paragraph a line stays one.
* Files are read as streams: a file of gigabytes needs no more memory than a short one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NoReturn

from pretrieve.base.errors import DataError
from pretrieve.base.inside import refuse_outside
from pretrieve.corpora.builder import Article
from pretrieve.corpora.wikitext import Paragraph, Section
from pretrieve.raw.raw_text import Warnings, read_lines

#: Words of a paragraph after which its next line begins another. Lee et al. 2019 take 288 word pieces for a passage.
WORDS = 200
SUFFIXES = (".txt", ".txt.gz", ".txt.bz2")


class UnreadableFile(DataError):
    """A file that is damaged, locked, or not of the kind that its name says."""


def files_inside(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files below a folder that end in one of the suffixes, by their places in it, in the order of the names. Nothing hidden;
    links to folders and links to nothing are passed over."""
    return [file for file in _walk(folder) if file.name.lower().endswith(suffixes) and _is_file(folder / file)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # in a folder whose files are listed and closed
        _refuse(error)


def _walk(folder: Path) -> list[Path]:
    """Files and links in a folder and in those below it, in the order of the names. Hidden folders, which can be large (``.git``,
    ``.venv``, caches), and ``lost+found``, which is the system's, are not looked into."""
    found = []
    for place, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if name[0] != "." and name != "lost+found"]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        found += [Path(place, name).relative_to(folder) for name in (*links, *files) if name[0] != "."]
    return sorted(found, key=lambda file: file.parts)


def _refuse(error: OSError) -> NoReturn:
    raise DataError(
        f"{error.filename}: cannot be read: {error.strerror}; expected a file or folder that can be read."
    ) from None


def refuse_links_out(folder: Path, files: Iterable[Path]) -> None:
    """Raise DataError for a file of a folder that is a link to a place outside of it."""
    refuse_outside((folder / file for file in files if (folder / file).is_symlink()), folder)


def text_files(paths: Iterable[Path], suffixes: tuple[str, ...] = SUFFIXES) -> list[tuple[Path, Path]]:
    """(folder, file within it) of every file given, and of every file with one of the suffixes in a folder given.

    Of a folder, what :func:`files_inside` finds.

    Raises DataError for a folder without such a file, what cannot be read, a file whose name is not UTF-8 (titles and ids are
    made of it), and what :func:`refuse_links_out` raises.
    """
    found: list[tuple[Path, Path]] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append((path.parent, Path(path.name)))
            continue
        inside = files_inside(path, suffixes)
        if not inside:
            raise DataError(f"{path}: no file in this folder ends in {', '.join(suffixes)}; expected texts.")
        refuse_links_out(path, inside)
        found += [(path, file) for file in inside]
    for folder, file in found:
        try:
            file.as_posix().encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{folder}: the file name {os.fsencode(file)!r} is not UTF-8; expected one that can be written in a corpus: "
                f"rename the file."
            ) from None
        path = folder / file
        try:
            path.stat()
        except OSError as error:
            _refuse(error)
        if not os.access(path, os.R_OK):
            _refuse(PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)))
    return found


def passed_over(folder: Path, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """What :func:`text_files` omits of a folder, in the order of the names: files with other suffixes, links that lead
    nowhere or to folders; nothing hidden."""
    taken = set(files_inside(folder, suffixes))
    return [file for file in _walk(folder) if file not in taken]


def stem(file: Path, suffixes: tuple[str, ...] = SUFFIXES) -> str:
    """A file's path without its suffix: the title of what is in it.

    >>> stem(Path("Jane Austen/emma.txt.gz"))
    'Jane Austen/emma'
    """
    name = file.as_posix()
    return next((name[: -len(s)] for s in sorted(suffixes, key=len, reverse=True) if name.lower().endswith(s)), name)


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text; a carriage return alone ends one too, as in files of old Macs. Raises what
    :func:`~pretrieve.raw.raw_text.read_lines` raises."""
    for line in read_lines(path):
        yield from line.text.rstrip("\r").split("\r")


def paragraphs_of(lines: Iterable[str], words: int = WORDS) -> Iterator[str]:
    """Join lines to paragraphs, up to the next blank line or the first line end after ``words`` words.

    >>> list(paragraphs_of(["It rained.", "We stayed in.", "", "It stopped."]))
    ['It rained. We stayed in.', 'It stopped.']
    """
    parts: list[str] = []
    for line in lines:
        new = line.split()
        parts += new
        if parts and (not new or len(parts) >= words):
            yield " ".join(parts)
            parts = []
    if parts:
        yield " ".join(parts)


def read_plain(paths: Iterable[Path], warnings: Warnings) -> Iterator[Article]:
    """One article for each file (plain, gzip or bzip2); its paragraphs are read as they are asked for.

    Raises what :func:`text_files` and :func:`text_lines` raise.
    """
    for folder, file in text_files(paths):
        paragraphs = paragraphs_of(text_lines(folder / file))
        first = next(paragraphs, None)
        if first is None:
            warnings.add("file without text, left out", str(folder / file))
            continue
        yield Article(stem(file), [Section("", 1, map(Paragraph, chain([first], paragraphs)))])
