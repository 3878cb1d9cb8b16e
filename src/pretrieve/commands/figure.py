"""Make one figure of a paper from what was measured: CSV, SVG and a manifest."""

import argparse

from pretrieve.base.arguments import add_outputs, add_reference
from pretrieve.base.files import whole_file, write_json
from pretrieve.references.figures import load_figure
from pretrieve.references.tables import load_table
from pretrieve.reporting.figures.draw import to_svg
from pretrieve.reporting.figures.manifest import make_manifest
from pretrieve.reporting.figures.measure import FigureSetting, measure_figure
from pretrieve.reporting.figures.points import Point
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import write_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reference(parser, "references/PAPER/FIGURE.yaml")
    add_outputs(parser, "csv", "svg", "manifest")


def main(args: argparse.Namespace) -> None:
    figure = load_figure(args.reference)
    folder = args.reference.parent
    published = {name: load_table(folder / "paper.yaml", folder / f"{name}.csv") for name in figure.published_tables()}
    options = dict(args.setting)
    analyses, corpus, starts = (options.pop(key) for key in ("analyses", "corpus", "starts"))
    setting = FigureSetting(Setting.of(options), analyses, corpus, starts)
    points = measure_figure(figure, setting, published)
    write_rows(args.csv, points, Point)
    with whole_file(args.svg) as stream:
        stream.write(to_svg(figure, points, setting.tables.scale, setting.tables))
    write_json(args.manifest, make_manifest(figure, points, setting, args.config_hash, args.lock, args.sources))
