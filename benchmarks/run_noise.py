"""How far two runs of one configuration are apart: what ``make compare`` has to let through.

Runs that differ in their seed alone are compared cell by cell, every pair of them, as ``make compare`` does a fresh run with
the published one on another processor: differences in the standard errors of queries alone
(:func:`pretrieve.operations.publish.comparison.standard_error`), which would be 1 in the root of the mean square if the test
queries were all that is random. Seeds draw weights, order and masks anew; another processor only rounds otherwise.

    snakemake --cores all results/demo/tables/pretraining_tasks/table3.csv --config 'seeds=[1,2,3]'
    PYTHONPATH=src python benchmarks/run_noise.py --seeds 1 2 3

Prints a table and writes benchmarks/results/run_noise.json. Seconds; the run before it takes three times a table's time.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

import common

from pretrieve.operations.publish.comparison import NOISE, is_trained, standard_error
from pretrieve.references.tables import Table, load_table
from pretrieve.reporting.tables.filling import values_of
from pretrieve.reporting.tables.manifest import hardware
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan


def differences(table: Table, setting: Setting, seeds: Sequence[int]) -> dict[tuple[int, int], list[float]]:
    """Pair of seeds → the signed difference of each trained cell in standard errors; cells that are not measured are left out."""
    files, found = ResultFiles(), {}
    for pair in combinations(seeds, 2):
        one, other = (replace(setting, seeds=(seed,)) for seed in pair)
        found[pair] = []
        for cell in table.cells:
            if not is_trained(cell):
                continue
            ours, theirs = one.files_of(table, cell), other.files_of(table, cell)
            if not ours or not all(Path(path).is_file() for path in (*ours, *theirs)):
                continue
            there = fmean(values_of(cell, theirs, files))
            error = standard_error(cell, there, ours, files)
            # Without a hit in either run there is neither a difference nor noise.
            found[pair].append((fmean(values_of(cell, ours, files)) - there) / error if error else 0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="demo")
    parser.add_argument("--tables", nargs="+", default=["pretraining_tasks/table3"], metavar="PAPER/TABLE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=common.RESULTS / "run_noise.json")
    arguments = parser.parse_args()
    config = read_config() | {"scale": arguments.scale}
    plan = Plan.load(config)
    results, rows = {}, []
    for name in arguments.tables:
        paper = name.partition("/")[0]
        table = load_table(Path(f"references/{paper}/paper.yaml"), Path(f"references/{name}.csv"))
        for pair, errors in differences(table, Setting.of(plan.setting(paper)), arguments.seeds).items():
            if not errors:
                parser.error(f"{name}: no cell is measured with the seeds {pair[0]} and {pair[1]}: run snakemake first")
            far = [abs(error) for error in errors]
            of_pair = {
                "cells": len(errors),
                "deviation": round(fmean(error**2 for error in errors) ** 0.5, 3),
                "median": round(median(far), 3),
                "off": sum(error > NOISE for error in far),
                "furthest": round(max(far), 3),
            }
            results.setdefault(name, {})[f"{pair[0]} and {pair[1]}"] = of_pair
            rows.append([name, f"{pair[0]}, {pair[1]}", *of_pair.values()])
    head = ["table", "seeds", "cells", "deviation", "median", "off", "furthest"]
    common.table("differences between runs, in standard errors", head, rows)
    content = {"scale": arguments.scale, "cpu": hardware()["cpu"], "tables": results}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
