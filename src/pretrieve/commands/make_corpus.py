"""A folder of plain-text and Markdown files → corpus.jsonl, for a comparison on a corpus of one's own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pretrieve.corpora.beir_writing import DOCUMENTS, folder_documents, write_documents
from pretrieve.raw.raw_text import Warnings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="with files .txt, .md and .markdown, in any depth")
    parser.add_argument("--documents", default="files", help=f"what a document is: {' or '.join(DOCUMENTS)}")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR/corpus.jsonl")


def main(args: argparse.Namespace) -> None:
    sys.stdout.reconfigure(errors="backslashreplace")  # a path may be of bytes that no text has
    warnings = Warnings()
    count = write_documents(args.out, folder_documents(args.folder, args.documents, warnings))
    if warnings.counts:
        print(f"warning: {warnings.summary()}")
    print(f"{args.out}: {count:,} documents. Questions: queries.jsonl and qrels/test.tsv beside it.")
