"""C15: cost against size, from 10 thousand passages to a million or ten: time, peak memory and disk of each stage but encoding.

A collection in MS MARCO's layout: the demo's passages again and again with new ids, each with a number of two words in front so
that no two are equal; questions are the first words of passages. Stages are the commands that the workflow runs, in processes of
their own: reading, tokenising, Lucene's index with a search. Embeddings are random unit vectors, written as an encoder's are and
searched exactly from the disk. Encoding itself takes the same for each passage (``c3_encode.py``). The run of a thousand hits for
each question is scored.

``slope``: of the straight line through logarithms of size and CPU seconds, from 100,000 passages on; 1 is linear.
``memory``: peak of the largest size by that of a tenth of it, without mapped files (:func:`common.spent`).

    PYTHONPATH=src python benchmarks/c15_size.py [--most 10000000]
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import itertools
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from common import command

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
QUERIES, DIM, DEPTH = 200, 384, 1000

#: Written as :mod:`pretrieve.retrieval.embed` does, and searched as :mod:`pretrieve.evaluation.retrieve`.
EMBED = """
import sys; import numpy as np
from pretrieve.retrieval.embed import shard_rows
from pretrieve.retrieval.embeddings import EmbeddingWriter
from pretrieve.retrieval.shards import Shards
folder, rows, dim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
writer = EmbeddingWriter(folder, "corpus", rows, dim, "benchmark", Shards(shard_rows(rows, 4 * dim)))
for shard, start, stop in writer.pending():
    vectors = rng.standard_normal((stop - start, dim), dtype=np.float32)
    writer.write(shard, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
writer.finish()
"""
SEARCH = """
import sys; import numpy as np; import pyarrow.parquet as pq
from pathlib import Path
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.search import search
from pretrieve.retrieval.trec_run import write_trec
folder, task, out, depth = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ids = pq.read_table(task / "corpus.parquet", columns=["doc_id"])["doc_id"].to_pylist()
names = pq.read_table(task / "queries.parquet", columns=["query_id"])["query_id"].to_pylist()
reader = EmbeddingReader(folder, "corpus")
queries = np.random.default_rng(1).standard_normal((len(names), reader.dim), dtype=np.float32)
write_trec(out, search(reader, queries, ids, depth, query_ids=names), "benchmark")
"""


def write_collection(folder: Path, passages: list[str], number: int) -> dict[str, Path]:
    """``number`` passages, and questions about some of them; option of the reader → file."""
    folder.mkdir()
    files = {name: folder / f"{name}.tsv" for name in ("collection", "test_queries", "test_qrels")}
    every = number // QUERIES
    with (
        open(files["collection"], "w", encoding="utf-8") as texts,
        open(files["test_queries"], "w", encoding="utf-8") as questions,
        open(files["test_qrels"], "w", encoding="utf-8") as judgements,
    ):
        for row, passage in enumerate(itertools.islice(itertools.cycle(passages), number)):
            texts.write(f"{row}\tNumber {row // 1000} {row % 1000}. {passage}\n")
            if row % every == 0:
                questions.write(f"{row}\t{' '.join(passage.split()[:12])}\n")
                judgements.write(f"{row}\t0\t{row}\t1\n")
    return files


def stages(files: dict[str, Path], work: Path, tokenizer: Path, number: int) -> dict[str, tuple[list[str], list[Path]]]:
    """Stage → arguments of Python, and what it leaves on the disk."""
    collection, task, dense, store = work / "collection", work / "task", work / "dense.trec.gz", work / "embeddings"

    read = [f"{name}={file}" for name, file in files.items()]
    options = json.dumps({"official": False})
    return {
        "read": (
            command("collection", "msmarco-passage", "--files", *read, "--options", options, "--out", collection),
            [collection],
        ),
        "tokenise": (
            command(
                *("task", "collection", "--files", f"collection={collection}", "--sizes", "full=all"),
                *("--options", json.dumps({"title": "none"}), "--tokenizer", tokenizer, "--out", task),
            ),
            [task],
        ),
        "Lucene index, 200 questions": (common.bm25_command(task, work), [work / "index"]),
        "embedding store": (["-c", EMBED, str(store), str(number), str(DIM)], [store]),
        "exact search, 200 questions": (["-c", SEARCH, str(store), str(task), str(dense), str(DEPTH)], [dense]),
        "scores": (
            command(
                *("evaluate", "--task", task, "--sizes", "full", "--runs", dense, "--outputs", work / "dense.json"),
                *("--metrics", "mrr@10", "ndcg@10", "recall@1000"),
            ),
            [work / "dense.json"],
        ),
    }


def on_disk(places: list[Path]) -> float:
    """MB."""
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)


def fits(found: dict[str, dict[str, dict[str, float]]], sizes: list[int]) -> dict[str, dict[str, float]]:
    """Stage → slope of its CPU seconds, and growth of its memory."""
    large, last = [size for size in sizes if size >= 100_000], str(sizes[-1])
    result = {}
    for stage, values in found[last].items():
        seconds = [found[str(size)][stage]["cpu_s"] for size in large]
        slope = np.polyfit(np.log(large), np.log(seconds), 1)[0] if len(large) > 1 else float("nan")
        tenth = found[str(sizes[-2])][stage]["own_mb"]
        result[stage] = {"slope": round(float(slope), 2), "memory": round(values["own_mb"] / tenth, 2)}
    return result


def main() -> None:
    args = common.arguments(__doc__, rounds=1, most=1_000_000)
    os.environ["PRETRIEVE_MEMORY_MB"] = "2000"  # what the job of BM25 asks for at the demo's scale
    corpus = common.demo_corpus()
    passages = [
        " ".join(text.split())
        for text in pq.read_table(corpus / "passages.parquet", columns=["text"])["text"].to_pylist()
    ]
    sizes = [size for size in SIZES if size <= max(args.most, SIZES[1])]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as place:
            work = Path(place) / "work"
            work.mkdir()
            files = write_collection(Path(place) / "raw", passages, size)
            found[str(size)] = {}
            for stage, (words, kept) in stages(files, work, corpus / "tokenizer.json", size).items():
                found[str(size)][stage] = common.spent(words) | {"disk_mb": on_disk(kept)}
                print(f"{size:>11,} {stage:<28} {found[str(size)][stage]}", flush=True)
    growth = fits(found, sizes)
    common.table(
        f"C15: {sizes[-1]:,} passages",
        ["stage", "CPU s", "own MB", "disk MB", "slope", "memory by a tenth"],
        [
            [stage, values["cpu_s"], values["own_mb"], values["disk_mb"], *growth[stage].values()]
            for stage, values in found[str(sizes[-1])].items()
        ],
    )
    common.write("c15_size", args, ("pyarrow", "tokenizers", "numpy", "faiss-cpu"), stages=found, growth=growth)


if __name__ == "__main__":
    main()
