"""Judge the papers' claims by what was measured: claims.csv, claims.groups.csv and claims.md."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_outputs, json_object, required
from pretrieve.base.files import write_text
from pretrieve.reporting.claims.claims import load_claims
from pretrieve.reporting.claims.ledger import (
    Comparison,
    Finding,
    load_reproductions,
    to_comparisons,
    to_findings,
    to_markdown,
)
from pretrieve.reporting.claims.measured import Facts, Measurements, Value, bases_of
from pretrieve.reporting.claims.verdicts import judge_claims
from pretrieve.reporting.tables.results import training_examples
from pretrieve.reporting.tables.rows import write_rows
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import is_original


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, claims="references/claims.yaml", reproductions="what others measured")
    required(parser, json_object, config="the configuration of the run")
    add_outputs(parser, "csv", "groups", "md")


def main(args: argparse.Namespace) -> None:
    plan = Plan.load(args.config)
    claims = load_claims(args.claims, plan.cells, plan.figures)
    facts = Facts(
        bases=bases_of(plan.config["encoders"]),
        original=lambda role: is_original(plan.config, role),
        trained=lambda value: _training_examples(plan, value),
    )
    verdicts = judge_claims(claims, Measurements(plan.root, plan.seeds, facts))
    findings = to_findings(verdicts, plan.scale_name, load_reproductions(args.reproductions, claims))
    write_rows(args.groups, to_comparisons(verdicts), Comparison)
    write_text(args.md, to_markdown(findings, plan.scale_name))
    write_rows(args.csv, findings, Finding)


def _training_examples(plan: Plan, value: Value) -> int | None:
    dataset = plan.dataset_of(value.role, value.paper)
    return training_examples(plan.root, plan.trained_on(dataset), value.system) if dataset else None
