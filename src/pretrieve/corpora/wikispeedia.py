"""Wikispeedia: 4,598 articles of the 2007 Schools Wikipedia Selection as plain text, and 119,879 links between them.

Format (https://snap.stanford.edu/data/wikispeedia.html; West and Leskovec 2012): ``plaintext_articles/TITLE.txt`` in a
tar file and ``links.tsv``, one ``source<TAB>target`` a line; titles are URL-encoded (UTF-8), with ``_`` for blanks.
The texts are what a text browser showed::

       #copyright
    (blank)
    2-6-0
    (blank)
    2007 Schools Wikipedia Selection. Related subjects: Railway transport
    (blank)
       SRC 89 working on the daily passenger train in 1993.
       Enlarge
       SRC 89 working on the daily passenger train in 1993.
    (blank)
       In the Whyte notation for the classification of steam locomotives by
       wheel arrangement, a 2-6-0 has a pair of leading wheels followed by six
       driving wheels. …
    (blank)
    History

* Headings stand at column 0 between blank lines; their level is not to be seen (2 here). Prose is indented by three
  blanks and wrapped at column 74. What is indented otherwise is a list, a table or code, and is omitted.
* A line continues in the next one only where the next word had no room in it. That parts captions, verse and boxes,
  which stand line under line, from prose. ``Enlarge`` follows a picture's caption, which comes again after it: both
  go.
* From ``Retrieved from "`` on it is the footer.

**Links.** The files say which article links to which, not where. WLP's document is a passage *in which* the link to
the query's page stands (paper ``pretraining_tasks`` §3), so a link needs its place: the first occurrence of the
target's title as whole words in the article's prose, letters of either case, which is where Wikipedia's authors are
asked to set a link (https://en.wikipedia.org/wiki/Wikipedia:Manual_of_Style/Linking). Tried are the title, the title
without its bracket (``Mercury (planet)``), and either with a plural ``s`` or ``es``; of titles within one another the
longest. A link with no such place stood in a list or box or under another label. It is counted and omitted: put into
the first passage, say, it would make WLP pairs of a passage and a page that it does not speak of.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from urllib.parse import unquote

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article, UnplacedLink
from pretrieve.corpora.wikitext import Link, Paragraph, Section, article_title, is_prose, tidy, with_text
from pretrieve.raw.archives import damage_told, tar_members
from pretrieve.raw.raw_text import Warnings, read_lines

#: Column that the text browser wrapped at, and the indent of its prose.
WIDTH, INDENT = 74, 3
_ENLARGE = "Enlarge"
_FOOTER = '   Retrieved from "'
_BRACKET = re.compile(r"(?<!\s)\s*\([^()]*\)$")
_OPEN_BRACKET = re.compile(r"([(\[]) +")
_WORD_BEGINS = re.compile(r"(?<!\w)")
_WORD_ENDS = re.compile(r"(?:e?s)?(?!\w)")  # also as a plural


@lru_cache(maxsize=20_000)
def decode_title(name: str) -> str:
    """A title from its URL-encoded form.

    >>> decode_title("%C3%89douard_Manet"), decode_title("Mercury_%28planet%29")
    ('Édouard Manet', 'Mercury (planet)')
    """
    title = unquote(name, errors="strict").replace("_", " ")
    title.encode()  # a file's name may be of bytes that no text has
    return title


def read_links(path: Path) -> dict[str, list[str]]:
    """Source title → the titles it links to, in file order; all of them in memory.

    Raises DataError for a line that is not two titles, and a link that is there twice.
    """
    links: dict[str, dict[str, None]] = {}
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 2 or not all(fields):
            raise DataError(f"{path}: line {number}: found {line[:80]!r}; expected two titles, separated by a tab.")
        try:
            source, target = map(decode_title, fields)
        except UnicodeError:
            raise DataError(f"{path}: line {number}: {line[:80]!r} is not URL-encoded UTF-8.") from None
        if target in links.setdefault(source, {}):
            raise DataError(f"{path}: line {number}: the link {source!r} → {target!r} is repeated.")
        links[source][target] = None
    return {source: list(targets) for source, targets in links.items()}


def read_texts(path: Path) -> Iterator[tuple[str, str]]:
    """(encoded title, text) of each ``TITLE.txt``, from the tar file as it is (any packing that
    :func:`~pretrieve.raw.raw_bytes.open_raw` knows) or from its unpacked folder. Nothing is unpacked to the disk.

    Raises DataError for a damaged or cut tar file, a member that is not a ``.txt`` file or would leave the folder it is
    unpacked to, and text that is not UTF-8.
    """
    if path.is_dir():
        for file in sorted(path.rglob("*.txt")):
            yield file.stem, _decode(path, file.name, file.read_bytes())
        return
    with damage_told(path):
        for member, content in tar_members(path):
            if member.isdir():
                continue
            if content is None or not member.name.endswith(".txt"):
                raise DataError(f"{path}: member {member.name!r}; expected plain files TITLE.txt only.")
            yield member.name.rpartition("/")[2].removesuffix(".txt"), _decode(path, member.name, content.read())


def _decode(path: Path, name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {name}: byte {error.start + 1} is not UTF-8: {error.reason}.") from None


def _unwrap(lines: Iterable[str]) -> list[str]:
    """Paragraphs from wrapped lines: a line continues in the next when the next one's first word had no room in it."""
    joined: list[str] = []
    room = 0
    for line in lines:
        text = line.strip()
        alone = text == _ENLARGE
        if joined and not alone and len(text.split(maxsplit=1)[0]) > room:
            joined[-1] += " " + text
        else:
            joined.append(text)
        room = WIDTH if alone else WIDTH - len(line.rstrip()) - 1
    return joined


