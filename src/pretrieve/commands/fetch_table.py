"""Fetch the raw files and published checkpoints that one table needs; says first how much there is, and how much must come."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_config_file, add_mirror
from pretrieve.commands.fetch_checkpoint import put_in_place
from pretrieve.operations import raw_files as wanted
from pretrieve.raw import hub
from pretrieve.raw.checksums import RECORDS
from pretrieve.raw.mirror import check_mirror, mirror_folder
from pretrieve.raw.sources import SOURCES, fetch, read_sources
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import SOURCES as LIST
from pretrieve.workflow.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", required=True, metavar="PAPER/TABLE")
    parser.add_argument("--scale", default="demo", help="demo, small, paper (the papers' own data), or one of your own")
    add_config_file(parser, "of the scales and tables")
    add_mirror(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be fetched, and fetch nothing")


def main(arguments: argparse.Namespace) -> None:
    config = read_config(arguments.config)
    mirror = mirror_folder(config, arguments.mirror)
    check_mirror({"mirror": mirror})
    sources = read_sources(LIST)
    config["scale"] = arguments.scale
    plan = Plan.load(config)
    names, own = wanted.table_files(plan, plan.check_table(arguments.table))
    starts = wanted.table_starts(plan, arguments.table)
    files = wanted.survey(names, sources, mirror)
    print(f"{arguments.table} at scale {arguments.scale}:\n{wanted.report(files)}")
    for path in own:
        print(f"  {path}: {'there' if Path(path).is_file() else 'MISSING'}, not fetched")
    for start in starts:
        print(f"  {start}: {wanted.checkpoint_state(start, mirror)}")
    if arguments.dry_run:
        return
    wanted.check_room(files)
    for file in files:
        # An archive whose members are all to be had elsewhere is not among the files; one that is comes before its members.
        if file.state != "there":
            origin = fetch(file.source, file.target, mirror, sources, SOURCES / RECORDS)
            print(f"{file.source.file}: {file.target.stat().st_size:,} bytes from {origin}", flush=True)
    for start in starts:
        out = Path(hub.files_of(start)[0])
        if not out.is_file():
            put_in_place(start, out, mirror)
    print(f"{arguments.table}: all files are in place")
