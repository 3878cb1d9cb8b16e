"""Put one raw file in place, checked: from a mirror folder, a package, an archive or its publisher."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_mirror, required
from pretrieve.base.code_folder import code_file
from pretrieve.raw.checksums import RECORDS
from pretrieve.raw.mirror import mirror_folder
from pretrieve.raw.sources import SOURCES, fetch, read_sources, recorded, source_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sources", type=Path, default=code_file("resources/sources.tsv"))
    required(parser, str, name="")
    add_mirror(parser)
    required(parser, Path, out="")


def main(arguments: argparse.Namespace) -> None:
    sources = read_sources(arguments.sources)
    source = source_of(sources, arguments.name)
    records = SOURCES / RECORDS
    origin = fetch(source, arguments.out, mirror_folder({}, arguments.mirror), sources, records)
    size = arguments.out.stat().st_size
    print(f"{source.file}: {size:,} bytes from {origin}; {recorded(source, records)}; licence {source.licence}")
