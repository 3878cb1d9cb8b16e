"""Text with Markdown headings → sections and paragraphs.

Of CommonMark (https://spec.commonmark.org/0.31.2/) what a corpus needs: headings (``# …`` and underlined) divide,
blank lines separate paragraphs, the lines of a paragraph are joined. Code blocks, tables, rules, images and HTML
comments go; the marks of lists, quotations, emphasis and code spans go and their text stays. ``[label](page.md)`` and
``[[Page|label]]`` become links. A front matter between two lines ``---`` goes, but for its ``title:``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pretrieve.corpora.wikitext import Paragraph, Section, parse_paragraph, unescaped, with_text

# Each takes time that grows with the text, not with its square: an opening bracket ends the look for the end of another one, and
# blanks (*+, ++) are not tried again.
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_LIST = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE = re.compile(r"^[ \t]*+(?:>[ \t]?)+")
_TABLE = re.compile(r"\s*+\|.*\|\s*$|\s*+(?:\|\s*+)?:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)++\|?\s*$")
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_IMAGE = re.compile(r"!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])")
_INLINE = re.compile(
    r"\[([^\[\]]+)\]\(\s*+(?:<([^<>]*+)>|([^()\s<>]*+(?:\([^()]*\)[^()\s<>]*+)?))(?:\s++[\"'][^\"']*[\"'])?+\s*+\)"
)
_REFERENCE = re.compile(r"\[([^\[\]]+)\]\[[^\[\]]*\]")
_EMPHASIS = re.compile(
    r"(?<![\w*])(\*{1,3})(?=\S)(.{1,2000}?)(?<=\S)\1(?![\w*])|(?<!\w)(_{1,3})(?=\S)(.{1,2000}?)(?<=\S)\3(?!\w)"
)
_TICKS = re.compile("`+")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_SIGN = r"[!-/:-@\[-`{-~]"
_ESCAPE = re.compile(rf"\\{_SIGN}")
#: What no file's text has: halves of surrogate pairs.
_PRIVATE = 0xD800
_ESCAPED = re.compile(f"[{chr(_PRIVATE + 33)}-{chr(_PRIVATE + 126)}]")
_KEY = re.compile(r"[\w\"'][\w \"'.-]{0,40}:(?:\s|$)")
_TITLE = re.compile("title:(.+)")

#: A link's address → the title it leads to, or None for one that leads out of the corpus.
Target = Callable[[str], str | None]


def plain(text: str, target: Target = lambda address: None) -> Paragraph:
    """A paragraph without Markdown's marks.

    >>> plain("A **ketch** has `two` masts.").text
    'A ketch has two masts.'
    """
    # What is escaped is out of the way of the other patterns until the end.
    text = _ESCAPE.sub(_hidden, text)
    text = _IMAGE.sub("", text)
    if "](" in text:
        text = _INLINE.sub(lambda m: _link(m[1], target(m[2] or m[3] or "")), text)
    text = _REFERENCE.sub(r"\1", text) if "][" in text else text
    text = _without_ticks(text) if "`" in text else text
    text = _EMPHASIS.sub(lambda m: m[2] or m[4], text)
    text = unescaped(_TAG.sub("", text))
    text = _ESCAPED.sub(lambda m: chr(ord(m[0]) - _PRIVATE), text)
    return parse_paragraph(" ".join(text.split()))


def _hidden(sign: re.Match[str]) -> str:
    return chr(_PRIVATE + ord(sign[0][-1]))


def _link(label: str, title: str | None) -> str:
    return label if title is None else f"[[{re.sub(_SIGN, _hidden, title)}|{label}]]"


def _without_ticks(text: str) -> str:
    """Without the marks of code: as many backticks before it as behind it.

    >>> _without_ticks("`two` of ``a `b` c``, and one ` more")
    'two of a `b` c, and one ` more'
    """
    marks = list(_TICKS.finditer(text))
    ends: list[int | None] = [None] * len(marks)
    later: dict[int, int] = {}
    for number in range(len(marks) - 1, -1, -1):
        ends[number] = later.get(size := len(marks[number][0]))
        later[size] = number
    pieces, place, number = [], 0, 0
    while number < len(marks):
        end = ends[number]
        if end is not None:
            pieces += [text[place : marks[number].start()], text[marks[number].end() : marks[end].start()]]
            place, number = marks[end].end(), end
        number += 1
    return "".join([*pieces, text[place:]])


def sections_of(lines: Iterable[str], target: Target = lambda address: None) -> tuple[str, list[Section]]:
    """The title ('' where there is none: ``title:`` of the front matter, else a first heading that stands before all
    text) and the sections; the first section has level 1 and is there even when it is empty, the others are those with
    text.
    """
    text, end, rest = "\n".join(lines).rpartition("-->")  # what begins behind the last one has no end
    lines = (_COMMENT.sub("", text + end) + rest).split("\n")
    title, lines = _front_matter(lines)
    sections = [Section("", 1)]
    block: list[str] = []
    fence = ""
    inside = 0  # columns before the text of a list's item: what is indented as far belongs to it

    def end_block() -> None:
        paragraph = plain(" ".join(block), target)
        block.clear()
        if any(character.isalnum() for character in paragraph.text):
            sections[-1].paragraphs.append(paragraph)

    def heading(text: str, level: int) -> None:
        nonlocal title
        text = plain(text).text
        if len(sections) == 1 and not sections[0].paragraphs and level == 1 and title in ("", text):
            title = text
        else:
            sections.append(Section(text, max(2, level)))

    for line in lines:
        wide = line.expandtabs(4)  # as CommonMark counts columns
        indent = len(wide) - len(wide.lstrip(" "))
        if wide.strip() and not fence:
            inside = min(inside, indent)
        indented = indent >= inside + 4
        if (mark := _FENCE.match(line)) and (fence or not indented):
            if not fence:
                end_block()
                fence = mark[1]
            elif mark[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
        elif fence:
            continue
        elif found := _HEADING.match(line):
            end_block()
            heading(_without_marks(found[2] or ""), len(found[1]))
        elif block and (found := _UNDERLINE.match(line)):
            text = " ".join(block)
            block.clear()
            heading(text, 1 if found[1][0] == "=" else 2)
        elif _RULE.match(line) or not line.strip() or _TABLE.match(line):
            end_block()
        elif not block and indented and not _LIST.match(line):
            continue  # an indented code block
        else:
            if item := _LIST.match(wide):
                inside = item.end()
            block.append(_LIST.sub("", _QUOTE.sub("", line), count=1).strip())
    end_block()
    return title, with_text(sections)


def _without_marks(heading: str) -> str:
    """Without the ``#`` that may follow a heading, after a blank."""
    text = heading.rstrip(" \t")
    short = text.rstrip("#")
    return text if short[-1:] not in (" ", "\t", "") else short


def _front_matter(lines: list[str]) -> tuple[str, list[str]]:
    first = next((line for line in lines[1:] if line.strip()), "")  # a key, unless it is text between two rules
    if lines[0].rstrip() != "---" or not _KEY.match(first) or "---" not in (line.rstrip() for line in lines[1:]):
        return "", lines
    end = next(place for place, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    titles = [found[1].strip().strip("\"'") for line in lines[1:end] if (found := _TITLE.match(line))]
    return (titles[0] if titles else ""), lines[end + 1 :]
