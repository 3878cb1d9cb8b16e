"""Compare a run's encoders: league.csv, league.pairs.csv, and order.csv with the papers' order beside ours."""

import argparse

from pretrieve.base import paths
from pretrieve.base.arguments import add_outputs, json_object, required
from pretrieve.reporting.claims.measured import Facts, bases_of
from pretrieve.reporting.report.league import Kept, Pair, Standing, entries_of, league
from pretrieve.reporting.report.paper_order import Rank, orders
from pretrieve.reporting.tables.filling import read_lines
from pretrieve.reporting.tables.rows import write_rows
from pretrieve.workflow.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, config="the configuration of the run")
    add_outputs(parser, "csv", "pairs", "order")


def main(args: argparse.Namespace) -> None:
    plan = Plan.load(args.config)
    encoders = plan.config["encoders"]
    measurements = Kept(plan.root, plan.seeds, Facts(bases=bases_of(encoders)))
    tables = {name: read_lines(paths.table_file(plan.root, *name.split("/"))) for name in plan.config["tables"]}
    standings, pairs = league(entries_of(tables, measurements), encoders, measurements)
    write_rows(args.pairs, pairs, Pair)
    write_rows(args.order, orders(tables, measurements), Rank)
    write_rows(args.csv, standings, Standing)
