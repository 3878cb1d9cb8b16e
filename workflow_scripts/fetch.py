"""Put one raw file in place, checked: from a mirror folder, a package, an archive or its publisher."""

import argparse
import os
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.raw.sources import RECORDS, SOURCES, fetch, read_sources, recorded, source_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--mirror", type=Path, default=os.environ.get("PRETRIEVE_MIRROR") or None)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    sources = read_sources(arguments.sources)
    source = source_of(sources, arguments.name)
    records = SOURCES / RECORDS
    origin = fetch(source, arguments.out, arguments.mirror, sources, records)
    size = arguments.out.stat().st_size
    print(f"{source.file}: {size:,} bytes from {origin}; {recorded(source, records)}; licence {source.licence}")


if __name__ == "__main__":
    run_program(main)
