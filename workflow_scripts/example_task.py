"""Make a task without retrieval: from the project's own data (section-triplets, structure-sts, question-entailment,
link-clicks), or from a benchmark's official files (sts-b, mnli-matched, mnli-mismatched, qqp, qnli, sst-2, mind-large,
mind-small, wiki-sections)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.base.program import run_program
from pretrieve.benchmarks.made.link_clicks import build_link_clicks
from pretrieve.benchmarks.made.question_entailment import build_question_entailment
from pretrieve.benchmarks.made.section_triplets import build_section_triplets
from pretrieve.benchmarks.made.structure_sts import build_structure_sts
from pretrieve.benchmarks.official.example_readers import READERS, build_official
from pretrieve.tasks.example_splits import parse_sizes
from pretrieve.text.vocabulary import load_tokenizer


def parse_arguments() -> argparse.Namespace:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the scale")
    shared.add_argument("--out", type=Path, required=True, help="task directory to write")
    shared.add_argument("--seed", type=int, default=1)
    shared.add_argument(
        "--sizes",
        nargs="+",
        required=True,
        metavar="NAME=SIZE",
        help="a share of the training part, a number of examples, or all: 10pct=0.1 500=500 full=all",
    )
    from_corpus = argparse.ArgumentParser(add_help=False)
    from_corpus.add_argument("--corpus", type=Path, required=True, help="directory of the corpus")
    from_corpus.add_argument("--max-examples", type=int, help="draw at most so many")
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    triplets = kinds.add_parser(
        "section-triplets", parents=[shared, from_corpus], help="sentences of one section or another"
    )
    triplets.add_argument("--per-article", type=int, default=100, help="anchors of one article, at most")
    kinds.add_parser("structure-sts", parents=[shared, from_corpus], help="relatedness from where two sentences stand")
    entailment = kinds.add_parser(
        "question-entailment", parents=[shared], help="does a sentence answer a question (as QNLI)"
    )
    entailment.add_argument("--train", type=Path, required=True, help="SQuAD v1.1 JSON")
    entailment.add_argument("--test", type=Path, required=True)
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
    official.add_argument("--options", default="{}", metavar="JSON", help="of the reader")
    for name, reader in READERS.items():
        files = ", ".join(f"{key} ({file})" for key, file in reader.files.items())
        kinds.add_parser(name, parents=[shared, official], help=f"official files: {files}")
    return parser.parse_args()


def parse_files(entries: list[str]) -> dict[str, Path]:
    """``["train=a.tsv", "dev=b.tsv"]`` → ``{"train": Path("a.tsv"), "dev": Path("b.tsv")}``."""
    files: dict[str, Path] = {}
    for entry in entries:
        name, _, path = entry.partition("=")
        if not name or not path or name in files:
            raise ConfigError(f"--files: {entry!r} is not NAME=PATH with a name of its own, such as train=train.tsv.")
        files[name] = Path(path)
    return files


def parse_options(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        options = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--options: {text!r} is not JSON: {error}.") from None
    if not isinstance(options, dict):
        raise ConfigError(f"--options: {text!r} is {type(options).__name__}; expected a JSON object.")
    return options


def main() -> None:
    args = parse_arguments()
    sizes, tokenizer = parse_sizes(args.sizes), load_tokenizer(args.tokenizer)
    common = (tokenizer, args.out, sizes, args.seed)
    if args.kind in READERS:
        files, options = parse_files(args.files), parse_options(args.options)
        statistics = build_official(args.kind, files, *common, counts=args.counts, options=options)
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


if __name__ == "__main__":
    run_program(main)
