"""Write the report of a run: one HTML file with tables, figures, claims, learning curves, choices, commands and cost."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import json_object, required
from pretrieve.base.files import write_text
from pretrieve.reporting.report.page import render
from pretrieve.workflow.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, config="the configuration of the run")
    required(parser, Path, html="output")


def main(args: argparse.Namespace) -> None:
    plan = Plan.load(args.config)
    write_text(args.html, render(plan, Path(plan.root)))
