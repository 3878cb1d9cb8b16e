"""Put one raw file in place, checked against its sha256."""

import argparse
import os
from pathlib import Path

from pretrieve.cli import run_program
from pretrieve.corpora.sources import fetch, read_sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--mirror", type=Path, default=os.environ.get("PRETRIEVE_MIRROR") or None)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    source = read_sources(arguments.sources)[arguments.name]
    origin = fetch(source, arguments.out, arguments.mirror)
    print(f"{source.file}: {source.bytes:,} bytes from {origin}; sha256 as expected; licence {source.licence}")


if __name__ == "__main__":
    run_program(main)
