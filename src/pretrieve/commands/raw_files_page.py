"""Write the list of sources and licences in docs/raw-files.md again, from resources/sources.tsv."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from pretrieve.base.errors import DataError
from pretrieve.raw.sources import Source, read_sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sources", type=Path, default=Path("resources/sources.tsv"))
    parser.add_argument("--page", type=Path, default=Path("docs/raw-files.md"))


def main(arguments: argparse.Namespace) -> None:
    table = licence_list(read_sources(arguments.sources).values())
    arguments.page.write_text(with_table(arguments.page.read_text(encoding="utf-8"), table), encoding="utf-8")


BEGIN = "<!-- sources: begin (pretrieve raw-files-page) -->"
END = "<!-- sources: end -->"


def licence_list(sources: Iterable[Source]) -> str:
    """A Markdown list: for each licence the folders, where they come from, files, GB, kinds of checksum. Members are counted with
    their archive."""
    listed = list(sources)
    host_of = {source.name: _origin(source) for source in listed}
    groups: dict[str, dict[tuple[str, str], list[Source]]] = {}
    for source in listed:
        folder = source.file.partition("/")[0] + "/" if "/" in source.file else ""
        place = (folder, host_of[source.archive or source.name])
        groups.setdefault(source.licence, {}).setdefault(place, []).append(source)
    lines = []
    for licence, places in groups.items():
        said = "; ".join(_place(*place, some) for place, some in places.items())
        lines.append(f"* **{licence}**: {said}\n")
    return "".join(lines)


def _place(folder: str, origin: str, some: list[Source]) -> str:
    own = [source for source in some if not source.archive]
    size = sum(source.bytes for source in own) / 1e9
    kinds = sorted({source.checksum.partition(":")[0] for source in own or some})
    kinds = [] if kinds == ["sha256"] else kinds
    facts = [f"{len(some)} file{'s' if len(some) > 1 else ''}"]
    if size >= 0.05:
        facts.append(f"{size:,.1f}{'+' if any(not source.bytes for source in own) else ''} GB")
    return f"{f'`{folder}` ' if folder else ''}{origin} ({', '.join([*facts, *kinds])})"


def with_table(page: str, table: str) -> str:
    """The page with ``table`` between its two marks. Raises DataError when the marks are not there."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise DataError(f"docs/raw-files.md: the marks of the table are not there; expected {BEGIN} and {END}.")
    return f"{head}{BEGIN}\n{table}{END}{tail}"


def _origin(source: Source) -> str:
    if source.package:
        return f"package {source.package}"
    return urlsplit(source.url).hostname or "mirror only"
