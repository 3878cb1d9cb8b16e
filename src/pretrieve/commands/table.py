"""Write one table of a paper, filled with measured values: CSV, Markdown, HTML, LaTeX and a manifest."""

import argparse

from pretrieve.base.arguments import add_outputs, add_reference
from pretrieve.base.files import write_json, write_text
from pretrieve.references.tables import load_table
from pretrieve.reporting.tables.filling import fill_table, write_lines
from pretrieve.reporting.tables.latex import to_latex
from pretrieve.reporting.tables.manifest import make_manifest
from pretrieve.reporting.tables.render import to_html, to_markdown
from pretrieve.reporting.tables.results import Setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reference(parser, "references/PAPER/TABLE.csv, with paper.yaml beside it")
    add_outputs(parser, "csv", "md", "html", "tex", "manifest")


def main(args: argparse.Namespace) -> None:
    table = load_table(args.reference.with_name("paper.yaml"), args.reference)
    setting = Setting.of(args.setting)
    lines = fill_table(table, setting)
    write_lines(args.csv, lines, table.row_columns)
    for path, written in ((args.md, to_markdown), (args.html, to_html), (args.tex, to_latex)):
        write_text(path, written(table, lines, setting))
    write_json(args.manifest, make_manifest(table, lines, setting, args.config_hash, args.lock, args.sources))