def _without_captions(pieces: list[str]) -> list[str]:
    """Drop ``Enlarge`` and the caption before and after it. The two differ in blanks beside links, and either may
    have run on with the prose beside it, where a line was full."""
    kept: list[str] = []
    rest = iter(pieces)
    for piece in rest:
        if piece != _ENLARGE:
            kept.append(piece)
            continue
        behind = next(rest, "")
        before = kept.pop() if kept else ""
        first, second = before.replace(" ", ""), behind.replace(" ", "")
        if first.endswith(second):
            before, behind = before[: _place(before, len(first) - len(second))], ""
        elif second.startswith(first):
            before, behind = "", behind[_place(behind, len(first)) :]
        kept += filter(None, (before.strip(), behind.strip()))
    return kept


def _place(text: str, letters: int) -> int:
    """Where in ``text`` that many characters other than blanks are over."""
    place = 0
    while letters:
        letters -= text[place] != " "
        place += 1
    return place


def parse_text(text: str) -> tuple[str, list[Section]]:
    """The title of an article's text and its sections of prose; the first one is there even when it is empty."""
    text, _, _ = text.partition("\n" + _FOOTER)
    blocks: list[list[str]] = [[]]
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.strip():
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    sections = [Section("", 1)]
    title = ""
    for block in filter(None, blocks):
        if block[0][0] != " ":
            heading = " ".join(line.strip() for line in block)
            if not title:
                title = heading
            elif not heading.startswith("2007 Schools Wikipedia Selection"):
                sections.append(Section(heading, 2))
            continue
        prose = [line for line in block if len(line) - len(line.lstrip(" ")) == INDENT]
        for piece in _without_captions(_unwrap(prose)):
            piece = tidy(_OPEN_BRACKET.sub(r"\1", piece))
            if is_prose(piece):
                sections[-1].paragraphs.append(Paragraph(piece))
    return title, with_text(sections, of_prose=True)


def _lower(text: str) -> str:
    """Lower case, character by character, so that offsets stay (``İ`` would become two)."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _occurrences(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a name stands as whole words in ``text``, with the ending of a plural."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if _WORD_BEGINS.match(text, start) and (ending := _WORD_ENDS.match(text, end)):
            yield start, ending.end()
        start = text.find(name, end)


def place_links(sections: Iterable[Section], targets: Sequence[str]) -> list[str]:
    """Put a link to each of ``targets`` (titles) at its title's first occurrence; returns the targets that have
    no place."""
    passages = [paragraph for section in sections for paragraph in section.paragraphs]
    # One text for all passages: a name never has the line break between two of them.
    text = _lower("\n".join(paragraph.text for paragraph in passages))
    begins = list(accumulate((len(paragraph.text) + 1 for paragraph in passages), initial=0))
    names: dict[str, str] = {}
    for without_bracket in (False, True):
        for target in targets:
            name = _lower(_BRACKET.sub("", target) if without_bracket else target)
            if name and name in text:
                names.setdefault(name, target)
    placed: dict[str, tuple[int, int]] = {}
    for name in sorted(names, key=lambda name: (-len(name), name)):
        spans = list(_occurrences(text, name))
        target = names[name]
        if spans:
            placed[target] = min(spans[0], placed.get(target, spans[0]))
        if any(name != other and other in name for other in names):
            # "Ireland" does not stand in "Northern Ireland" when that is linked to as well.
            for start, end in spans:
                text = f"{text[:start]}{chr(0) * (end - start)}{text[end:]}"
    for target, (start, end) in sorted(placed.items(), key=lambda item: item[1]):
        place = bisect_right(begins, start) - 1
        passages[place].links.append(Link(article_title(target), start - begins[place], end - begins[place]))
    return [target for target in targets if target not in placed]


def read_wikispeedia(articles: Path, links: Path, warnings: Warnings) -> Iterator[Article | UnplacedLink]:
    """The articles with their links in place, and the links that have none.

    Raises DataError for an article that is there twice, links from or to an article that is not there, and what
    :func:`read_links` and :func:`read_texts` raise.
    """
    table = read_links(links)
    seen: set[str] = set()
    for name, text in read_texts(articles):
        try:
            title = decode_title(name)
        except UnicodeError:
            raise DataError(f"{articles}: {name}.txt: the name is not URL-encoded UTF-8.") from None
        if title in seen:
            raise DataError(f"{articles}: {name}.txt is repeated.")
        seen.add(title)
        heading, sections = parse_text(text)
        if heading != title:
            warnings.add("file name and title differ", f"{title!r} and {heading!r}")
        unplaced = place_links(sections, table.get(title, ()))
        if not any(section.paragraphs for section in sections):
            warnings.add("article without a paragraph", title)
        yield Article(title, sections)
        for target in unplaced:
            yield UnplacedLink(title, target)
    for source, targets in table.items():
        for title in (source, *targets):
            if title not in seen:
                raise DataError(
                    f"{links}: the link from {source!r} names {title!r}, which has no text in {articles}: the two files do "
                    f"not belong together, or the second is cut off."
                )
