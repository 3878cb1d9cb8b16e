"""Write the table of sources and licences in docs/raw-files.md anew from resources/sources.tsv."""

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
    table = licence_table(read_sources(arguments.sources).values())
    arguments.page.write_text(with_table(arguments.page.read_text(encoding="utf-8"), table), encoding="utf-8")


BEGIN = "<!-- sources: begin (pretrieve raw-files-page) -->"
END = "<!-- sources: end -->"


def licence_table(sources: Iterable[Source]) -> str:
    """A Markdown table: a row for each folder, licence and place they come from; members are counted with their archive."""
    groups: dict[tuple[str, str, str], list[Source]] = {}
    listed = list(sources)
    host_of = {source.name: _origin(source) for source in listed}
    for source in listed:
        folder = source.file.partition("/")[0] + "/" if "/" in source.file else "–"
        origin = host_of[source.archive or source.name]
        groups.setdefault((folder, origin, source.licence), []).append(source)
    lines = ["| folder | from | licence or terms | files | GB | checksum |", "|---|---|---|---:|---:|---|"]
    for (folder, origin, licence), some in groups.items():
        own = [source for source in some if not source.archive]
        size = sum(source.bytes for source in own) / 1e9
        unknown = any(not source.bytes for source in own)
        kinds = sorted({source.checksum.partition(":")[0] for source in own or some})
        shown = f"{size:,.3f}" + ("+" if unknown else "") if own else "–"
        lines.append(f"| {folder} | {origin} | {licence} | {len(some)} | {shown} | {', '.join(kinds)} |")
    return "\n".join(lines) + "\n"


def with_table(page: str, table: str) -> str:
    """The page with ``table`` between its two marks.

    Raises DataError when the marks are not there.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise DataError(f"docs/raw-files.md: the marks of the table are not there; expected {BEGIN} and {END}.")
    return f"{head}{BEGIN}\n{table}{END}{tail}"


def _origin(source: Source) -> str:
    if source.package:
        return f"package {source.package}"
    return urlsplit(source.url).hostname or "a mirror alone"
