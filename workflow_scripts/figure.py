"""Make one figure of a paper from what was measured: CSV, SVG and a manifest."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.files import whole_file, write_json
from pretrieve.base.program import run_program
from pretrieve.reporting.figures.draw import to_svg
from pretrieve.reporting.figures.manifest import make_manifest
from pretrieve.reporting.figures.measure import FigureSetting, measure_figure
from pretrieve.reporting.figures.points import write_points
from pretrieve.reporting.figures.reference import load_figure
from pretrieve.reporting.tables.references import load_table
from pretrieve.reporting.tables.results import Setting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, required=True, metavar="YAML", help="references/PAPER/FIGURE.yaml")
    parser.add_argument("--setting", type=json.loads, required=True, metavar="JSON", help="what the scale makes")
    parser.add_argument("--config-hash", default="")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="lock file of the environment")
    parser.add_argument("--sources", type=Path, nargs="*", default=[], metavar="FILE", help="data files to checksum")
    for kind in ("csv", "svg", "manifest"):
        parser.add_argument(f"--{kind}", type=Path, required=True, metavar="FILE", help="output")
    args = parser.parse_args()
    figure = load_figure(args.reference)
    folder = args.reference.parent
    published = {name: load_table(folder / "paper.yaml", folder / f"{name}.csv") for name in figure.published_tables()}
    options = dict(args.setting)
    analyses, corpus = options.pop("analyses"), options.pop("corpus")
    setting = FigureSetting(Setting.of(options), analyses, corpus)
    points = measure_figure(figure, setting, published)
    write_points(args.csv, points)
    with whole_file(args.svg) as stream:
        stream.write(to_svg(figure, points, setting.tables.scale, setting.tables))
    write_json(args.manifest, make_manifest(figure, points, setting, args.config_hash, args.lock, args.sources))


if __name__ == "__main__":
    run_program(main)
