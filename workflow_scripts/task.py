"""Make a retrieval task: squad (ReQA from SQuAD v1.1), descriptions (from a corpus) or fanoutqa (page retrieval)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.cli import run_program
from pretrieve.errors import ConfigError
from pretrieve.tasks.descriptions import build_descriptions
from pretrieve.tasks.fanoutqa import build_fanoutqa
from pretrieve.tasks.squad_reqa import build_squad
from pretrieve.text.vocabulary import load_tokenizer


def parse_arguments() -> argparse.Namespace:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the scale")
    shared.add_argument("--out", type=Path, required=True, help="task directory to write")
    shared.add_argument(
        "--sizes",
        nargs="+",
        required=True,
        metavar="NAME=PART",
        help="share of the pool that trains, number of questions, or all that may: 1pct=0.01 1k=1000 full=all",
    )
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    squad = kinds.add_parser("squad", parents=[shared], help="ReQA from SQuAD v1.1 JSON")
    squad.add_argument("--train", type=Path, required=True, help="questions that may be used for training")
    squad.add_argument("--test", type=Path, required=True, help="questions that are always test")
    squad.add_argument("--dev", type=Path, help="questions kept apart for choosing hyper-parameters")
    squad.add_argument("--open", type=Path, metavar="CORPUS", help="whole passages, among all of this corpus")
    squad.add_argument("--max-extra", type=int, help="with --open: add only so many passages, drawn by the seed")
    squad.add_argument("--seed", type=int, default=1)
    descriptions = kinds.add_parser(
        "descriptions", parents=[shared], help="one-line description → first sentence of a lead"
    )
    descriptions.add_argument("--corpus", type=Path, required=True, help="directory of the corpus")
    descriptions.add_argument("--seed", type=int, default=1)
    descriptions.add_argument("--max-queries", type=int, help="draw at most so many articles")
    descriptions.add_argument("--open", action="store_true", help="add the sentences of the rest of the corpus")
    descriptions.add_argument("--max-extra", type=int, help="with --open: add only so many, drawn by the seed")
    fanoutqa = kinds.add_parser("fanoutqa", parents=[shared], help="questions → pages of the corpus, zero-shot")
    fanoutqa.add_argument("--questions", type=Path, required=True, help="dev or test file of FanOutQA")
    fanoutqa.add_argument("--corpus", type=Path, required=True, help="directory of the corpus")
    return parser.parse_args()


def parse_sizes(entries: list[str]) -> dict[str, float | str]:
    """``["1pct=0.01", "1k=1000", "full=all"]`` → ``{"1pct": 0.01, "1k": 1000.0, "full": "all"}``."""
    sizes: dict[str, float | str] = {}
    for entry in entries:
        name, _, wanted = entry.partition("=")
        try:
            value = wanted if wanted == "all" else float(wanted)
        except ValueError:
            raise ConfigError(
                f"--sizes: {entry!r} is not NAME=SHARE, NAME=NUMBER or NAME=all, such as 1pct=0.01."
            ) from None
        if not name or name in sizes:
            raise ConfigError(f"--sizes: {entry!r} has no name of its own; give each size once, such as 1pct=0.01.")
        sizes[name] = value
    return sizes


def main() -> None:
    args = parse_arguments()
    sizes, tokenizer = parse_sizes(args.sizes), load_tokenizer(args.tokenizer)
    if args.kind == "squad":
        files, more = (args.train, args.test, args.dev), (args.open, args.max_extra)
        statistics = build_squad(*files, tokenizer, args.out, sizes, args.seed, *more)
    elif args.kind == "descriptions":
        statistics = build_descriptions(
            args.corpus, tokenizer, args.out, sizes, args.seed, args.max_queries, args.open, args.max_extra
        )
    else:
        statistics = build_fanoutqa(args.questions, args.corpus, tokenizer, args.out, sizes)
    print(json.dumps(statistics))


if __name__ == "__main__":
    run_program(main)
