"""Measure a sentence-transformers directory with mteb, on tasks by name and on folders in BEIR's layout."""

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from pretrieve.base.arguments import add_threads, ending_in, required, required_lists
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json, write_text
from pretrieve.reporting.tables.rows import to_markdown_text

#: Largest difference between mteb's numbers and this project's.
SAME = 1e-4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, model="an exported retriever, or any directory of sentence-transformers")
    required_lists(parser, str, tasks="folders, tasks of mteb such as NanoSciFactRetrieval, or NanoBEIR")
    parser.add_argument("--check", action="store_true", help="compute the numbers of folders here too, and compare")
    parser.add_argument("--out", type=ending_in(".json"), help="NAME.json; NAME.md is written next to it")
    add_threads(parser)


def main(options: argparse.Namespace) -> None:
    if all(Path(task).is_dir() for task in options.tasks):
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when mteb is imported; nothing is needed from outside
    import warnings

    import torch

    warnings.filterwarnings("ignore", category=FutureWarning)  # of mteb's own calls
    from pretrieve.evaluation.mteb_evaluation import evaluate_by_mteb
    from pretrieve.retrieval.deployment import is_deployed, read_settings

    kind = read_settings(options.model).kind if is_deployed(options.model) else "dense"
    if kind == "bm25":
        raise ConfigError(
            f"--model {options.model}: searches by BM25 alone and has no encoder, which is what mteb measures; expected one that "
            "has: docs/your-own-corpus.md says how another row is exported."
        )
    torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = evaluate_by_mteb(options.model, options.tasks, options.check, device)
    table = table_of(found)
    if kind == "hybrid":
        print(f"{options.model}: searches by BM25 and its encoder; these are the numbers of the encoder alone.")
    if options.out:
        from importlib.metadata import version

        packages = {name: version(name) for name in ("mteb", "sentence-transformers")}
        record = {"model": str(options.model), "packages": packages, "results": [asdict(one) for one in found]}
        write_json(options.out, record)
        write_text(options.out.with_suffix(".md"), table)
    print(table, end="")
    for one in found:
        for metric, value in one.own.items():
            if abs(value - one.scores[metric]) > SAME:
                raise DataError(
                    f"{one.task}: {metric} is {one.scores[metric]:.5f} by mteb and {value:.5f} here; expected a difference of "
                    f"{SAME} at most. Tied documents, which the two may order differently, can cause a larger one."
                )


def table_of(found) -> str:
    """Markdown: a row for each task, and one more for the numbers that were computed here."""
    metrics = list(found[0].scores)
    lines = [f"| task | by | {' | '.join(metrics)} |", f"|---|---|{'---:|' * len(metrics)}"]
    for one in found:
        for by, scores in (("mteb", one.scores), ("pretrieve", one.own)):
            if scores:
                task = to_markdown_text(one.task).replace("|", "\\|")
                lines.append(f"| {task} | {by} | {' | '.join(f'{scores[metric]:.4f}' for metric in metrics)} |")
    return "\n".join(lines) + "\n"
