"""Write one table of a paper, filled with measured values: CSV, Markdown, HTML and a manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.cli import run_program
from pretrieve.errors import ConfigError
from pretrieve.files import whole_file, write_json
from pretrieve.reporting.manifest import make_manifest
from pretrieve.reporting.references import load_table
from pretrieve.reporting.render import to_html, to_markdown
from pretrieve.reporting.results import Setting
from pretrieve.reporting.tables import fill_table, write_lines


def name_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return key, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paper", required=True, help="name of the paper")
    parser.add_argument("--table", required=True, help="name of the table")
    parser.add_argument("--reference", type=Path, required=True, metavar="CSV", help="published cells")
    parser.add_argument("--paper-file", type=Path, required=True, metavar="YAML", help="captions, baseline, tolerance")
    parser.add_argument("--results", required=True, help="folder of the scale, such as results/demo")
    parser.add_argument("--scale", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--roles", type=name_pair, nargs="*", default=[], metavar="ROLE=DATASET")
    parser.add_argument("--trained-on", type=name_pair, nargs="*", default=[], metavar="DATASET=TRAINING_DATASET")
    parser.add_argument("--encoders", nargs="*", default=[], help="encoders this scale has (bm25 need not be named)")
    parser.add_argument("--recipes", nargs="*", default=[], help="fine-tuning recipes this scale has")
    parser.add_argument(
        "--sizes",
        type=name_pair,
        nargs="*",
        default=[],
        metavar="DATASET=SIZE,SIZE",
        help="training-set sizes of a data set; without an entry a data set is taken to have every size",
    )
    parser.add_argument("--metrics", type=name_pair, nargs="*", default=[], metavar="DATASET=METRIC,METRIC")
    parser.add_argument(
        "--kinds",
        type=name_pair,
        nargs="*",
        default=[],
        metavar="NAME=KIND",
        help="what a recipe trains, and what a data set of examples is for; retrieval need not be named",
    )
    parser.add_argument("--config-hash", default="")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="lock file of the environment")
    parser.add_argument("--sources", type=Path, nargs="*", default=[], metavar="FILE", help="data files to checksum")
    for kind in ("csv", "md", "html", "manifest"):
        parser.add_argument(f"--{kind}", type=Path, required=True, metavar="FILE", help="output")
    args = parser.parse_args()
    table = load_table(args.paper_file, args.reference)
    if (table.paper, table.name) != (args.paper, args.table):
        raise ConfigError(
            f"{args.paper_file} and {args.reference} describe {table.paper}/{table.name}; "
            f"--paper and --table ask for {args.paper}/{args.table}. Name the same table."
        )
    setting = Setting(
        root=args.results.rstrip("/"),
        scale=args.scale,
        seeds=tuple(args.seeds),
        roles=dict(args.roles),
        encoders=frozenset(args.encoders),
        recipes=frozenset(args.recipes),
        trained_on=dict(args.trained_on),
        sizes={dataset: sizes.split(",") for dataset, sizes in args.sizes},
        metrics={dataset: names.split(",") for dataset, names in args.metrics},
        kinds=dict(args.kinds),
    )
    lines = fill_table(table, setting)
    write_lines(args.csv, lines)
    for path, text in ((args.md, to_markdown(table, lines, setting)), (args.html, to_html(table, lines, setting))):
        with whole_file(path) as stream:
            stream.write(text.encode())
    write_json(args.manifest, make_manifest(table, lines, setting, args.config_hash, args.lock, args.sources))


if __name__ == "__main__":
    run_program(main)
