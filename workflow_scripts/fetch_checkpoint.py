"""Put a published checkpoint in place, checked against what was recorded at its first use."""

import argparse
import os
from pathlib import Path

from pretrieve.base.files import whole_file
from pretrieve.base.program import run_program
from pretrieve.raw.hub import MANIFEST, fetch_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", required=True, help="hub:OWNER/NAME or hub:OWNER/NAME@REVISION")
    parser.add_argument("--mirror", type=Path, default=os.environ.get("PRETRIEVE_MIRROR") or None)
    parser.add_argument(
        "--out", type=Path, required=True, help="text file in the checkpoint's directory: where it came from"
    )
    arguments = parser.parse_args()
    origin = fetch_checkpoint(arguments.start, arguments.out.parent, arguments.mirror)
    with whole_file(arguments.out) as stream:
        stream.write(f"{arguments.start}: {origin}\n".encode())
    print(f"{arguments.start}: {origin}; checksums in {arguments.out.parent / MANIFEST}")


if __name__ == "__main__":
    run_program(main)
