"""Put a published checkpoint in place, checked against what was recorded at its first use."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_mirror, required
from pretrieve.base.files import write_text
from pretrieve.raw.hub import MANIFEST, fetch_checkpoint
from pretrieve.raw.mirror import mirror_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, str, start="hub:OWNER/NAME or hub:OWNER/NAME@REVISION")
    add_mirror(parser)
    required(parser, Path, out="text file in the checkpoint's directory: where it came from")


def main(arguments: argparse.Namespace) -> None:
    put_in_place(arguments.start, arguments.out, mirror_folder({}, arguments.mirror))


def put_in_place(start: str, out: Path, mirror: Path | None) -> None:
    """Fetch a checkpoint into the directory of ``out``, a text file that says where it came from."""
    origin = fetch_checkpoint(start, out.parent, mirror)
    write_text(out, f"{start}: {origin}\n")
    print(f"{start}: {origin}; checksums in {out.parent / MANIFEST}", flush=True)
