"""Publish a finished run: tables, figures, claims and report.

They are copied to results/published, and docs/results.md (of another scale: results-SCALE.md) is written. Of the demo, README.md
shows one claim of each paper.
"""

import argparse
import datetime
from pathlib import Path

from pretrieve.base.arguments import add_config_file, required
from pretrieve.base.errors import check_names
from pretrieve.operations.publish.headlines import HEADLINES
from pretrieve.operations.publish.publish import publish, publish_again
from pretrieve.reporting.report.timing import configured
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.scales import at_scale


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, str, scale="publishes results/SCALE")
    add_config_file(parser, "of the run")
    parser.add_argument("--tables", nargs="+", metavar="PAPER/TABLE", help="instead of those of the configuration")
    parser.add_argument("--figures", nargs="*", metavar="PAPER/FIGURE", help="instead of those of the configuration")
    parser.add_argument("--repository", type=Path, default=Path("."), metavar="FOLDER", help="checkout with README.md")
    parser.add_argument("--date", type=_day, default=datetime.date.today(), metavar="YYYY-MM-DD")
    readme = "show this run in README.md, or not (default: only the demo)"
    parser.add_argument("--readme", action=argparse.BooleanOptionalAction, help=readme)
    again = "publish nothing: only write the pages about the newest publication of this scale again"
    parser.add_argument("--again", action="store_true", help=again)


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a day, as 2026-01-31.") from None


def main(options: argparse.Namespace) -> None:
    config = read_config(options.config)
    check_names("scale", [options.scale], config["scales"])
    claims = None if options.readme is None else HEADLINES if options.readme else ()
    if options.again:
        print(f"pages of {publish_again(options.repository, options.scale, claims)} are written again.")
        return
    tables, figures = options.tables or configured(config, "tables"), options.figures
    if figures is None:
        figures = at_scale({**config, "scale": options.scale}).get("figures", [])
    results, date = Path("results", options.scale), options.date.isoformat()
    target = publish(results, tables, config, options.repository, date, figures, claims)
    print(f"published to {target}. `git status` shows the pages that were written. All of it is yours to commit.")
