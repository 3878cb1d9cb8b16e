"""Make a retrieval task: ReQA of questions, descriptions, FanOutQA's pages, or a collection's queries."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pretrieve.base.arguments import required
from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.made.descriptions import build_descriptions
from pretrieve.benchmarks.official.fanoutqa import build_fanoutqa
from pretrieve.benchmarks.official.multireqa import build_multireqa
from pretrieve.benchmarks.official.natural_questions import build_natural_questions
from pretrieve.benchmarks.official.squad_reqa import build_squad
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.splits import VALID_SHARE, parse_sizes
from pretrieve.text.vocabulary import load_tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared = argparse.ArgumentParser(add_help=False)
    required(shared, Path, tokenizer="tokenizer.json of the scale", out="task directory to write")
    shared.add_argument(
        "--sizes",
        nargs="+",
        required=True,
        metavar="NAME=PART",
        help="share of the pool that trains, number of questions, or all that may: 1pct=0.01 1k=1000 full=all",
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    squad = kinds.add_parser("squad", parents=[shared], help="ReQA from SQuAD v1.1 JSON")
    squad.add_argument("--train", type=Path, help="questions that may be used for training")
    squad.add_argument("--test", type=Path, help="questions that are always test")
    squad.add_argument("--dev", type=Path, help="questions kept apart for choosing hyper-parameters")
    squad.add_argument("--file", type=Path, help="in place of these: one file plays train, dev and test by a draw")
    natural = kinds.add_parser("natural-questions", parents=[shared], help="ReQA from Natural Questions")
    required(natural, Path, file="simplified or original JSON lines; plays every part")
    for questions in (squad, natural):
        questions.add_argument("--open", type=Path, metavar="CORPUS", help="whole passages, among all of this corpus")
        questions.add_argument("--max-extra", type=int, help="with --open: add only so many, drawn by the seed")
        questions.add_argument("--articles", action="store_true", help="with --open: whole articles, not passages")
        questions.add_argument("--seed", type=int, default=1)
    multireqa = kinds.add_parser("multireqa", parents=[shared], help="sentences of MultiReQA")
    required(
        multireqa, Path, candidates="candidates.json.gz of a data set and split", texts="MRQA's JSON lines of the same"
    )
    multireqa.add_argument("--role", default="test", help="test (all of it), train (all may train) or draw")
    multireqa.add_argument("--seed", type=int, default=1)
    descriptions = kinds.add_parser(
        "descriptions", parents=[shared], help="one-line description → first sentence of a lead"
    )
    required(descriptions, Path, corpus="directory of the corpus")
    descriptions.add_argument("--seed", type=int, default=1)
    descriptions.add_argument("--max-queries", type=int, help="draw at most so many articles")
    descriptions.add_argument("--open", action="store_true", help="add the sentences of the rest of the corpus")
    descriptions.add_argument("--max-extra", type=int, help="with --open: add only so many, drawn by the seed")
    fanoutqa = kinds.add_parser("fanoutqa", parents=[shared], help="questions → pages of the corpus, zero-shot")
    required(fanoutqa, Path, questions="dev or test file of FanOutQA", corpus="directory of the corpus")
    collection = kinds.add_parser("collection", parents=[shared], help="a collection directory, whole passages")
    required(collection, Path, collection="directory that `pretrieve collection` wrote")
    collection.add_argument("--seed", type=int, default=1)
    collection.add_argument("--title", default="none", help="none, prefix (in front of the text) or separate")
    collection.add_argument("--max-documents", type=int, help="keep the judged ones and draw the others up to so many")
    collection.add_argument("--test", help="official split that plays test (default: test, or else dev)")
    collection.add_argument("--valid-share", type=float, default=VALID_SHARE, help="of the queries that train")


def _squad(args: argparse.Namespace, tokenizer: Tokenizer, sizes: Mapping[str, float | str]) -> dict[str, Any]:
    files = {name: path for name in ("train", "test", "dev", "file") if (path := getattr(args, name)) is not None}
    if set(files) not in ({"file"}, {"train", "test"}, {"train", "test", "dev"}):
        raise ConfigError("squad needs --train and --test (and may have --dev), or --file alone.")
    return build_squad(files, tokenizer, args.out, sizes, args.seed, args.open, args.max_extra, args.articles)


def main(args: argparse.Namespace) -> None:
    sizes, tokenizer = parse_sizes(args.sizes), load_tokenizer(args.tokenizer)
    warnings = Warnings()
    if args.kind == "squad":
        statistics = _squad(args, tokenizer, sizes)
    elif args.kind == "natural-questions":
        more = (args.open, args.max_extra, warnings, args.articles)
        statistics = build_natural_questions(args.file, tokenizer, args.out, sizes, args.seed, *more)
    elif args.kind == "multireqa":
        files = (args.candidates, args.texts)
        statistics = build_multireqa(*files, tokenizer, args.out, sizes, args.role, args.seed, warnings)
    elif args.kind == "descriptions":
        statistics = build_descriptions(
            args.corpus, tokenizer, args.out, sizes, args.seed, args.max_queries, args.open, args.max_extra
        )
    elif args.kind == "collection":
        more = (args.title, args.max_documents, args.test, args.valid_share)
        statistics = build_collection_task(args.collection, tokenizer, args.out, sizes, args.seed, *more)
    else:
        statistics = build_fanoutqa(args.questions, args.corpus, tokenizer, args.out, sizes)
    if warnings.counts:
        print(f"warning: {warnings.summary()}")
    print(json.dumps(statistics))
