"""Check the question set beside this file, print its statistics, and keep those in README.md fresh (--write).

Exit status 1 and a line for every problem when something is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.benchmarks.made.question_set import check_question_set, statistics_table, update_readme


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "directory", type=Path, nargs="?", default=Path(__file__).parent, help="holds {train,dev,test}.json"
    )
    parser.add_argument("--corpus", type=Path, help="corpus directory: check that every context is one of its passages")
    parser.add_argument("--write", action="store_true", help="write the statistics into README.md")
    args = parser.parse_args()
    entries, problems = check_question_set(args.directory, args.corpus)
    table = statistics_table(entries)
    print(table)
    problems += update_readme(args.directory / "README.md", table, args.write)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    run_program(main)
