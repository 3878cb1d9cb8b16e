"""The demo's table 3, once on this machine and once through a Slurm of this machine; the same numbers, or an error.

    python tests/slurm/demo_on_slurm.py [--table pretraining_tasks/table3] [--scratch DIR]

The tests of this folder do it with the miniature, whose models are trained in seconds; this is the table itself, with the demo's
own data, models and steps, in two fresh copies of the project (10 to 20 minutes on two cores). Models, runs and metrics must be
the same bytes, and the table the same but for its costs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "workflow")]

from cluster import Cluster, why_not  # noqa: E402
from miniature import clone, copy_project, environment  # noqa: E402
from same_results import assert_same_results  # noqa: E402
from slurm_runs import TABLE, Run  # noqa: E402

PATIENCE = 4 * 3600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default=TABLE)
    parser.add_argument(
        "--scratch", type=Path, help="where the two copies are made (2 GB); by default where temporary files are"
    )
    arguments = parser.parse_args()
    if reason := why_not():
        sys.exit(f"no Slurm can be started here: {reason}")
    target = f"results/demo/tables/{arguments.table}.csv"
    scratch = Path(tempfile.mkdtemp(prefix="demo-on-slurm-", dir=arguments.scratch))
    cluster = Cluster()
    try:
        fresh = copy_project(scratch / "fresh")
        local, submitted = clone(fresh, scratch / "local"), clone(fresh, scratch / "slurm")
        start = time.monotonic()
        subprocess.run(["snakemake", "--cores", "2", target], cwd=local.folder, env=environment(), check=True)
        print(f"without Slurm: {time.monotonic() - start:.0f} s")
        cluster.start()
        start = time.monotonic()
        with Run(submitted, cluster, target) as run:
            assert run.ends(PATIENCE) == 0, run.text
        states = Counter(job.state for job in cluster.jobs(submitted.folder))
        told = ", ".join(f"{number} {state.lower()}" for state, number in sorted(states.items()))
        print(f"through Slurm: {time.monotonic() - start:.0f} s; jobs: {told}")
        assert_same_results(local, submitted)
        models = len(local.files("retrievers/**/*.safetensors"))
        runs = len(local.files("runs/**/*.trec.gz"))
        print(f"the same bytes: {models} models, {runs} runs and their metrics; the same table {arguments.table}")
    finally:
        cluster.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
