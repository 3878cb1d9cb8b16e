"""Numbers in README.md and docs/ are those of the files that they come from.

Seen to fail when: a count of candidates in docs/data.md is changed; README's memory is below a stage's; an error rate is
another than the benchmark's; a ratio of docs/benchmarks.md is changed by hand; the demo has other training sizes than
docs/fine-tuning.md says; another q than the claims' is in docs/limits.md.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from runpy import run_path

import pytest

from pretrieve.corpora.language import LANGUAGES, NONE
from pretrieve.operations.publish.places import newest, tables_of
from pretrieve.raw.sources import read_sources
from pretrieve.reporting.claims.ledger import Finding
from pretrieve.reporting.tables.filling import Line, read_lines
from pretrieve.reporting.tables.rows import read_rows
from pretrieve.tasks.splits import POOL_TRAIN_SHARE

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[str, str]]:
    with open(ROOT / "resources/counts.tsv", encoding="utf-8") as stream:
        lines = [line for line in stream if not line.startswith("#")]
    return {line["name"]: line for line in csv.DictReader(lines, delimiter="\t")}


@pytest.fixture(scope="module")
def demo() -> list[Line]:
    return [line for table in tables_of(newest(ROOT / "results/published", "demo")) for line in read_lines(table)]


def test_data_sets_have_their_sizes(counts: dict[str, dict[str, str]]) -> None:
    rows = re.findall(r"\| `([a-z-]+)` \| ([\d,]+) \| ([\d,]+) \|$", page("docs/data.md"), re.MULTILINE)
    assert len(rows) == 6
    for name, queries, candidates in rows:
        known = counts[name.replace("questions-paragraphs", "questions-open")]
        assert (queries, candidates) == (f"{int(known['queries']):,}", f"{int(known['documents']):,}"), name


def test_the_demos_corpus(config: dict, counts: dict[str, dict[str, str]], demo: list[Line]) -> None:
    said, expected = page("docs/data.md"), config["corpora"]["encyclopedia-demo"]["expect"]
    known = counts["encyclopedia-demo"]
    pairs = next(line.measured for line in demo if line.metric == "wlp.pairs")
    for text in (
        f"{expected['pages']} full pages of the dump and {expected['leads']:,} leads",
        f"{int(known['articles']):,} articles, {int(known['documents']):,} passages, {int(known['sentences']):,} sentences",
        f"{int(float(pairs)):,} documents",
    ):
        assert text in said
    assert f"{int(known['documents']):,} passages" in page("README.md")
    assert f"run on {expected['pages']} pages" in page("docs/limits.md")


def test_training_sizes_of_the_demo(config: dict, counts: dict[str, dict[str, str]], demo: list[Line]) -> None:
    sizes = config["datasets"]["questions"]["sizes"]
    assert f"{sizes['1k']}, {sizes['10k']} and {int(counts['questions']['train']):,}." in page("docs/fine-tuning.md")
    trained = {
        name: next(
            line.train_examples
            for line in demo
            if line.dataset == name and line.system.endswith("-1pct") and line.train_examples not in ("", "0")
        )
        for name in ("questions", "descriptions")
    }
    assert f"{trained['questions']} training questions of `questions`, {trained['descriptions']} of `descr" in page(
        "docs/limits.md"
    )
    steps = config["scales"]["demo"]["pretraining"]["budgets"]["continued"]["steps"]
    assert f"get {steps} steps" in page("docs/limits.md")


def test_how_many_claims_of_the_demo_are_decided() -> None:
    findings = read_rows(newest(ROOT / "results/published", "demo") / "claims.csv", Finding)
    values = [float(one.q) for one in findings if one.q]
    decided = sum(q < 0.05 for q in values)
    assert f"**Five seeds decide {decided} of the {len(values)} measured" in page("docs/limits.md")
    assert decided == sum(one.verdict in ("supported", "contradicted") for one in findings)


def test_the_largest_process(demo: list[Line]) -> None:
    assert f"memory: {max(float(line.peak_gb) for line in demo if line.peak_gb):.1f} GB" in page("README.md")


def test_data_sets_of_small(counts: dict[str, dict[str, str]]) -> None:
    said = page("docs/small-scale.md")
    paragraphs, articles = int(counts["squad-passages"]["documents"]), int(counts["squad-articles"]["documents"])
    assert (
        f"{counts['msmarco-mini-dl19']['test']} topics, {int(counts['msmarco-mini-dl19']['documents']):,} passages"
        in said
    )
    assert f"{int(counts['vital-descriptions']['queries']):,} vital articles" in said
    assert f"{articles - 1000} articles among 1,000 others" in said and paragraphs - 5000 > 0
    assert f"{round(float(counts['squad-articles']['document_tokens']), -2):,.0f} word pieces" in said


def test_how_settings_were_chosen() -> None:
    said = page("docs/demo-settings.md")
    settings = json.loads((RESULTS / "demo_settings.json").read_text())
    rows = {
        "`base`: no change": "base",
        "fine-tuning rate 1e-3": "finetune-lr-1e-3",
        "fine-tuning rate 2e-4": "finetune-lr-2e-4",
        "three layers, fewer steps": "three-layers",
        "pre-training rate 1e-3": "learning-rate-1e-3",
        "temperature 0.1": "temperature-0.1",
        "pre-training rate 2e-4": "learning-rate-2e-4",
        "BERT's initialisation (deviation 0.02)": "bert-initialisation",
    }
    for text, name in rows.items():
        scores = settings[name]["recall@100"]
        means = [
            sum(some) / len(some)
            for row in ("", "transformer-none", "transformer-mlm", "transformer-ict")
            if (some := [score for key, score in scores.items() if key.startswith(row)])
        ]
        assert f"| {text} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |" in said, name
    for rate in ("2e-3", "1e-3", "5e-4"):
        scores = settings[f"continued-lr-{rate}"]["recall@100"].values()
        assert f"{sum(scores) / len(scores):.3f}" in said
    for group in json.loads((RESULTS / "recipe_settings.json").read_text()).values():
        best, second = sorted((one["mean"] for one in group.values()), reverse=True)[:2]
        assert f"| {best:.3f} | {second:.3f} |" in said


def test_the_example_of_an_own_corpus() -> None:
    with open(RESULTS / "my_corpus_scifact.csv", encoding="utf-8") as stream:
        rows = {row["row"]: row for row in csv.DictReader(stream) if row["metric"] == "ndcg@10"}
    shown = re.findall(
        r"^\| (\S[^|]*?)(?:: [^|]+)? \| (0\.\d{3}) \| ([^|]*)\|$", page("docs/your-own-corpus.md"), re.MULTILINE
    )
    assert len(shown) == 6
    for name, mean, gain in shown:
        row = rows[name]
        bounds = [f"{float(row[key]):.3f}".replace("-", "−") for key in ("gain", "low", "high") if row[key]]
        assert mean == f"{float(row['mean']):.3f}" and re.findall(r"−?[\d.]+", gain) == bounds, name


def test_shares_of_a_hybrid() -> None:
    measured = json.loads((RESULTS / "hybrid_shares.json").read_text())["corpora"]
    names = {"SciFact": "scifact", "Cranfield": "cranfield", "NPL": "npl", "German": "xquad-de", "Greek": "xquad-el"}
    said = page("docs/your-own-corpus.md")
    rows = re.findall(r"^\|(?: (\w+))? \| (\w+) \|((?: [\d.]+ \|){5})$", said, re.MULTILINE)
    assert len(rows) == len(names)
    for corpus, language, shown in rows:
        one = measured[names.get(corpus) or names[language]]
        shares = [one["BM25's share"][share] for share in ("0", "0.5", "0.8")]
        values = [one["BM25"], shares[0], one["reciprocal ranks"], *shares[1:]]
        # Four places are measured: the half of the third may have been rounded either way.
        assert [float(word) for word in shown.split(" |")[:-1]] == pytest.approx(values, abs=0.000501), (
            corpus,
            language,
        )
    for name in ("scifact", "cranfield", "npl", "xquad-de"):  # the same in the table before it
        with open(RESULTS / f"my_corpus_{name.replace('-', '_')}.csv", encoding="utf-8") as stream:
            assert float(next(csv.DictReader(stream))["mean"]) == measured[name]["BM25"], name


def test_error_rates_and_noise() -> None:
    rates = dict(
        re.findall(r"^\| (\d seeds?[^|]*) \| (.+) \|$", (RESULTS / "verdict_errors.md").read_text(), re.MULTILINE)
    )
    rows = re.findall(r"^\| (\d seeds?[^|]*) \| (.+) \|$", page("docs/verdicts.md"), re.MULTILINE)
    assert len(rows) == 5
    for name, said in rows:
        assert said in {
            rates.get(name),
            *(rate for key, rate in rates.items() if key.replace(", 200 queries", "") == name),
        }
    noise = json.loads((RESULTS / "run_noise.json").read_text())["tables"]["pretraining_tasks/table3"]
    assert f"{max(one['furthest'] for one in noise.values()):.1f} standard errors" in page("docs/limits.md")


def test_the_table_of_benchmarks() -> None:
    made = run_path(str(ROOT / "benchmarks/ratios_table.py"))["table"]()
    assert f"\n\n{made}\n" in page("docs/benchmarks.md"), "run: python benchmarks/ratios_table.py"


def test_a_search_from_the_disk() -> None:
    found = json.loads((RESULTS / "c4_search.json").read_text())["results"]["10000000x384"]["cold"]
    said = f"takes {found['search']:.0f} seconds; reading the 15 GB alone takes {found['read']:.0f} (measured once)"
    assert said in page("docs/benchmarks.md")


def test_recall_of_approximate_searches() -> None:
    columns = [
        json.loads((RESULTS / f"c16_approximate_{rows}.json").read_text())["lines"] for rows in (250_000, 1_000_000)
    ]

    def shown(
        lines: list[dict], by: str, shape: str = "{recall:.3g}, {queries_per_cpu_s:.0f}", **setting: object
    ) -> str:
        found = [one for one in lines if one["by"] == by and setting.items() <= one.items()]
        return shape.format(**found[0]) if found else ""

    coarse = {"index": "IVFPQ", "probes": 64}
    size = "{index_mb:,.0f} MB"
    rows = {
        "exact search, questions together": [("ours", {"index": "Flat"})],
        "HNSW, `search: 256`; hnswlib": [(by, {"index": "HNSW", "search": 256}) for by in ("ours", "hnswlib")],
        "IVF, 64 of 1,024 cells": [("ours", {"index": "IVF", "probes": 64})],
        "IVFPQ, the same cells, `k_factor: 10`; faiss alone": [
            ("ours", coarse | {"k_factor": 10}),
            ("faiss alone", coarse),
        ],
        "index of IVF; of IVFPQ": [("ours", {"index": kind, "shape": size}) for kind in ("IVF", "IVFPQ")],
    }
    for name, parts in rows.items():
        cells = ["; ".join(filter(None, (shown(lines, by, **more) for by, more in parts))) or "–" for lines in columns]
        assert f"| {name} | {' | '.join(cells)} |" in page("docs/benchmarks.md"), cells
    gains = []
    for lines in columns:
        exact, *others = [one for one in lines if one["by"] == "ours"]
        shown_ones = ({"search": 256}, {"index": "IVF", "probes": 64}, coarse | {"k_factor": 10})
        found = [one for one in others if any(some.items() <= one.items() for some in shown_ones)]
        assert all(one["recall"] > 0.92 for one in found)
        gains += [one["queries_per_cpu_s"] / exact["queries_per_cpu_s"] for one in found]
    assert f"{min(gains):.1f} to {max(gains):.1f} times as fast as exact search" in page("docs/benchmarks.md")


def test_where_the_time_of_encoding_goes() -> None:
    small, large = json.loads((RESULTS / "c17_encoding_parts.json").read_text())["results"].values()
    said = page("docs/benchmarks.md")
    for kind in ("fp32", "bf16"):
        parts = [
            f"{name} {100 * small[kind][name]:.0f} % ({100 * large[kind][name]:.0f} %)"
            for name in ("products", "attention", "norms and activations", "sums and copies")
        ]
        assert f"in {kind}: {', '.join(parts)}" in said
        gains = [body[kind]["torch's products by ours"] for body in (small, large)]
        assert "{:.2f} ({:.2f}) times".format(*gains) in said, kind
    tiles = [b["bf16"] for b in json.loads((RESULTS / "c17_encoding_parts_amx.json").read_text())["results"].values()]
    for name in ("products", "attention", "norms and activations", "sums and copies"):
        assert (
            f"{name} {100 * tiles[0][name]:.0f} % ({100 * tiles[1][name]:.0f} %)" in said.partition("with AMX, bf16")[2]
        )
    for name in ("torch's products by ours", "written out by fused attention"):
        assert "{:.2f} ({:.2f}) times".format(*(body[name] for body in tiles)) in said, name
    rounds = json.loads((RESULTS / "c14_engines_amx.json").read_text())["results"].values()
    least, most = (f(body["ratio"]["OpenVINO, bf16"][f.__name__] for body in rounds) for f in (min, max))
    assert f"against OpenVINO's bf16 from {least:.2f} to {most:.2f}" in said
    counted = small["counted"]
    for name in ("padding, sorted", "padding, as they come"):
        assert f"{100 * (counted[name] - 1):.0f} %" in said
    assert f"{100 * counted['last layer']:.0f} %" in said


def test_documents_in_int8() -> None:
    sets = json.loads((RESULTS / "c18_int8.json").read_text())["results"]
    said = page("docs/benchmarks.md")
    for name, shown in (("scifact", "SciFact"), ("msmarco_mini_dl19", "the DL19 miniature")):
        loss = sets[name]["loss"]["int8"]
        text = f"{-loss['mean']} [{-loss['high']}, {-loss['low']}] on {shown}".replace("-", "−")
        assert text in said
    assert f"{sets['scifact']['int8_faster_by']['fp32']['median']:.2f} times as fast as fp32" in said


def test_cost_against_size() -> None:
    found = json.loads((RESULTS / "c15_size.json").read_text())
    assert max(stage["slope"] for stage in found["growth"].values()) <= 1.0
    peaks = {stage: values["own_mb"] / 1e3 for stage, values in found["stages"]["10000000"].items()}
    said = f"tokenising takes {peaks['tokenise']:.1f} GB and BM25 {peaks['Lucene index, 200 questions']:.1f} GB"
    assert said in page("docs/benchmarks.md")


def test_the_repeat_of_the_gradient_cache() -> None:
    found = json.loads((RESULTS / "c7_gradient_cache.json").read_text())["four_micro_batches"]
    repeat = [found[body]["with_repeat_of_direct"]["median"] - 1 for body in ("6x384", "2x128")]
    said = f"takes {repeat[0]:.2f} of a direct step for 6 × 384, and {repeat[1]:.2f} for 2 × 128"
    assert said in page("docs/benchmarks.md")


def test_constants_of_the_code() -> None:
    assert f"({len(LANGUAGES) - (NONE in LANGUAGES)} languages)" in page("docs/your-own-corpus.md")
    assert f"{POOL_TRAIN_SHARE:.1%}".replace("%", " %") in page("docs/open-qa.md")


def test_downloads_of_the_papers_data() -> None:
    sources = [one for one in read_sources(ROOT / "resources/sources.tsv").values() if one.url and not one.archive]
    assert f"more than {sum(one.bytes for one in sources) // 10**9} GB of downloads" in page("docs/paper-scale.md")
