"""Estimate what tables cost before anything runs: jobs, GPU hours, disk, download, and wall time on N GPUs.

make estimate SCALE=paper TABLE=condenser/table5 GPUS=8. Rates are measured here in half a minute, or read with --rates; for a GPU
that is not in this machine, --gpu names its kind. --measure writes the rates of the machine it runs on.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pretrieve.base.arguments import add_run
from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.files import write_json
from pretrieve.operations.estimate import report
from pretrieve.operations.estimate.jobs import Graph
from pretrieve.operations.estimate.machines import MFU, Machines, Rates, assumed_gpu, needs_of, read_rates, usable_cores
from pretrieve.operations.estimate.sizes import Sizes, count_lines, read_counts
from pretrieve.operations.estimate.work import Workload
from pretrieve.raw.mirror import candidates, check_mirror, is_in_place, mirror_folder
from pretrieve.raw.sources import Source, read_sources
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_resources import MOST_GPUS, column_of
from pretrieve.workflow.plan import SOURCES, Plan

#: Cores that a node has for each GPU, where none are named.
CORES_OF_A_GPU = 8
#: GPUs at the scale that nobody runs without.
PAPER_GPUS = 8
USUAL_GPU = "a100"
LARGEST = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--gpus", type=int, help=f"0: everything on cores; default: {PAPER_GPUS} at the scale paper, else 0"
    )
    parser.add_argument("--gpus-per-job", type=int, default=MOST_GPUS, help="at most, even if a stage asks for more")
    parser.add_argument("--cores", type=int, help=f"of this machine, or {CORES_OF_A_GPU} for each GPU, unless given")
    parser.add_argument("--gpu", help=f"kind of GPU, where none is measured; {USUAL_GPU} if there is none here")
    mfu = f"share of its peak that training is assumed to reach, where none is measured; {MFU}, unless given"
    parser.add_argument("--mfu", type=float, help=mfu)
    parser.add_argument(
        "--rates", type=Path, nargs="*", default=[], help="files of rates that --measure wrote: of a core, of a GPU"
    )
    parser.add_argument("--measure", type=Path, metavar="FILE", help="write this machine's rates, and do nothing else")
    parser.add_argument(
        "--compare", type=Path, metavar="DIR", help="results of a finished run: expected against measured"
    )
    parser.add_argument(
        "--counts", action="store_true", help="print lines of resources/counts.tsv for what has been counted"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the estimate as JSON, too")


def measured(plan: Plan, core: bool = False) -> Rates:
    """This machine's rates, by :func:`.calibrate.measure_scale`."""
    from pretrieve.operations.estimate.calibrate import measure_scale

    return measure_scale(plan.scale, core)


def machines_of(arguments: argparse.Namespace, plan: Plan) -> Machines:
    """Cores and GPUs: from files, measured here, or assumed."""
    if arguments.gpus < 0 or arguments.gpus_per_job < 1 or (arguments.cores is not None and arguments.cores < 1):
        raise ConfigError(
            f"--gpus {arguments.gpus} --gpus-per-job {arguments.gpus_per_job} --cores {arguments.cores}: expected 0 or more "
            "GPUs, and 1 or more of the others."
        )
    known = {rates.device: rates for rates in map(read_rates, arguments.rates)}
    for option, value in (("--gpu", arguments.gpu), ("--mfu", arguments.mfu)):
        if value is not None and not arguments.gpus:
            raise ConfigError(f"{option} {value}: without GPUs it changes nothing; give --gpus N, too.")
        if value is not None and "cuda" in known:
            raise ConfigError(f"{option} {value}: --rates has a GPU, {known['cuda'].machine}; leave one of them out.")
    if "cpu" not in known:
        print("measuring this machine …", file=sys.stderr, flush=True)
        known["cpu"] = measured(plan, core=True)
    gpu = known.get("cuda")
    if arguments.gpus and gpu is None:
        from torch.cuda import is_available

        given = arguments.gpu is not None or not is_available()
        if not given and arguments.mfu is not None:
            raise ConfigError(f"--mfu {arguments.mfu}: the GPU of this machine is measured; give --gpu KIND, too.")
        mfu = MFU if arguments.mfu is None else arguments.mfu
        gpu = assumed_gpu(arguments.gpu or USUAL_GPU, known["cpu"], mfu) if given else measured(plan)
    cores = arguments.cores or (CORES_OF_A_GPU * arguments.gpus if arguments.gpus else usable_cores())
    gpu, needs = gpu if arguments.gpus else None, needs_of(plan.config)
    return Machines(known["cpu"], gpu, arguments.gpus, cores, needs, arguments.gpus_per_job)


def in_place(plan: Plan, mirror: Path | None, sources: Mapping[str, Source]) -> Callable[[str], bool]:
    """Whether a source needs no download, by name and size alone."""

    @cache
    def is_there(name: str) -> bool:
        source, target = sources[name], Path(plan.source_file(name))
        return is_in_place(source, target) or any(one.may_have(source.bytes) for one in candidates(source, mirror))

    return is_there


def main(arguments: argparse.Namespace) -> None:
    config, scale = read_config(words=[f"scale={arguments.scale}", *arguments.config]), arguments.scale
    if scale not in config["scales"]:
        raise ConfigError(f"scale {scale!r}: allowed: {', '.join(config['scales'])}{nearest(scale, config['scales'])}")
    if arguments.compare and not arguments.compare.is_dir():
        raise ConfigError(f"--compare {arguments.compare}: no such folder; expected results/SCALE of a finished run.")
    check_mirror(config)
    plan = Plan.load(config)
    if arguments.gpus is None:
        arguments.gpus = PAPER_GPUS if column_of(plan.config) == "paper" else 0
    graph = Graph(plan)
    targets = {name: graph.table(name) for name in arguments.tables or plan.config["tables"]}
    if arguments.measure:
        rates = measured(plan)
        rates.write(arguments.measure)
        print(f"{arguments.measure}: {rates.machine}")
        return
    sources = read_sources(SOURCES)
    root = str(arguments.compare) if arguments.compare else plan.root
    sizes = Sizes(plan, sources, read_counts(), root)
    if arguments.counts:
        print("\n".join(count_lines(sizes)))
        return
    machines = machines_of(arguments, plan)
    is_there = in_place(plan, mirror_folder(plan.config), sources)
    estimate = report.Estimate(Workload(graph, sizes, *machines.budgets), machines, is_there)
    if arguments.compare:
        print(report.comparison(report.compare(estimate, root)))
        return
    lines = [estimate.line(name, [job]) for name, job in targets.items()]
    wanted_jobs = list(targets.values()) if arguments.tables else graph.everything()
    total = estimate.line("total, shared stages once", wanted_jobs)
    said = report.assumptions(machines, sizes)
    where = f"{machines.cores} cores, no GPU" if machines.gpu is None else f"{machines.gpus} GPUs"
    print(f"Scale {arguments.scale}, seeds {', '.join(map(str, plan.seeds))}, {where}")
    print(report.table_of(lines, total))
    print("\nLongest jobs:")
    for job, seconds in estimate.largest(wanted_jobs, LARGEST):
        print(f"  {report.hours(seconds / 3600):>9}  {job.name}")
    print("\n" + report.table_of_stages(estimate, wanted_jobs))
    print("\n" + "\n".join(f"- {one}" for one in said))
    if arguments.json:
        write_json(arguments.json, report.as_json(lines, total, machines, said))
