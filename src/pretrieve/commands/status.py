"""Print for every table how many of its cells are measured, quoted, not run and failed."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_config_file, required
from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.paths import table_file
from pretrieve.operations.publish.places import PUBLICATION
from pretrieve.reporting.report.timing import configured, format_status, split_name
from pretrieve.workflow.config_files import read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, results="folder of the scale, such as results/demo")
    add_config_file(parser, "lists the tables")
    parser.add_argument("--tables", nargs="+", metavar="PAPER/TABLE", help="instead of those of the configuration")


def main(options: argparse.Namespace) -> None:
    config = read_config(options.config)
    folders = [f"results/{scale}" for scale in config["scales"]]
    if PUBLICATION.fullmatch(options.results.resolve().name):
        raise ConfigError(
            f"--results {options.results}: a published copy; expected the folder of a scale, such as {folders[0]}. The counts of "
            f"this one are in {options.results}/README.md"
        )
    if not options.results.is_dir() and str(options.results) not in folders:
        raise ConfigError(
            f"--results {options.results}: no such folder; expected a scale's, such as {', '.join(folders)}"
            f"{nearest(options.results, folders)}"
        )
    tables = configured(config, "tables")
    for name in options.tables or ():
        if name not in tables and not Path(table_file(str(options.results), *split_name(name))).is_file():
            raise ConfigError(
                f"--tables {name}: no such table of the configuration or in the folder{nearest(name, tables)}"
            )
    print(format_status(options.results, [*dict.fromkeys(options.tables or tables)]), end="")
