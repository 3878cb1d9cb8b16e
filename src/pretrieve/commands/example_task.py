"""Make a task without retrieval, from the project's own data or from a benchmark's official files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.arguments import json_object, named_values, required
from pretrieve.benchmarks.made.link_clicks import build_link_clicks
from pretrieve.benchmarks.made.question_entailment import build_question_entailment
from pretrieve.benchmarks.made.section_triplets import build_section_triplets
from pretrieve.benchmarks.made.structure_sts import build_structure_sts
from pretrieve.benchmarks.official.example_readers import READERS, build_official
from pretrieve.tasks.example_splits import parse_sizes
from pretrieve.text.vocabulary import load_tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared = argparse.ArgumentParser(add_help=False)
    required(shared, Path, tokenizer="tokenizer.json of the scale", out="task directory to write")
    shared.add_argument("--seed", type=int, default=1)
    shared.add_argument(
        "--sizes",
        nargs="+",
        required=True,
        metavar="NAME=SIZE",
        help="a share of the training part, a number of examples, or all: 10pct=0.1 500=500 full=all",
    )
    from_corpus = argparse.ArgumentParser(add_help=False)
    required(from_corpus, Path, corpus="directory of the corpus")
    from_corpus.add_argument("--max-examples", type=int, help="draw at most so many")
    kinds = parser.add_subparsers(dest="kind", required=True)
    triplets = kinds.add_parser(
        "section-triplets", parents=[shared, from_corpus], help="sentences of one section or another"
    )
    triplets.add_argument("--per-article", type=int, default=100, help="anchors of one article, at most")
    kinds.add_parser("structure-sts", parents=[shared, from_corpus], help="relatedness from where two sentences stand")
    entailment = kinds.add_parser(
        "question-entailment", parents=[shared], help="does a sentence answer a question (as QNLI)"
    )
    required(entailment, Path, train="SQuAD v1.1 JSON", test="")
    entailment.add_argument("--dev", type=Path)
    clicks = kinds.add_parser(
        "link-clicks", parents=[shared, from_corpus], help="hyperlinks in the form of news clicks"
    )
    clicks.add_argument("--candidates", type=int, default=20, help="of one impression")
    clicks.add_argument("--first", type=int, default=3, help="titles in the first history")
    clicks.add_argument("--lead-words", type=int, default=30, help="words of a lead in a candidate's text")
    official = argparse.ArgumentParser(add_help=False)
    official.add_argument("--files", nargs="+", required=True, metavar="NAME=PATH", help="plain, gzip or bzip2")
    official.add_argument("--counts", choices=("official", "any"), default="official", help="any: parts of the files")
    official.add_argument("--options", type=json_object, default={}, metavar="JSON", help="of the reader")
    for name, reader in READERS.items():
        files = ", ".join(f"{key} ({file})" for key, file in reader.files.items())
        kinds.add_parser(name, parents=[shared, official], help=f"official files: {files}")


def main(args: argparse.Namespace) -> None:
    sizes, tokenizer = parse_sizes(args.sizes), load_tokenizer(args.tokenizer)
    common = (tokenizer, args.out, sizes, args.seed)
    if args.kind in READERS:
        files = {name: Path(path) for name, path in named_values(args.files, "--files").items()}
        statistics = build_official(args.kind, files, *common, counts=args.counts, options=args.options)
    elif args.kind == "section-triplets":
        statistics = build_section_triplets(args.corpus, *common, args.per_article, args.max_examples)
    elif args.kind == "structure-sts":
        statistics = build_structure_sts(args.corpus, *common, args.max_examples)
    elif args.kind == "question-entailment":
        statistics = build_question_entailment(args.train, args.test, args.dev, *common)
    else:
        statistics = build_link_clicks(
            args.corpus, *common, args.candidates, args.first, args.lead_words, args.max_examples
        )
    print(json.dumps(statistics))
