"""C13: seconds and peak memory of one's own corpus, at 30,000 and at 300,000 documents: its data stages, and, with ``--model``,
the index of that encoder and a search of 200 questions in it.

The documents are those of a ``corpus.jsonl``, again and again with new ids, each with a number of two words in front so that no
two are equal: without ``--corpus``, the 1,193 paragraphs of the questions that were written for this project. Questions are the
first words of documents. Each stage is the command that the workflow or a user runs, in a process of its own; memory is the
largest resident set of that process, with Java in it. An index on disk that a search maps into memory counts, too.

    PYTHONPATH=src python benchmarks/c13_large_corpus.py [--corpus DIR/corpus.jsonl] [--sizes 30000 300000] [--model DIR]
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import command

QUERIES = 200
LOOK = (
    "import sys; from pathlib import Path; from pretrieve.benchmarks.official.beir_folder import look_at; "
    "look_at(Path(sys.argv[1]))"
)


def write_folder(source: Path, folder: Path, number: int) -> None:
    """``number`` documents of the texts of ``source``, and questions about some of them."""
    texts = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    (folder / "qrels").mkdir(parents=True)
    every, queries, judged = number // QUERIES, [], ["query-id\tcorpus-id\tscore\n"]
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as stream:
        for row, document in enumerate(itertools.islice(itertools.cycle(texts), number)):
            record = {
                "_id": f"doc-{row}",
                "title": document.get("title", ""),
                "text": f"Number {row // 1000} {row % 1000}. {document['text']}",
            }
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            if row % every == 0:
                question = " ".join(document["text"].split()[:12])
                queries.append(json.dumps({"_id": f"q-{row}", "text": question}, ensure_ascii=False) + "\n")
                judged.append(f"q-{row}\tdoc-{row}\t1\n")
    (folder / "queries.jsonl").write_text("".join(queries), encoding="utf-8")
    (folder / "qrels/test.tsv").write_text("".join(judged))


def stages(folder: Path, work: Path, model: Path | None, threads: int) -> dict[str, list[str]]:
    """Stage → arguments of Python. model: a directory of sentence-transformers."""
    corpus, task = folder / "corpus.jsonl", work / "task"
    files = [f"corpus={corpus}", f"queries={folder / 'queries.jsonl'}", f"test={folder / 'qrels/test.tsv'}"]
    index, hits = work / "encoded", work / "hits.trec.gz"
    of_model = {
        "embedding, dense index": command(
            *("index", "--documents", corpus, "--model", model, "--kind", "dense", "--threads", threads, "--out", index)
        ),
        "search, 200 questions": command(
            *("search", "--index", index, "--file", folder / "queries.jsonl", "--top", 100, "--out", hits)
        ),
    }
    data = {
        "look at the folder": ["-c", LOOK, str(folder)],
        "collection": command("collection", "beir", "--files", *files, "--out", work / "collection"),
        "pairs: inverse cloze": command("collection", "inverse-cloze", "--files", files[0], "--out", work / "ict"),
        "pairs: random crops": command("collection", "random-crops", "--files", files[0], "--out", work / "crops"),
        "corpus": command("corpus", "beir", "--files", files[0], "--out", work / "corpus"),
        "vocabulary": command(
            *("tokens", "vocabulary", "--corpus", work / "corpus", "--size", common.VOCABULARY),
            *("--out", work / "tokenizer.json"),
        ),
        "token store": command(
            *("tokens", "store", "--corpus", work / "corpus", "--tokenizer", work / "tokenizer.json"),
            *("--out", work / "tokens"),
        ),
        "task": command(
            *("task", "collection", "--files", f"collection={work / 'collection'}", "--sizes", "full=all"),
            *("--options", json.dumps({"title": "prefix"}), "--tokenizer", work / "tokenizer.json", "--out", task),
        ),
        "BM25": common.bm25_command(task, work),
    }
    return data | of_model if model else data


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--corpus", type=Path, help="corpus.jsonl whose texts are repeated")
    parser.add_argument("--model", type=Path, help="an encoder to index the documents with")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the encoder")
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000, 300_000])
    options = parser.parse_args()
    os.environ["PRETRIEVE_MEMORY_MB"] = "2000"  # what the job of BM25 asks for at the demo's scale
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as place:
        source = options.corpus
        if source is None:
            subprocess.run([sys.executable, *command("make-example-corpus", "--out", f"{place}/example")], check=True)
            source = Path(place) / "example/corpus.jsonl"
        for size in options.sizes:
            folder, work = Path(place) / f"folder-{size}", Path(place) / f"work-{size}"
            work.mkdir()
            write_folder(source, folder, size)
            found[str(size)] = {"megabytes": (folder / "corpus.jsonl").stat().st_size / 1e6}
            for stage, words in stages(folder, work, options.model, options.threads).items():
                found[str(size)][stage] = common.spent(words)
                print(f"{size:>9,} {stage:<22} {found[str(size)][stage]}", flush=True)
    first, last = (found[str(size)] for size in (options.sizes[0], options.sizes[-1]))
    ratio = {
        stage: round(last[stage]["peak_mb"] / first[stage]["peak_mb"], 2) for stage in last if stage != "megabytes"
    }
    common.write("c13_large_corpus", options, ("pyarrow", "tokenizers"), documents=found, peak_memory_ratio=ratio)


if __name__ == "__main__":
    main()
