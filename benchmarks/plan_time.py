"""How long Snakemake takes to plan, and how much memory: what the limits of one run come from (docs/faults.md, "Many seeds").

    PYTHONPATH=src python benchmarks/plan_time.py

Dry runs in an empty folder, so that everything is planned: each scale, the demo with up to 100 seeds, table 3 with up to 1,000,
and 1,000 more data sets. The first in a checkout also reads all modules, which takes a second (``remember``).
Processor time, for the clock says little on a shared machine. Prints a table and writes benchmarks/results/plan_time.json.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from pretrieve.reporting.tables.manifest import hardware

ROOT = Path(__file__).resolve().parents[1]
ONE_TABLE = ["tables=[pretraining_tasks/table3]", "figures=[]"]
SETS = 1000


def planned(*settings: str) -> dict[str, float]:
    """One dry run with settings of ``--config`` and options behind them: jobs, seconds of processor time, GB of memory."""
    snakemake = [str(Path(sys.executable).with_name("snakemake")), "-n", "--quiet", "rules"]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as printed:
        words = [*snakemake, "--snakefile", str(ROOT / "Snakefile"), "--config", *settings]
        process = subprocess.Popen(words, cwd=folder, stdout=printed)
        _, status, used = os.wait4(process.pid, 0)
        printed.seek(0)
        totals = re.findall(r"^total +(\d+)$", printed.read(), flags=re.MULTILINE)
    if status:
        raise SystemExit(f"snakemake ended with {os.waitstatus_to_exitcode(status)}")
    seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6
    return {"jobs": int(totals[-1]), "seconds": round(seconds, 1), "GB": round(memory, 2)}


def main() -> None:
    found = {scale: planned(f"scale={scale}") for scale in ("demo", "small", "paper")}
    for what, numbers, settings in (("demo", (30, 100), []), ("table 3", (10, 100, 1000), ONE_TABLE)):
        for seeds in numbers:
            words = ",".join(map(str, range(1, seeds + 1)))
            found[f"{what}, {seeds} seeds"] = planned(f"seeds=[{words}]", *settings)
    dataset = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))["datasets"]["questions"]
    files = {part: str(ROOT / file) for part, file in dataset["files"].items()}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        more = {f"more{number}": {**dataset, "files": dict(files)} for number in range(SETS)}
        yaml.safe_dump({"datasets": more}, file)
        file.flush()
        found[f"table 3, {SETS} more data sets"] = planned(*ONE_TABLE, "--configfile", file.name)
    for name, numbers in found.items():
        print(f"{name:<30}{numbers['jobs']:>8,} jobs {numbers['seconds']:>7.1f} s {numbers['GB']:>6.2f} GB")
    result = {"hardware": hardware(), "cases": found}
    (ROOT / "benchmarks/results/plan_time.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
