"""A corpus of several parts: one part's articles after another's, titles omitted.

Formats: :mod:`pretrieve.corpora.readers`. What happened on the way stands in ``stats.json``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article, Item, UnplacedLink, build_corpus
from pretrieve.corpora.plain_text import text_lines
from pretrieve.corpora.readers import Part, check_part, read_part
from pretrieve.corpora.titles import EarlierTitles
from pretrieve.corpora.wikitext import article_title
from pretrieve.raw.raw_text import Warnings


def read_titles(path: Path) -> list[str]:
    """Titles, one a line; blank lines and lines that begin with ``#`` and a blank are no titles."""
    lines = map(str.strip, text_lines(path))
    return [line for line in lines if line and not line.startswith("# ") and line != "#"]


def read_parts(
    parts: Sequence[Part], exclude: Path | None, warnings: Warnings, counts: dict[str, Any]
) -> Iterator[Item]:
    """The articles of all parts, one part after another.

    Of a title in two parts the first part's article counts; within a part titles may come again, as in BEIR.
    ``counts`` gets, with ``exclude``: ``excluded`` (articles omitted) and ``excluded_titles`` (of how many in the
    file); with several parts: ``duplicate_titles`` (articles omitted) and ``parts`` (articles kept, by part).
    """
    unwanted = {title: 0 for title in map(article_title, read_titles(exclude) if exclude else ()) if title}
    earlier = EarlierTitles()
    if exclude:
        counts |= {"excluded": 0, "excluded_titles": 0}
    if len(parts) > 1:
        counts |= {"duplicate_titles": 0, "parts": {part.name: 0 for part in parts}}
    for part in parts:
        left_out = False
        for item in read_part(part, warnings):
            if isinstance(item, Article):
                title = article_title(item.title)
                is_unwanted, is_there = title in unwanted, bool(title) and title in earlier
                left_out = is_unwanted or is_there
                if is_unwanted:
                    counts["excluded"] += 1
                    counts["excluded_titles"] += not unwanted[title]
                    unwanted[title] += 1
                elif is_there:
                    counts["duplicate_titles"] += 1
                elif len(parts) > 1:
                    counts["parts"][part.name] += 1
                    earlier.add(title)
            if not (left_out and isinstance(item, Article | UnplacedLink)):
                yield item
        earlier.end_part()
    if not_there := [title for title, count in unwanted.items() if not count]:
        # No error: a list made for a whole test set names articles that a small corpus does not have.
        warnings.counts["title to exclude that no article has"] = len(not_there)
        warnings.examples["title to exclude that no article has"] = f"{exclude}: {not_there[0]!r}"


def build(
    parts: Sequence[Part], directory: Path, expected: Mapping[str, int] | None = None, exclude: Path | None = None
) -> dict[str, Any]:
    """Build a corpus of parts whose files are paths: :func:`~pretrieve.corpora.builder.build_corpus`.

    Warnings are printed, and their counts stand in ``stats.json`` under ``warnings`` when there are any.

    Raises ConfigError for a reader or the name of a file that is not known, and DataError for two parts of one name, and what
    readers and builder raise.
    """
    if not parts or len({part.name for part in parts}) < len(parts):
        raise DataError(f"parts {[part.name for part in parts]}: expected one or more, each with a name of its own.")
    for part in parts:
        check_part(part, f"part {part.name}")
    warnings = Warnings()
    more: dict[str, Any] = {}

    def items() -> Iterator[Item]:
        yield from read_parts(parts, exclude, warnings, more)
        if warnings.counts:
            more["warnings"] = warnings.counts

    label = ", ".join(str(file) for part in parts for file in part.files.values() if file) if len(parts) > 1 else ""
    label = label or next(iter(parts[0].files.values()))
    counts = build_corpus(items(), directory, expected, str(label), more)
    if warnings.counts:
        print(warnings.summary(), file=sys.stderr)
    return counts
