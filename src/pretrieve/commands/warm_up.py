"""After installation: compile what compiles at first use (ranx's metrics, about 15 s), so that no job waits for it."""

import argparse
import time

import numpy as np

from pretrieve.evaluation.metrics import evaluate
from pretrieve.retrieval.trec_run import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def main(options: argparse.Namespace) -> None:
    begun = time.monotonic()
    run = Run(["q"], [["a", "b"]], [np.array([2.0, 1.0], dtype=np.float32)])
    evaluate(run, {"q": {"a": 1}}, ["recall@1", "recall@5", "mrr@10", "ndcg@10"])
    print(f"ranx's metrics are compiled ({time.monotonic() - begun:.0f} s)")
