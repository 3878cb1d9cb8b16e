"""Judge the papers' claims by what was measured: claims.csv, claims.groups.csv and claims.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.cli import run_program
from pretrieve.files import whole_file
from pretrieve.reporting.claims import load_claims
from pretrieve.reporting.ledger import Comparison, Finding, to_comparisons, to_findings, to_markdown
from pretrieve.reporting.measured import Measurements
from pretrieve.reporting.rows import write_rows
from pretrieve.reporting.verdicts import judge_claim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=Path, required=True, metavar="YAML", help="references/claims.yaml")
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER", help="of the scale: results/demo")
    parser.add_argument("--scale", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    for kind in ("csv", "groups", "md"):
        parser.add_argument(f"--{kind}", type=Path, required=True, metavar="FILE", help="output")
    args = parser.parse_args()
    measurements = Measurements(args.results, args.seeds)
    verdicts = [judge_claim(claim, measurements) for claim in load_claims(args.claims)]
    findings = to_findings(verdicts, args.scale)
    write_rows(args.groups, to_comparisons(verdicts), Comparison)
    with whole_file(args.md) as stream:
        stream.write(to_markdown(findings, args.scale).encode())
    write_rows(args.csv, findings, Finding)


if __name__ == "__main__":
    run_program(main)
