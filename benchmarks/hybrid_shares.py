"""BM25's share in a hybrid: nDCG@10 of weighted sums with shares 0 to 1, and of reciprocal ranks, on folders in BEIR's format.

The share that ``make my-corpus`` takes where there are too few development questions comes from here: one for the languages of
the encoder and one for others, such that no corpus is far from its best. BM25 has the analyser of the folder's language. A share
of 1 is not quite BM25, which is measured besides: a question's last hit has the score of documents that BM25 has not found.

    PYTHONPATH=src python benchmarks/hybrid_shares.py --model DIR FOLDER …
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

from pathlib import Path

from published_encoder import read_beir

import pretrieve
from pretrieve.corpora.language import language_of
from pretrieve.evaluation.fusion_weight import WEIGHTS
from pretrieve.evaluation.metrics import evaluate
from pretrieve.retrieval.fusion import fuse

METRIC = "ndcg@10"
DEPTH = 100


def scores(folder: Path, encoder: pretrieve.Retriever) -> dict[str, object]:
    texts, queries, qrels = read_beir(folder)
    language = language_of(list(texts.values())[:2000]).code
    lexical = pretrieve.bm25(texts, queries, DEPTH, language=language)
    vectors = encoder.encode_passages(list(texts.values()))
    dense = pretrieve.search(encoder.encode_queries(list(queries.values())), vectors, list(texts), DEPTH, list(queries))
    mean = lambda run: round(evaluate(run, qrels, [METRIC]).mean[METRIC], 4)
    shares = {f"{share:g}": mean(fuse(lexical, dense, share)) for share in WEIGHTS}
    return {
        "language": language,
        "documents": len(texts),
        "queries": len(queries),
        "BM25": mean(lexical),
        "reciprocal ranks": mean(fuse(lexical, dense)),
        "BM25's share": shares,
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--model", type=Path, required=True, help="an encoder that pretrieve.load reads")
    options = parser.parse_args()
    encoder = pretrieve.load(options.model)
    found = {folder.name: scores(folder, encoder) for folder in options.folders}
    for name, one in found.items():
        print(name, one, flush=True)
    common.write("hybrid_shares", options, ("torch", "tokenizers"), corpora=found)


if __name__ == "__main__":
    main()
