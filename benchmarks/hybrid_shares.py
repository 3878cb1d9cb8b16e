"""BM25's share in a hybrid: nDCG@10 of weighted sums with shares 0 to 1, and of reciprocal ranks, on folders in BEIR's format.

The share that ``make my-corpus`` takes where there are too few development questions comes from here: one for the languages of
the encoder and one for others, such that no corpus is far from its best. BM25 has the analyser of the folder's language.

    PYTHONPATH=src python benchmarks/hybrid_shares.py --model DIR FOLDER …
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import argparse
import csv
from itertools import islice
from pathlib import Path

import pretrieve
from pretrieve.benchmarks.official.beir import packed_file
from pretrieve.corpora.language import language_of
from pretrieve.evaluation.metrics import evaluate
from pretrieve.raw.raw_text import read_json_lines
from pretrieve.retrieval.fusion import fuse

SHARES = tuple(step / 10 for step in range(11))
METRIC = "ndcg@10"
DEPTH = 100


def records(folder: Path, name: str) -> list[dict]:
    return [record for _, record in read_json_lines(packed_file(folder, name), ("_id", "text"))]


def judged(folder: Path, split: str) -> dict[str, dict[str, int]]:
    qrels = dict[str, dict[str, int]]()
    with open(folder / f"qrels/{split}.tsv", encoding="utf-8", newline="") as stream:
        for query, document, grade in islice(csv.reader(stream, delimiter="\t"), 1, None):
            if int(grade) > 0:
                qrels.setdefault(query, {})[document] = int(grade)
    return qrels


def scores(folder: Path, split: str, encoder: pretrieve.Retriever) -> dict[str, object]:
    texts = {one["_id"]: f"{one.get('title', '')} {one['text']}".strip() for one in records(folder, "corpus.jsonl")}
    texts = {key: text for key, text in texts.items() if text}
    qrels = judged(folder, split)
    queries = {one["_id"]: one["text"] for one in records(folder, "queries.jsonl") if one["_id"] in qrels}
    qrels = {query: qrels[query] for query in queries}
    language = language_of(list(texts.values())[:2000]).code
    lexical = pretrieve.bm25(texts, queries, DEPTH, language=language)
    vectors = encoder.encode_passages(list(texts.values()))
    dense = pretrieve.search(encoder.encode_queries(list(queries.values())), vectors, list(texts), DEPTH, list(queries))
    mean = lambda run: round(evaluate(run, qrels, [METRIC]).mean[METRIC], 4)
    shares = {f"{share:g}": mean(fuse(lexical, dense, share)) for share in SHARES}
    return {
        "language": language,
        "documents": len(texts),
        "queries": len(queries),
        "reciprocal ranks": mean(fuse(lexical, dense)),
        "BM25's share": shares,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--split", default="test")
    parser.add_argument("--model", type=Path, required=True, help="an encoder that pretrieve.load reads")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    encoder = pretrieve.load(options.model)
    found = {folder.name: scores(folder, options.split, encoder) for folder in options.folders}
    for name, one in found.items():
        print(name, one, flush=True)
    options.rounds = 1
    common.write("hybrid_shares", options, ("torch", "tokenizers"), split=options.split, corpora=found)


if __name__ == "__main__":
    main()
