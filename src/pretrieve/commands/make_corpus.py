"""Any corpus → corpus.jsonl, for a comparison on a corpus of one's own: a folder of texts, a table, or a data set of the hub."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import named_values
from pretrieve.base.errors import ConfigError, nearest
from pretrieve.corpora.any_corpus import DOCUMENTS, Wanted, documents_of, source_of
from pretrieve.corpora.beir_documents import write_documents
from pretrieve.corpora.folder import SUFFIXES as TEXTS
from pretrieve.corpora.record_tables import NAMES
from pretrieve.corpora.record_tables import SUFFIXES as TABLES
from pretrieve.raw.raw_text import Warnings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        help=f"a folder of texts ({', '.join(TEXTS)}, subfolders too), tables ({', '.join(TABLES)}), or hub:OWNER/NAME[:CONFIG]",
    )
    parser.add_argument("--documents", default="files", choices=DOCUMENTS, help="what a document of texts is")
    columns = f"of a table: {', '.join(NAMES)}=NAME; or by usual names"
    parser.add_argument("--columns", nargs="*", default=[], metavar="WHAT=NAME", help=columns)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR/corpus.jsonl")


def main(args: argparse.Namespace) -> None:
    warnings = Warnings()
    columns = named_values(args.columns, "--columns")
    for what in columns:
        if what not in NAMES:
            raise ConfigError(f"--columns: {what!r} is not allowed; allowed: {', '.join(NAMES)}{nearest(what, NAMES)}")
    if args.out.suffix != ".jsonl":  # by another name it would be read as a table, or as packed
        raise ConfigError(f"--out {args.out}: expected a name that ends in .jsonl, such as DIR/corpus.jsonl.")
    source = source_of(args.place)
    # What an earlier call wrote into the folder would be read in place of the texts beside it.
    if args.out.resolve() in [file.resolve() for file in source.files]:
        raise ConfigError(f"--out {args.out}: is what would be read; remove or rename it, or give another file.")
    count = write_documents(args.out, documents_of(source, Wanted(args.documents, columns), warnings))
    for line in warnings.summary().splitlines():
        print(f"warning: {line}")
    print(f"{args.out}: {count:,} documents. Questions: queries.jsonl and qrels/test.tsv beside it.")
