"""The table of docs/benchmarks.md, made from the benchmarks' results.

    python benchmarks/ratios_table.py

A ratio is a median over rounds; above 1, this project is faster. A target that is missed says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/benchmarks.md"
HEAD = ["| script | what | peer | ratio | target |", "|---|---|---|---:|---:|"]
Row = tuple[str, str, str, str, str]
STEPS = ("condenser", "retromae", "dupmae", "seed-encoder")


def result(name: str) -> Any:
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))


def medians(ratios: Mapping[str, Any], names: tuple[str, ...], digits: int = 1) -> str:
    """Their medians, divided by commas."""
    return ", ".join(f"{ratios[name]['median']:.{digits}f}" for name in names)


def least(ratios: Mapping[str, Any], names: tuple[str, ...]) -> float:
    """The least of their medians."""
    return min(ratios[name]["median"] for name in names)


def spread(values: Mapping[str, float], *names: str) -> str:
    """From the least to the greatest of a summary."""
    ends = [[values[f"{name}, {end}"] for name in names] for end in ("least", "greatest")]
    return f"{min(ends[0]):.1f} to {max(ends[1]):.1f}"


def millions(value: float) -> str:
    return f"{value / 1e6:.2g} M"


def data_rows() -> Iterator[Row]:
    wiki, collection, pairs = result("c10_wiki"), result("c11_collection"), result("c9_tokens_pairs")
    tuned = ("datasets.map, tuned, sentences", "datasets.map, tuned")
    parsers = ("wikitextparser, full", "wikitextparser, tuned")
    ratio = medians(wiki["ratio_parse"], parsers)
    what, slowest = f"wikitext parsing, {wiki['pages']} pages", least(wiki["ratio_parse"], parsers)
    yield "c10_wiki.py", what, "wikitextparser, full / tuned", ratio, missed("5", slowest >= 5)
    yield "", "peak memory, dump ten times as long", "–", f"{wiki['memory_growth']:.2f} ×", "flat"
    what = f"MS MARCO's `collection.tsv` → Parquet, {round(collection['passages_per_cpu_s']['ours'], -4):,} passages a second"
    peer = "`datasets` / plain loop without checks"
    ratio = medians(collection["ratio"], ("datasets", "Python loop"))
    met = collection["passages_per_cpu_s"]["ours"] >= collection["target"]
    yield "c11_collection.py", what, peer, ratio, missed(f"{collection['target']:,} a second", met)
    rates = ", ".join(millions(rate) for rate in pairs["pairs_per_cpu_s"].values())
    met = min(pairs["pairs_per_cpu_s"].values()) >= pairs["target_pairs"]
    yield "c9_tokens_pairs.py", "pairs a second: ICT / BFS / WLP / mixture", "–", rates, missed("1 M", met)
    what, peer = f"tokenise {pairs['passages']:,} passages", "tuned `datasets.map`, with / without sentences"
    met = least(pairs["ratio"], tuned) >= pairs["target"]
    yield "", what, peer, medians(pairs["ratio"], tuned), missed(f"{pairs['target']:g}", met)


def training_rows() -> Iterator[Row]:
    step = result("c1_mlm_step")["results"]
    ratio = "; ".join(medians(step[size]["ratio"], ("HF fp32", "HF bf16")) for size in ("30522", "8192"))
    bounds = {("30522", "HF fp32"): 8, ("30522", "HF bf16"): 6, ("8192", "HF fp32"): 5, ("8192", "HF bf16"): 3.5}
    met = all(step[size]["ratio"][name]["median"] >= bound for (size, name), bound in bounds.items())
    what, peer = "MLM step, V = 30,522; 8,192", "padded `BertForMaskedLM`, fp32 / bf16"
    yield "c1_mlm_step.py", what, peer, ratio, missed("8 / 6; 5 / 3.5", met)
    for size, all_four in ((8192, "Condenser, RetroMAE, DupMAE, SEED-Encoder"), (30522, "the four")):
        steps = result(f"c2_steps_{size}")["results"]
        for what, peer, name, kinds in (
            (all_four, "plain transformers, fp32; bf16", "plain", STEPS),
            ("the first three", "pretense, fp32; bf16", "pretense", STEPS[:3]),
        ):
            ratio = "; ".join(
                ", ".join(f"{steps[kind]['ratio'][name + low]['median']:.1f}" for kind in kinds)
                for low in ("", ", bf16")
            )
            script = f"c2_steps.py`, V = {size:,}" if name == "plain" else ""
            targets = ", ".join(f"{steps[kind]['target']:g}" for kind in kinds)
            met = all(steps[kind]["ratio"][name]["median"] >= steps[kind]["target"] for kind in kinds)
            yield script, what, peer, ratio, missed(f"{targets} in fp32", met)
        peaks = [
            min(v for k, v in steps[kind]["peak_ratio"][steps[kind]["ours"]].items() if "bf16" not in k)
            for kind in STEPS
        ]
        text = ", ".join(f"{peak:.1f}" for peak in peaks)
        yield "", "peak memory of the four", "the smaller, fp32", text, missed("4", min(peaks) >= 4)
    cache = result("c7_gradient_cache")
    batches, four = cache["results"], cache["four_micro_batches"]
    direct = [one["of_direct"][one["fastest"]]["median"] for one in batches.values()]
    what = f"time of cached by direct step, batch {' / '.join(f'{int(size):,}' for size in batches)}"
    ratio = ", ".join(f"{one:.2f}" for one in direct)
    yield "c7_gradient_cache.py", what, "–", ratio, missed("1.25", max(direct) <= 1.25)
    ours = [four[body]["of_direct"]["median"] for body in ("6x384", "2x128")]
    each = "; ".join("met" if one <= 1.35 else "missed" for one in ours)
    yield "", "four micro-batches, 6 × 384; 2 × 128", "–", "; ".join(f"{one:.2f}" for one in ours), f"1.35, {each}"
    met = all(one["ratio"]["ST cached, 128"]["median"] >= 2 for one in batches.values())
    peers = "; ".join(
        ", ".join(f"{one['ratio'][f'ST cached, 128{low}']['median']:.1f}" for one in batches.values())
        for low in ("", ", bf16")
    )
    yield "", "cached loss, mini-batches of 128", "sentence-transformers, fp32; bf16", peers, missed("2 in fp32", met)
    kept = [one["ratio"] for one in result("c19_allocator")["lines"] if one["what"].startswith("step")]
    middle, low, high = ([one[key] for one in kept] for key in ("median", "min", "max"))
    ratio = f"{min(middle):.2f} to {max(middle):.2f} (rounds: {min(low):.2f} to {max(high):.2f})"
    yield "c19_allocator.py", "steps in a job of the workflow, which keeps freed memory", "glibc's defaults", ratio, "–"
    shapes = result("attention")["results"]
    ratio = "; ".join(
        ", ".join(
            f"{shapes[one]['training']['ratio'][f'torch {low}']['median']:.1f}"
            for one in ("32 x 72", "32 x 128", "8 x 512")
        )
        for low in ("fp32", "bf16")
    )
    yield "attention.py", "attention and gradient, 32 × 72 / 32 × 128 / 8 × 512 tokens", "torch, fp32; bf16", ratio, "–"


def gpu_rows() -> Iterator[Row]:
    steps, targets = result("g1_pretraining_gpu")["results"], result("g1_pretraining_gpu")["targets"]
    lengths, kinds = ("128", "512"), ("mlm", "retromae", "condenser")
    each = lambda value: "; ".join(", ".join(f"{value(steps[f'{kind}, {n}']):.2f}" for kind in kinds) for n in lengths)
    what, peer = "a step of MLM, RetroMAE, Condenser on an H100, 12 × 768, 128; 512 tokens", "plain transformers, bf16"
    met = all(one["ratio"]["HF"]["median"] >= targets["HF"] for one in steps.values())
    ratio = each(lambda one: one["ratio"]["HF"]["median"])
    yield "g1_pretraining_gpu.py", what, peer, ratio, missed(f"{targets['HF']:g}", met)
    met = all(steps[f"{kind}, {n}"]["mfu"]["ours"] >= targets["mfu"][n] for n in lengths for kind in kinds)
    target = missed("; ".join(f"{targets['mfu'][n]:g}" for n in lengths), met)
    yield "", "share of the H100's rate of products", "–", each(lambda one: one["mfu"]["ours"]), target


def encoding_rows() -> Iterator[Row]:
    encode = result("c3_encode")
    ratio, what = encode["ratio"], f"encode {encode['passages']:,} passages of at most 128 tokens"
    ours = medians(ratio, ("sentence-transformers", "sentence-transformers, bf16"))
    target = missed("6", ratio["sentence-transformers"]["median"] >= 6)
    yield "c3_encode.py", what, "sentence-transformers, fp32 / bf16", ours, target
    plain, sorted_, low = ("HF, given order", "HF, sorted", "HF, sorted, bf16 weights")
    texts = [medians(ratio, (name, f"{name}, bf16")) for name in (plain, sorted_)]
    best = ratio[low]["median"]
    all_three = "; ".join([*texts, f"{best:.1f}"])
    yield "", "the same", "`BertModel`, fp32 / bf16; sorted; bf16 weights", all_three, missed("1.8", best >= 1.8)
    names = ("BertModel, bf16", "ONNX Runtime", "ONNX Runtime, int8", "OpenVINO, bf16")
    peer = "`BertModel`, bf16 / ONNX Runtime / its int8 / OpenVINO, bf16; all sorted"
    bodies, tiles = (list(result(f"c14_engines{name}")["results"].values()) for name in ("", "_amx"))
    for script, what, some in (
        ("c14_engines.py", "encode, 6 × 384; 12 × 768", bodies),
        ("", "the same, AMX", tiles),
    ):
        ratios = "; ".join(medians(one["ratio"], names, 2) for one in some)
        worst = min(one["ratio"][name]["median"] for one in some for name in names)
        yield script, what, peer, ratios, missed("1.8", worst >= 1.8)
    names, peer = ("ours", "ONNX Runtime, int8", "OpenVINO, int8"), "ours in fp32 / int8 of ONNX Runtime / of OpenVINO"
    for processor, name in (("AVX512-VNNI", "c14_engines_vnni"), ("AVX2 alone", "c14_engines_fp32")):
        plain = list(result(name)["results"].values())
        ratios = "; ".join(medians(one["ratio_int8"], names, 2) for one in plain)
        worst = min(one["ratio_int8"][names[-1]]["median"] for one in plain)
        yield "", f"the same in int8, {processor}", peer, ratios, missed("1.2 for OpenVINO", worst >= 1.2)
    low = "ours, bf16"
    for peak, ours, some in (("bf16 peak", low, bodies), ("bf16 peak, AMX", low, tiles), ("fp32 peak", "ours", plain)):
        shares = [one["share_of_peak"][ours]["median"] for one in some]
        text = "; ".join(f"{one:.2f}" for one in shares)
        yield "", f"share of the {peak}", "–", text, missed("0.8", min(shares) >= 0.8)


def search_rows() -> Iterator[Row]:
    found, bm25 = result("c4_search")["summary"], result("c6_bm25")
    lowest = lambda name: found[f"{name}, least"]
    for script, what, peer, name, target in (
        ("c4_search.py", "exact first pass (`top_k`)", "faiss, default settings", "top_k to faiss default", 20),
        ("", "the same", "faiss, same settings", "top_k to faiss tuned", 1),
        ("", "whole search, one query", "faiss, default settings", "search to faiss default, one query", 1),
    ):
        yield script, what, peer, spread(found, name), missed(f"{target}", lowest(name) >= target)
    sizes = ("10,000", "100,000", "1,000,000", "10,000,000")
    names = [[f"search to faiss tuned, top {depth} of {rows}" for depth in (10, 100, 1000)] for rows in sizes]
    what, ratios = "10,000 / 100,000 / 1 M / 10 M vectors", ", ".join(spread(found, *some) for some in names)
    worst = min(lowest(name) for some in names for name in some)
    yield "", what, "faiss, same settings", ratios, missed("1", worst >= 1)
    what = f"BM25, top {bm25['depth']} of {bm25['documents']:,} documents, {bm25['queries']:,} queries, two cores"
    ratio = bm25["elapsed_ratio"]["LuceneSearcher, a loop"]["median"]
    yield "c6_bm25.py", what, "LuceneSearcher, one query at a time", f"{ratio:.1f}", missed("5", ratio >= 5)


def missed(target: str, met: bool) -> str:
    return target if met else f"{target}, missed"


def table() -> str:
    lines = list(HEAD)
    for rows in (data_rows, training_rows, gpu_rows, encoding_rows, search_rows):
        for script, *cells in rows():
            first = f"`{script}" + "`" * ("`" not in script) if script else ""
            lines.append(f"| {' | '.join([first, *cells])} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def main() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(HEAD[0])
    PAGE.write_text(before + table() + "\n" + rest.partition("\n\n")[2], encoding="utf-8")


if __name__ == "__main__":
    main()
