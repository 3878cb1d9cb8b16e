"""The corpora of ``config.yaml``: which reader takes which files, a corpus of several parts, and titles left out.

Standard library only at import, for the workflow reads it; the readers are imported when a corpus is built. A corpus
is one of ::

    {reader: extracted, files: {text: enwiki-aa, text-2: enwiki-ab}}     # one reader
    {parts: [wikispeedia, enwiki2015]}                                   # other corpora, one after another
    {dump: enwiki-fragment, leads: encyclopaedia-leads}                  # short for reader mediawiki

A file is the name of a source (``resources/sources.tsv``) or a path. ``exclude`` names a file of titles, one a line,
whose articles are left out (:mod:`pretrieve.corpora.contamination` writes such a file); ``expect`` has counts that must come
out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrieve.base.errors import ConfigError, DataError, nearest

if TYPE_CHECKING:
    from pretrieve.corpora.builder import Item
    from pretrieve.raw.raw_text import Warnings

Files = Mapping[str, Path]


@dataclass(frozen=True)
class Reader:
    """A format: its ``read``, the ``modules`` of this folder that only such readers use, and the names of its files.
    ``series``: the required name may come again with something behind it (``text``, ``text-2``, ``text-b``), for a
    collection in several files, which are read in the order given."""

    read: Callable[[Files, Warnings], Iterator[Item]]
    modules: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    series: str | None = None

    def takes(self, name: str) -> bool:
        return name in (*self.required, *self.optional) or (
            self.series is not None and name.startswith(f"{self.series}-")
        )


def _series(files: Files, series: str) -> list[Path]:
    return [path for name, path in files.items() if name == series or name.startswith(f"{series}-")]


# The imports are written out for stage_sources.py, which follows them to know what code a corpus depends on.


def _mediawiki(files: Files, warnings: Warnings) -> Iterator[Item]:
    from pretrieve.corpora.encyclopedia import read_encyclopedia

    return read_encyclopedia(_series(files, "dump"), files.get("leads"))


def _extracted(files: Files, warnings: Warnings) -> Iterator[Item]:
    from pretrieve.corpora.extracted import read_extracted

    return read_extracted(_series(files, "text"), warnings)


def _wikispeedia(files: Files, warnings: Warnings) -> Iterator[Item]:
    from pretrieve.corpora.wikispeedia import read_wikispeedia

    return read_wikispeedia(files["articles"], files["links"], warnings)


def _plain(files: Files, warnings: Warnings) -> Iterator[Item]:
    from pretrieve.corpora.plain_text import read_plain

    return read_plain(_series(files, "text"), warnings)


def _folder(files: Files, warnings: Warnings) -> Iterator[Item]:
    from pretrieve.corpora.folder import read_folder

    return read_folder(_series(files, "folder"), warnings)


def _beir(files: Files, warnings: Warnings) -> Iterator[Item]:
    from pretrieve.corpora.beir_documents import read_beir_documents

    return read_beir_documents(_series(files, "corpus"), warnings)


READERS: dict[str, Reader] = {
    "mediawiki": Reader(_mediawiki, ("encyclopedia", "mediawiki", "leads"), ("dump",), ("leads",), series="dump"),
    "extracted": Reader(_extracted, ("extracted",), ("text",), series="text"),
    "wikispeedia": Reader(_wikispeedia, ("wikispeedia",), ("articles", "links")),
    "plain": Reader(_plain, ("plain_text",), ("text",), series="text"),
    "folder": Reader(_folder, ("folder", "markdown", "plain_text"), ("folder",), series="folder"),
    "beir": Reader(_beir, ("beir_documents",), ("corpus",), series="corpus"),
}


def unused_modules(readers: Iterable[str]) -> set[str]:
    """Files of this folder that only other readers use, so that an edit of one format's reader builds no other corpus
    again.

    >>> "folder.py" in unused_modules(["plain"]), "plain_text.py" in unused_modules(["folder"])
    (True, False)
    """
    used = {module for name in readers for module in READERS[name].modules}
    return {f"{module}.py" for reader in READERS.values() for module in reader.modules if module not in used}


@dataclass(frozen=True)
class Part:
    """A part of a corpus: a reader and its files, by the names of the reader."""

    name: str
    reader: str
    files: Mapping[str, str]


def check_part(part: Part, where: str) -> None:
    """Check a part's reader and the names of its files.

    Raises
    ------
    ConfigError
        with ``where`` in front: what is not allowed, and what is.
    """
    if part.reader not in READERS:
        raise ConfigError(
            f"{where}: reader {part.reader!r} is not known; allowed: {', '.join(READERS)}{nearest(part.reader, READERS)}"
        )
    reader = READERS[part.reader]
    allowed = [*reader.required, *(f"{name} (optional)" for name in reader.optional)]
    allowed += [f"{reader.series}-… (more of it)"] if reader.series else []
    wrong = [name for name in part.files if not reader.takes(name)]
    wrong += [f"no {name}" for name in reader.required if not part.files.get(name)]
    if wrong:
        raise ConfigError(
            f"{where}: files of reader {part.reader}: found {', '.join(map(repr, wrong))}; expected {', '.join(allowed)}."
        )


def parts_of(corpora: Mapping[str, Mapping[str, Any]], name: str) -> list[Part]:
    """The parts of a corpus of the configuration; one for a corpus that is no list of parts.

    Raises
    ------
    ConfigError
        for a name, reader, file or mixture of keys that is not allowed, and parts within parts.
    """
    where, options = f"config: corpora.{name}", corpora[name]
    kinds = [key for key in ("dump", "reader", "parts") if key in options]
    if len(kinds) != 1:
        raise ConfigError(
            f"{where}: found {', '.join(kinds) or 'none'} of dump, reader and parts; expected exactly one."
        )
    if kinds == ["parts"]:
        found: list[Part] = []
        for part in options["parts"]:
            if part not in corpora:
                raise ConfigError(
                    f"{where}.parts: {part!r} is no corpus; there are {', '.join(corpora)}{nearest(part, corpora)}"
                )
            if "parts" in corpora[part]:
                raise ConfigError(f"{where}.parts: {part!r} has parts of its own; name those instead.")
            found += parts_of(corpora, part)
        return found
    if kinds == ["dump"]:
        files = {key: options[key] for key in ("dump", "leads") if options.get(key)}
        part = Part(name, "mediawiki", files)
    else:
        part = Part(name, options["reader"], {key: file for key, file in options.get("files", {}).items() if file})
    check_part(part, where)
    return [part]


def is_path(file: str) -> bool:
    """Whether a file of the configuration is meant as a path: it has a ``/`` or is there."""
    return "/" in file or Path(file).exists()


def read_titles(path: Path) -> list[str]:
    """Titles, one a line; blank lines and lines that begin with ``#`` and a blank are no titles."""
    from pretrieve.raw.raw_text import read_lines

    lines = (line.text.strip() for line in read_lines(path))
    return [line for line in lines if line and not line.startswith("# ") and line != "#"]


