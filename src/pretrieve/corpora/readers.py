"""The corpora of ``config.yaml``: which reader takes which files, and a corpus of several parts.

A format is one module and one line of :data:`READERS`. Standard library only at import, for the workflow reads it; a reader's
module is imported when a corpus is built. A corpus is one of ::

    {reader: extracted, files: {text: enwiki-aa, text-2: enwiki-ab}}     # one reader
    {parts: [wikispeedia, enwiki2015]}                                   # other corpora, one after another
    {dump: enwiki-fragment, leads: encyclopaedia-leads}                  # short for reader mediawiki

A file is the name of a source (``resources/sources.tsv``) or a path. ``exclude`` names a file of titles, one a line,
whose articles are omitted (:mod:`pretrieve.corpora.contamination` writes such a file); ``expect`` has counts that must come
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pretrieve.base.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pretrieve.corpora.builder import Item
    from pretrieve.raw.raw_text import Warnings


@dataclass(frozen=True)
class Reader:
    """A format: the function ``read`` of a module, which gets a path for each of the ``required`` and ``optional`` files (None
    for one that is not given), and the warnings. ``series``: the required file may come again with something after its name
    (``text``, ``text-2``, ``text-b``), for a collection in several files, which are read in the order given; ``read`` gets a
    list of them."""

    read: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    series: str | None = None

    def takes(self, name: str) -> bool:
        return name in (*self.required, *self.optional) or (
            self.series is not None and name.startswith(f"{self.series}-")
        )


_HERE = "pretrieve.corpora"
READERS: dict[str, Reader] = {
    "mediawiki": Reader(f"{_HERE}.mediawiki:read_encyclopedia", ("dump",), ("leads",), series="dump"),
    "extracted": Reader(f"{_HERE}.extracted:read_extracted", ("text",), series="text"),
    "wikispeedia": Reader(f"{_HERE}.wikispeedia:read_wikispeedia", ("articles", "links")),
    "plain": Reader(f"{_HERE}.plain_text:read_plain", ("text",), series="text"),
    "folder": Reader(f"{_HERE}.folder:read_folder", ("folder",), series="folder"),
    "beir": Reader(f"{_HERE}.beir_documents:read_beir_documents", ("corpus",), series="corpus"),
}


def modules_of(readers: Iterable[str]) -> tuple[str, ...]:
    """The modules that read these formats.

    >>> modules_of(["plain", "folder"])
    ('pretrieve.corpora.folder', 'pretrieve.corpora.plain_text')
    """
    return tuple(sorted({READERS[name].read.partition(":")[0] for name in readers}))


def read_part(part: Part, warnings: Warnings) -> Iterator[Item]:
    """The articles of a part whose files are paths."""
    reader, files = READERS[part.reader], {name: Path(file) for name, file in part.files.items()}
    given = [
        [path for key, path in files.items() if key == name or key.startswith(f"{name}-")]
        if name == reader.series
        else files.get(name)
        for name in (*reader.required, *reader.optional)
    ]
    return resolve_name(reader.read)(*given, warnings)


@dataclass(frozen=True)
class Part:
    """A part of a corpus: a reader and its files, by the names of the reader."""

    name: str
    reader: str
    files: Mapping[str, str]


def check_part(part: Part, where: str) -> None:
    """Check a part's reader and the names of its files.

    Raises ConfigError with ``where`` in front: what is not allowed, and what is.
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
    """The parts of a corpus of the configuration; one for a corpus that is not a list of parts.

    Raises ConfigError for a name, reader, file or mixture of keys that is not allowed, and parts within parts.
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
                    f"{where}.parts: {part!r} is not a corpus; there are {', '.join(corpora)}{nearest(part, corpora)}"
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
