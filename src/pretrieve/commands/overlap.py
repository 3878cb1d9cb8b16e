"""Measure which articles of a corpus hold paragraphs of a test set, and write their titles for `exclude` of a corpus."""

import argparse
import json
from pathlib import Path

from pretrieve.base.arguments import required
from pretrieve.corpora.contamination import SHARE, measure_overlap, write_overlap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, corpus="directory of the corpus", test="task, collection, or file in SQuAD's layout")
    parser.add_argument("--share", type=float, default=SHARE, help="of a paragraph's 8-grams that an article must have")
    required(parser, Path, out="JSON with the numbers")
    parser.add_argument("--titles", type=Path, help="file for the titles of the articles that overlap")


def main(arguments: argparse.Namespace) -> None:
    numbers, titles = measure_overlap(arguments.corpus, arguments.test, arguments.share)
    write_overlap(numbers, titles, arguments.out, arguments.titles)
    print(json.dumps(numbers))
