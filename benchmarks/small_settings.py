"""How the rate of pre-training at the scale ``small`` was chosen: a grid on the dev questions, one rate for all objectives.

The rule of ``demo_settings.py``, with less of everything: each rate pre-trains ICT+BFS+WLP and MLM with the scale's own steps,
fine-tunes both on 5 % of the training questions of SQuAD as ReQA, and scores the *dev* questions, which no table uses:
recall@100 over all candidates. The rate with the highest mean is the scale's.

    snakemake results/small/corpora/wikipedia-small/tokens/meta.json results/small/tasks/squad-reqa/stats.json \\
        --cores all --config scale=small mirror=DIR
    PYTHONPATH=src python benchmarks/small_settings.py [--only RATE ...]

Prints a table and adds to benchmarks/results/small_settings.json. About 35 minutes for each rate on one core.
"""

import argparse
from pathlib import Path

from demo_settings import add_result, run_setting, with_changes

from pretrieve.tasks.dataset import Dataset
from pretrieve.text.token_store import TokenStore
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.scales import at_scale

ROWS = ("transformer-ict-bfs-wlp", "transformer-mlm")
TASK, SIZE = "squad-reqa", "5pct"
RATES = ("5e-5", "1e-4", "2e-4", "5e-4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=RATES, default=RATES)
    parser.add_argument("--root", type=Path, default=Path("results/small"))
    parser.add_argument("--seed", type=int, default=11, help="not a seed of the tables")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/small_settings.json"))
    arguments = parser.parse_args()
    config = at_scale(read_config() | {"scale": "small"})
    store = TokenStore(arguments.root / "corpora/wikipedia-small/tokens")
    tasks = {TASK: Dataset(arguments.root / "tasks" / TASK)}
    known: dict = {}
    for rate in arguments.only:
        changes = {"pretraining.budgets.pairs.learning_rate": float(rate)}
        outcome = run_setting(with_changes(config, changes), ROWS, store, tasks, arguments.seed, known, sizes=(SIZE,))
        add_result(arguments.out, rate, changes, outcome)


if __name__ == "__main__":
    main()
