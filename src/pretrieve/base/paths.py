"""Where everything is: the one place that knows the layout of ``results/``.

Words used in names: an *encoder* is a pre-training recipe; a *protocol* is a fine-tuning recipe and a training-set size
(``reqa-1pct``); a *system* is ``{encoder}.{protocol}``; a *dataset* is a task; a *seed* is ``seed1`` … .
``root`` is ``results/{scale}`` throughout.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

#: What a task of queries and passages is, and one of examples.
TASK_FILES = ("corpus.parquet", "queries.parquet", "qrels.parquet", "splits.parquet", "stats.json")
TASK_FILES += ("passages/meta.json", "queries/meta.json")
EXAMPLE_FILES = ("texts.parquet", "examples.parquet", "splits.parquet", "stats.json", "texts/meta.json")


class System(NamedTuple):
    """A system's name taken apart: ``transformer-mlm.reqa-quarter-1pct`` → encoder, recipe, size."""

    encoder: str
    recipe: str
    size: str

    @property
    def name(self) -> str:
        return f"{self.encoder}.{self.recipe}-{self.size}"

    @property
    def family(self) -> str:
        """Encoder and recipe without the size: one fine-tuning job makes all sizes of a family."""
        return f"{self.encoder}.{self.recipe}"


def parse_system(name: str) -> System:
    """Take a system's name apart.

    >>> parse_system("transformer-mlm.reqa-quarter-1pct")
    System(encoder='transformer-mlm', recipe='reqa-quarter', size='1pct')
    """
    encoder, dot, protocol = name.partition(".")
    recipe, dash, size = protocol.rpartition("-")
    if not (encoder and dot and recipe and dash and size):
        raise ValueError(f"{name!r} is not a system name; expected ENCODER.RECIPE-SIZE such as bm25.reqa-1pct")
    return System(encoder, recipe, size)


def encoder_dir(root: str, encoder: str, seed: int | str) -> str:
    return f"{root}/encoders/{encoder}/seed{seed}"


def retriever_dir(root: str, system: str, dataset: str, seed: int | str) -> str:
    return f"{root}/retrievers/{system}/{dataset}/seed{seed}"


def embedding_dir(root: str, system: str, dataset: str, seed: int | str) -> str:
    return f"{root}/embeddings/{system}/{dataset}/seed{seed}"


def run_file(root: str, system: str, dataset: str, seed: int | str) -> str:
    return f"{root}/runs/{system}/{dataset}/seed{seed}.trec.gz"


def metrics_file(root: str, system: str, dataset: str, seed: int | str) -> str:
    return f"{root}/metrics/{system}/{dataset}/seed{seed}.json"


def negatives_file(root: str, source: str, dataset: str, seed: int | str) -> str:
    """Negatives for training on ``dataset``; ``source`` is ``bm25``, ``published`` (seed 0 both), or the system whose retriever
    found them."""
    return f"{root}/negatives/{source}/{dataset}/seed{seed}.jsonl.gz"


def predictions_file(root: str, system: str, dataset: str, seed: int | str) -> str:
    return f"{root}/predictions/{system}/{dataset}/seed{seed}.tsv.gz"


def cost_beside(file: str | Path) -> str:
    """The file beside a run, predictions or negatives with what they cost.

    >>> cost_beside("runs/bm25.x-x/questions/seed0.trec.gz")
    'runs/bm25.x-x/questions/seed0.cost.json'
    """
    return re.sub(r"\.(trec|jsonl|tsv)\.gz$", ".cost.json", str(file))


def task_dir(root: str, dataset: str) -> str:
    return f"{root}/tasks/{dataset}"


def corpus_dir(root: str, corpus: str) -> str:
    return f"{root}/corpora/{corpus}"


def overlap_file(root: str, corpus: str, dataset: str) -> str:
    """What the test texts of ``dataset`` share with a pre-training corpus."""
    return f"{root}/overlap/{corpus}/{dataset}/stats.json"


def table_file(root: str, paper: str, table: str, extension: str = "csv") -> str:
    return f"{root}/tables/{paper}/{table}.{extension}"


def figure_file(root: str, paper: str, figure: str, extension: str = "svg") -> str:
    return f"{root}/figures/{paper}/{figure}.{extension}"


def analysis_file(root: str, analysis: str) -> str:
    return f"{root}/analyses/{analysis}.csv"


def cost_files(
    root: str, system: str, dataset: str, trained_on: str, seed: int | str, examples: bool = False
) -> dict[str, str]:
    """Stage → the JSON file with its cost, for the stages that made one system's score on one dataset.

    BM25 is one search; everything else is pre-trained, fine-tuned on ``trained_on``, and embeds and searches ``dataset``, or
    predicts its ``examples``. What the fine-tuning was given (another retriever, negatives, a teacher) stands in its file.
    """
    search = {"search": cost_beside(run_file(root, system, dataset, seed))}
    if parse_system(system).encoder == "bm25":
        return search
    scored = {"embed": f"{embedding_dir(root, system, dataset, seed)}/cost.json", **search}
    if examples:
        scored = {"predict": cost_beside(predictions_file(root, system, dataset, seed))}
    return {
        "pretrain": f"{encoder_dir(root, parse_system(system).encoder, seed)}/cost.json",
        "finetune": f"{retriever_dir(root, system, trained_on, seed)}/cost.json",
        **scored,
    }
