"""Measure which articles of a corpus hold paragraphs of a test set, and write their titles for `exclude` of a corpus."""

import argparse
import json
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.corpora.contamination import SHARE, measure_overlap, write_overlap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="directory of the corpus")
    parser.add_argument("--test", type=Path, required=True, help="task, collection, or file in SQuAD's layout")
    parser.add_argument("--share", type=float, default=SHARE, help="of a paragraph's 8-grams that an article must have")
    parser.add_argument("--out", type=Path, required=True, help="JSON with the numbers")
    parser.add_argument("--titles", type=Path, help="file for the titles of the articles that overlap")
    arguments = parser.parse_args()
    numbers, titles = measure_overlap(arguments.corpus, arguments.test, arguments.share)
    write_overlap(numbers, titles, arguments.out, arguments.titles)
    print(json.dumps(numbers))


if __name__ == "__main__":
    run_program(main)
