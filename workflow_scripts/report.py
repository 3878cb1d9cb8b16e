"""Write the report of a run: one HTML file with tables, figures, claims, learning curves, choices, commands and cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.files import whole_file
from pretrieve.base.program import run_program
from pretrieve.reporting.report.page import collect, render
from pretrieve.workflow.plan import Plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=json.loads, required=True, metavar="JSON", help="the configuration of the run")
    parser.add_argument("--html", type=Path, required=True, metavar="FILE", help="output")
    args = parser.parse_args()
    plan = Plan.load(args.config)
    page = render(collect(plan, Path(plan.root)))
    with whole_file(args.html) as stream:
        stream.write(page.encode())


if __name__ == "__main__":
    run_program(main)