def read_parts(
    parts: Sequence[Part], exclude: Path | None, warnings: Warnings, counts: dict[str, Any]
) -> Iterator[Item]:
    """The articles of all parts, one part after another.

    Of a title in two parts the first part's article counts; within a part titles may come again, as in BEIR.
    ``counts`` gets, with ``exclude``: ``excluded`` (articles left out) and ``excluded_titles`` (of how many in the
    file); with several parts: ``duplicate_titles`` (articles left out) and ``parts`` (articles kept, by part).
    """
    from pretrieve.corpora.builder import Article, UnplacedLink
    from pretrieve.corpora.titles import EarlierTitles
    from pretrieve.corpora.wikitext import normalise_title

    unwanted = {title: 0 for title in map(normalise_title, read_titles(exclude) if exclude else ()) if title}
    earlier = EarlierTitles()
    if exclude:
        counts |= {"excluded": 0, "excluded_titles": 0}
    if len(parts) > 1:
        counts |= {"duplicate_titles": 0, "parts": {part.name: 0 for part in parts}}
    for part in parts:
        left_out = False
        for item in READERS[part.reader].read({name: Path(file) for name, file in part.files.items()}, warnings):
            if isinstance(item, Article):
                title = normalise_title(item.title)
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

    Raises
    ------
    ConfigError
        for a reader or the name of a file that is not known.
    DataError
        for two parts of one name, and what readers and builder raise.
    """
    from pretrieve.corpora.builder import build_corpus
    from pretrieve.raw.raw_text import Warnings

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
