"""Make up what a rehearsal reads in place of a raw file or a published checkpoint: small, in the official layout, and marked.

--list says which sources have a made file; --all DIR writes them all, as a folder that can be looked at.
"""

import argparse
from pathlib import Path

from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import ConfigError
from pretrieve.operations.rehearsal.made import FORMS, NOTICE, make, make_checkpoint
from pretrieve.raw.sources import read_sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--name", help="a source of resources/sources.tsv")
    what.add_argument("--start", help="hub:rehearsal/NAME")
    what.add_argument("--list", action="store_true")
    what.add_argument("--all", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, help="the file; of a checkpoint, its origin.txt")


def main(arguments: argparse.Namespace) -> None:
    if (arguments.name or arguments.start) and arguments.out is None:
        raise ConfigError("--out: missing; give the file that is to be written.")
    if arguments.list:
        print("\n".join(FORMS))
    elif arguments.all:
        sources = read_sources(code_file("resources/sources.tsv"))
        for name in FORMS:
            make(name, arguments.all / sources[name].file)
        print(f"{len(FORMS)} files under {arguments.all}: {NOTICE}")
    elif arguments.name:
        size = make(arguments.name, arguments.out)
        print(f"{arguments.out}: {size:,} bytes, {NOTICE}")
    else:
        print(f"{arguments.out.parent}: {make_checkpoint(arguments.start, arguments.out)}, {NOTICE}")
