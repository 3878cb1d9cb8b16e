"""Count the pairs of ICT, BFS and WLP and measure their lengths."""

import argparse
from pathlib import Path

import numpy as np

from pretrieve.base.arguments import required
from pretrieve.base.files import write_json
from pretrieve.pretraining.objectives import PAIR_TASKS, pair_task
from pretrieve.pretraining.pairs.pair import PairSampler
from pretrieve.text.packing import passage_spans
from pretrieve.text.token_store import TokenStore

#: Pairs that lengths are measured on.
SAMPLE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, store="")
    required(parser, float, ict_keep="")
    required(parser, Path, out="")


def main(arguments: argparse.Namespace) -> None:
    store, statistics = TokenStore(arguments.store), {}
    for name in PAIR_TASKS:
        options = (arguments.ict_keep,) if name == "ict" else ()
        statistics[name] = pair_statistics(store, pair_task(name)(store, *options))
    write_json(arguments.out, statistics)
    for name, values in statistics.items():
        print(name, values)


def pair_statistics(store: TokenStore, sampler: PairSampler, seed: int = 0, sample: int = SAMPLE) -> dict[str, float]:
    """``pairs`` (counted), mean word pieces of ``query_tokens`` and ``doc_tokens`` (over a million drawn pairs, without
    special tokens and before cutting to a length), and ``tokens`` = pairs × (query + document), which is how the
    first column of table 1 of paper ``pretraining_tasks`` relates to its others."""
    pairs = sampler.sample(np.random.default_rng([seed, 104]), sample)
    sentence = np.diff(np.asarray(store.sentence_starts))
    title = np.diff(np.asarray(store.title_starts))
    query = sentence[pairs.query].mean()
    document = passage_spans(store, pairs.passage)[1].astype(np.float64)
    document -= np.where(pairs.dropped >= 0, sentence[np.maximum(pairs.dropped, 0)], 0)
    if pairs.titled.any():
        document += np.where(pairs.titled, title[store.passage_article()[pairs.passage]], 0)
    total = sampler.n_pairs * (query + document.mean())
    return {
        "pairs": sampler.n_pairs,
        "query_tokens": round(float(query), 2),
        "doc_tokens": round(float(document.mean()), 2),
        "tokens": round(float(total)),
    }
