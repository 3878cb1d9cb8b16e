"""The table of ``docs/benchmarks.md``, from ``benchmarks/results/*.json``: no figure there is typed.

PYTHONPATH=src python benchmarks/report.py    # rewrites what stands between the two marks
"""

from __future__ import annotations

import json
from typing import Any

from common import RESULTS, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/report.py: begin -->", "<!-- benchmarks/report.py: end -->"
NAMES = {"condenser": "Condenser", "retromae": "RetroMAE", "dupmae": "DupMAE", "seed-encoder": "SEED-Encoder"}
PEERS = {"plain": "the same in plain transformers", "pretense": "`pretense`"}


def load(name: str) -> dict[str, Any]:
    """One result."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def figure(value: float) -> str:
    """Two significant digits, three from 10 on."""
    return f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def against(value: float, target: float, less: bool = False) -> str:
    """The target, and whether it is missed."""
    met = value <= target if less else value >= target
    return f"{'≤ ' if less else ''}{target:g}{'' if met else ', missed'}"


def wiki() -> list[list[str]]:
    """C10."""
    data, rows = load("c10_wiki"), []
    what = f"wikitext → sections, paragraphs, links, {data['pages']} pages"
    for name, entry in data["ratio_parse"].items():
        rows.append([what, name, figure(entry["median"]), against(entry["median"], data["target"])])
    whole = data["ratio_with_dump"]["wikitextparser, full"]["median"]
    target = against(whole, data["target"])
    rows.append(["the same with bz2 and XML reading on both sides", "wikitextparser, full", figure(whole), target])
    growth = f"{data['memory_growth']:.3g} ×"
    return [*rows, ["peak memory of a dump ten times as long", "–", growth, "flat"]]


def tokens() -> list[list[str]]:
    """C9."""
    data = load("c9_tokens_pairs")
    rates = " / ".join(f"{rate / 1e6:.2g} M" for rate in data["pairs_per_cpu_s"].values())
    slowest = min(data["pairs_per_cpu_s"].values())
    target = "1 M" if slowest >= data["target_pairs"] else "1 M, missed"
    rows = [[f"pairs a second: {' / '.join(data['pairs_per_cpu_s'])}", "–", rates, target]]
    what = f"tokenise {data['passages']:,} passages with sentence boundaries"
    for name, entry in data["ratio"].items():
        rows.append([what, f"`{name.replace(',', '`,', 1)}", figure(entry["median"]), ""])
        rows[-1][3] = against(entry["median"], data["target"])
    return rows


def mlm() -> list[list[str]]:
    """C1."""
    rows = []
    for vocabulary, data in load("c1_mlm_step")["results"].items():
        target = float(data["targets"]["HF fp32"].split(">= ")[1].rstrip(")"))
        what = f"MLM step with optimiser, V = {int(vocabulary):,}"
        for name, entry in data["ratio"].items():
            peer = name.replace("HF fp32", "`BertForMaskedLM`, padded").replace(" grouped", ", by length")
            shown = against(entry["median"], target) if name == "HF fp32" else "–"
            rows.append([what, peer, figure(entry["median"]), shown])
        bound, share = data["ratio_if_only_products"]["median"], data["products_share_of_our_step"]["median"]
        limit = data["products"]["ratio"]
        rows.append(["operations in its matrix products", "`BertForMaskedLM`, padded", figure(limit), "the limit"])
        what = f"were it nothing but these, {share:.0%} of its time"
        rows.append([what, "`BertForMaskedLM`, padded", figure(bound), "–"])
    return rows


def steps() -> list[list[str]]:
    """C2."""
    rows = []
    for vocabulary in (8192, 30522):
        data = load(f"c2_steps_{vocabulary}")
        small = f"ours, {data['small_budget']}"
        for name, entry in data["results"].items():
            what = f"{NAMES[name]} step, V = {vocabulary:,}"
            for peer, ratio in entry["ratio"].items():
                rows.append([what, PEERS[peer], figure(ratio["median"]), against(ratio["median"], entry["target"])])
            limit = entry["products"]["ratio"]["plain"]
            rows.append(["operations in its matrix products", PEERS["plain"], figure(limit), "the limit"])
            for own, less in entry["peak_ratio"].items():
                what = f"its peak memory, {entry['peak_kb'][own] // 1000} MB"
                if own == small:
                    price = entry["time_of_small_budget"]["median"]
                    what += f", {data['small_budget']:,} tokens at once ({price:.2f} × the time)"
                target = against(less["plain"], entry["peak_target"])
                rows.append([what, PEERS["plain"], figure(less["plain"]), target])
        loss = data["word_loss_alone"]["median"]
        rows.append([f"word loss alone, V = {vocabulary:,}", "logits for all", figure(loss), "–"])
    return rows


def cache() -> list[list[str]]:
    """C7."""
    data, rows = load("c7_gradient_cache"), []
    for batch, entry in data["results"].items():
        fastest = entry["fastest"]
        parts, over = entry["micro_batches"][fastest], entry["of_direct"][fastest]["median"]
        what = f"gradient cache, {batch} pairs in {parts} micro-batches"
        target = against(over, data["targets"]["of_direct"], less=True)
        rows.append([what, "direct step", f"{over:.3g} × the time", target])
        for name, ratio in entry["ratio"].items():
            if name.startswith("ST cached"):
                peer = f"`CachedMultipleNegativesRankingLoss`, {name.rsplit(maxsplit=1)[1]}"
                shown = against(ratio["median"], data["targets"]["ratio"])
                rows.append([what, peer, figure(ratio["median"]), shown])
        rows.append(["its arithmetic", "direct step", f"{1 + (parts - 1) / (3 * parts):.3g} × the time", "the limit"])
    return rows


def encoding() -> list[list[str]]:
    """C3."""
    data, rows = load("c3_encode"), []
    what = f"encode {data['passages']:,} passages cut to 128 tokens"
    for name, entry in data["ratio"].items():
        if not name.startswith("ours"):
            peer = name.replace("HF", "`BertModel`").replace("sentence-transformers", "`sentence-transformers`")
            target = data["targets"].get(name)
            rows.append([what, peer, figure(entry["median"]), against(entry["median"], target) if target else "–"])
    return rows


SCRIPTS = {
    "c10_wiki": wiki,
    "c9_tokens_pairs": tokens,
    "c1_mlm_step": mlm,
    "c2_steps": steps,
    "c7_gradient_cache": cache,
    "c3_encode": encoding,
}


def main() -> None:
    lines = ["| script | what | peer | ratio | target |", "|---|---|---|---:|---:|"]
    for script, rows_of in SCRIPTS.items():
        last = None
        for what, *rest in rows_of():
            first = f"`{script}.py`" if last is None else ""
            lines.append("| " + " | ".join([first, "" if what == last else what, *rest]) + " |")
            last = what
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
