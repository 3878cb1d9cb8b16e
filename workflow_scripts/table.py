"""Write one table of a paper, filled with measured values: CSV, Markdown, HTML, LaTeX and a manifest."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.files import whole_file, write_json
from pretrieve.base.program import run_program
from pretrieve.reporting.tables.filling import fill_table, write_lines
from pretrieve.reporting.tables.latex import to_latex
from pretrieve.reporting.tables.manifest import make_manifest
from pretrieve.reporting.tables.references import load_table
from pretrieve.reporting.tables.render import to_html, to_markdown
from pretrieve.reporting.tables.results import Setting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--reference",
        type=Path,
        required=True,
        metavar="CSV",
        help="references/PAPER/TABLE.csv, with paper.yaml beside it",
    )
    parser.add_argument("--setting", type=json.loads, required=True, metavar="JSON", help="what the scale makes")
    parser.add_argument("--config-hash", default="")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="lock file of the environment")
    parser.add_argument("--sources", type=Path, nargs="*", default=[], metavar="FILE", help="data files to checksum")
    for kind in ("csv", "md", "html", "tex", "manifest"):
        parser.add_argument(f"--{kind}", type=Path, required=True, metavar="FILE", help="output")
    args = parser.parse_args()
    table = load_table(args.reference.with_name("paper.yaml"), args.reference)
    setting = Setting.of(args.setting)
    lines = fill_table(table, setting)
    write_lines(args.csv, lines, table.row_columns)
    for path, written in ((args.md, to_markdown), (args.html, to_html), (args.tex, to_latex)):
        with whole_file(path) as stream:
            stream.write(written(table, lines, setting).encode())
    write_json(args.manifest, make_manifest(table, lines, setting, args.config_hash, args.lock, args.sources))


if __name__ == "__main__":
    run_program(main)
