"""C11: an MS MARCO-format ``collection.tsv`` → Parquet, against ``datasets``' CSV loading and a plain Python loop.

Made-up passages of MS MARCO's length (56 words, 370 bytes; ids 0, 1, 2, …). All variants end with a Parquet file of ids and
texts, on one core. ``ours`` is the reader ``msmarco-passage`` with all its checks (UTF-8, columns, ids that stand twice,
empty texts); the others check nothing, and ``datasets`` packs the file as it always does. The three files are compared row
for row first. Then cost and peak memory of ours from 10,000 to 1,000,000 passages, each size in a process of its own.

    PYTHONPATH=src python benchmarks/c11_collection.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pretrieve.benchmarks.reading import build_collection

TARGET = 200_000
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
WORDS = 56

_CHILD = """
import json, sys, time
from pretrieve.benchmarks.reading import build_collection
def memory(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))
before, begun = memory("VmRSS"), time.process_time()
build_collection("msmarco-passage", {"collection": sys.argv[1]}, sys.argv[2], {"official": False})
print(json.dumps({"cpu_s": time.process_time() - begun, "before_kb": before, "peak_kb": memory("VmHWM")}))
"""


def write_passages(path: Path, number: int) -> None:
    """``number`` lines of an id and a passage; 20,000 texts, each with a hard character now and then, come again and again."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.choice((2, 3, 4, 5, 5, 6, 7, 8, 9)))) for _ in range(30_000)]
    words += ["é", "naïve", "â€™s", "東京", '"quoted"', "\u2028"]
    texts = [" ".join(draw.choices(words, k=WORDS)) for _ in range(20_000)]
    with open(path, "w", encoding="utf-8", newline="") as stream:
        stream.writelines(f"{i}\t{texts[i * 7919 % len(texts)]}\n" for i in range(number))


def python_loop(source: Path, target: Path) -> None:
    """As one would write it: lines, split, a table every 20,000 rows."""
    schema = pa.schema([("doc_id", pa.string()), ("text", pa.string())])
    with (
        open(source, encoding="utf-8", newline="\n") as stream,
        pq.ParquetWriter(target, schema, compression="zstd") as out,
    ):
        ids, texts = [], []
        for line in stream:
            name, text = line.rstrip("\n").split("\t")
            ids.append(name)
            texts.append(text)
            if len(ids) == 20_000:
                out.write_table(pa.table([ids, texts], schema=schema))
                ids, texts = [], []
        if ids:
            out.write_table(pa.table([ids, texts], schema=schema))


def with_datasets(source: Path, target: Path, cache: Path) -> None:
    """``load_dataset("csv")`` with a tab and no quoting, then ``to_parquet``; the cache is empty each time."""
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features({"doc_id": datasets.Value("string"), "text": datasets.Value("string")})
    options = {"delimiter": "\t", "quoting": 3, "header": None, "column_names": list(features), "features": features}
    # "null" and "NA" are words of passages, not missing values.
    options |= {"keep_default_na": False, "na_filter": False}
    with tempfile.TemporaryDirectory(dir=cache) as fresh:
        loaded = datasets.load_dataset("csv", data_files=str(source), split="train", cache_dir=fresh, **options)
        loaded.to_parquet(str(target))


def scaling(directory: Path) -> list[dict]:
    """CPU seconds and memory by number of passages; the time for imports is not counted, their memory is."""
    rows = []
    for number in SIZES:
        source = directory / f"{number}.tsv"
        write_passages(source, number)
        command = [sys.executable, "-c", _CHILD, str(source), str(directory / str(number))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        megabytes = source.stat().st_size / 1e6
        rows.append(
            {
                "passages": number,
                "megabytes": round(megabytes),
                "cpu_s": round(found["cpu_s"], 3),
                "passages_per_cpu_s": round(number / found["cpu_s"]),
                "peak_kb": found["peak_kb"],
                "above_imports_kb": found["peak_kb"] - found["before_kb"],
            }
        )
        source.unlink()
    return rows


def main() -> None:
    args = common.arguments(__doc__, rounds=5, passages=200_000)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = directory / "collection.tsv"
        write_passages(source, args.passages)
        megabytes = source.stat().st_size / 1e6
        ours, loop, theirs = (directory / part for part in ("ours", "loop.parquet", "datasets.parquet"))
        variants = {
            "ours": lambda _: build_collection("msmarco-passage", {"collection": source}, ours, {"official": False}),
            "Python loop": lambda _: python_loop(source, loop),
            "datasets": lambda _: with_datasets(source, theirs, directory),
        }
        for variant in variants.values():
            variant(0)
        tables = [
            pq.read_table(path, columns=["doc_id", "text"]) for path in (ours / "collection.parquet", loop, theirs)
        ]
        same = [tables[0].equals(table.cast(tables[0].schema)) for table in tables[1:]]
        if not all(same):
            raise SystemExit(f"the files differ: Python loop {same[0]}, datasets {same[1]}")
        times = common.interleave(variants, args.rounds, warm_up=False)
        rows = scaling(directory)
    rate = {part: round(args.passages / statistics.median(values)) for part, values in times.items()}
    best = round(args.passages / min(times["ours"]))
    found = common.ratios(times, "ours")
    common.table(
        f"C11: {args.passages:,} passages, {megabytes:.0f} MB, to Parquet",
        ["variant", "passages/CPU-s", "MB/CPU-s", "ours is faster by", "target"],
        [
            [
                part,
                f"{rate[part]:,}",
                f"{rate[part] * megabytes / args.passages:.0f}",
                common.middle(found, part),
                common.verdict(rate[part], TARGET) if part == "ours" else "",
            ]
            for part in variants
        ],
    )
    common.table("C11: by size", list(rows[0]), [[f"{value:,}" for value in row.values()] for row in rows])
    common.write(
        "c11_collection",
        args,
        ("pyarrow", "datasets"),
        passages=args.passages,
        megabytes=round(megabytes, 1),
        cpu_s=common.medians(times),
        passages_per_cpu_s=rate,
        best_round_passages_per_cpu_s=best,
        ratio=found,
        target=TARGET,
        by_size=rows,
    )


if __name__ == "__main__":
    main()
