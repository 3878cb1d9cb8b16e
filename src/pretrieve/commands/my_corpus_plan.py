"""Choose rows, steps and seeds of a run on a corpus of one's own, so that it takes the minutes that are given.

It measures this machine for half a minute, prints the plan, and writes it as a file for snakemake --configfile.
"""

import argparse
from functools import cache, partial
from pathlib import Path

import torch
import yaml

from pretrieve.base.arguments import json_object, required
from pretrieve.base.files import write_json, write_text
from pretrieve.operations.estimate.calibrate import measure_scale
from pretrieve.operations.estimate.machines import Machines, needs_of, read_rates, usable_cores
from pretrieve.operations.estimate.my_corpus import PLANNED, Amount, Forecast, choose, forecast_of, rungs, said
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.my_corpus import configured, looked_at
from pretrieve.workflow.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, str, scale="", folder="as my_corpus of the configuration")
    required(parser, json_object, options="JSON of my_corpus_options")
    required(parser, float, minutes="that the run may take")
    parser.add_argument("--cores", type=int, default=0, help="all that this process may use, unless given")
    parser.add_argument("--rates", type=Path, nargs="*", default=[], help="measured before: of a core, of a GPU")
    required(parser, Path, out="YAML: the plan", timetable="JSON: what each job is expected to take")


def main(arguments: argparse.Namespace) -> None:
    options = arguments.options
    config = read_config(words=[f"scale={arguments.scale}"]) | {"my_corpus": arguments.folder}
    folder = looked_at(config | {"my_corpus_options": options})

    def plan_of(amount: Amount) -> Plan:
        return Plan.load(configured(config | {"my_corpus_options": amount.of(options)}, folder))

    whole = plan_of(Amount(len(options["objectives"]), 1, True))
    options = options | {"objectives": [name for name in options["objectives"] if name in whole.config["encoders"]]}
    machines = _machines(whole, arguments)
    forecast = cache(lambda amount: forecast_of(plan_of(amount), machines))
    can_rerank = bool(options["rerank"]) and whole.config["my_corpus_found"]["reranks"]
    ladder = rungs(options, len(options["objectives"]), can_rerank)
    fits = partial(choose, ladder, forecast)
    amount, found = fits(60 * arguments.minutes * PLANNED)
    _print(arguments, options, machines, amount, found)
    for more in (2, 4):
        richer, longer = fits(60 * more * arguments.minutes * PLANNED)
        if richer != amount:
            print(f"  MINUTES={more * arguments.minutes:g} would give {said(richer, longer, options)}")
    own = {"objectives", "seeds", "rerank", "budgets", "finetuning", "reranker"}
    made = {key: value for key, value in amount.of(options).items() if key in own}
    write_text(arguments.out, yaml.safe_dump({"my_corpus_options": made | {"timetable": str(arguments.timetable)}}))
    write_json(arguments.timetable, {"places": machines.gpus or machines.cores, "jobs": dict(found.jobs)})


def _machines(plan: Plan, arguments: argparse.Namespace) -> Machines:
    known = {rates.device: rates for rates in map(read_rates, arguments.rates)}
    cores = arguments.cores or usable_cores()
    cpu = known.get("cpu") or measure_scale(plan.scale, core=True, cores=cores)
    gpu = known.get("cuda") or (measure_scale(plan.scale) if torch.cuda.is_available() else None)
    return Machines(cpu, gpu, int(gpu is not None), cores, needs_of(plan.config))


def _print(arguments: argparse.Namespace, options: dict, machines: Machines, amount: Amount, found: Forecast) -> None:
    rates = machines.gpu or machines.cpu
    where = "1 GPU" if machines.gpu is not None else f"{machines.cores} cores"
    print(
        f"Plan for {arguments.minutes:g} minutes on {where} ({rates.machine}, {rates.train / 1e9:,.0f} GFLOP/s in training)"
    )
    for label, seconds in found.rows:
        print(f"  {label:<40} {seconds / 60:6.1f} min of one {'GPU' if machines.gpu is not None else 'core'}")
    print(f"  hybrids of BM25 with each of them, the table\n  {said(amount, found, options)}")
    if found.seconds > 60 * arguments.minutes:
        print(f"  This is the least, and it does not fit into {arguments.minutes:g} minutes.")
