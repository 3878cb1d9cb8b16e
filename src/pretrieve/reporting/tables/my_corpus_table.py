"""The table of a corpus of one's own as CSV, Markdown and HTML: every row's scores, its gain over BM25, and what it costs.

Scores are means over seeds with their sample standard deviation. The interval of a gain has the parts of the
ledger's (other seeds and other queries; :mod:`pretrieve.reporting.tables.my_corpus_read`), and is wide enough to hold for all
rows at once. What is recommended: :mod:`pretrieve.reporting.tables.my_corpus_answer`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from pretrieve.evaluation.fusion_weight import EVEN, FOREIGN, LEAST
from pretrieve.reporting.tables.my_corpus_answer import FEW, FEWEST, Answer, minutes
from pretrieve.reporting.tables.my_corpus_read import TRAINED, Comparison, counted, metric_name
from pretrieve.reporting.tables.outside_text import to_markdown_table, to_markdown_text

HEADS = ("row", "kind", "system", "metric", "mean", "sd", "seeds", "queries")
MORE = ("gain", "low", "high", "bm25_weight", "wall_s", "gpu_h", "peak_gb", "query_ms", "disk_gb")


def to_csv(found: Comparison) -> str:
    """One line for each row and metric; what is known of a row once stands with the first metric."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*HEADS, *MORE])
    for row in found.rows:
        more = [
            *(("", "", "") if row.gain is None else (f"{part:.4f}" for part in row.gain)),
            f"{row.weight:g}" if row.kind == "hybrid" else "",
            f"{row.cost.wall_s:.1f}",
            f"{row.cost.gpu_h:.4f}",
            f"{row.cost.peak_gb:.2f}",
            f"{row.running.ms:.2f}",
            f"{row.running.disk / 1e9:.3f}",
        ]
        for number, (metric, score) in enumerate(row.scores.items()):
            sd = "" if score.sd is None else f"{score.sd:.4f}"
            head = [row.label, row.kind, row.system, metric, f"{score.mean:.4f}", sd, len(row.seeds), found.queries]
            writer.writerow([*head, *(more if number == 0 else [""] * len(MORE))])
    return text.getvalue()


def make_page(
    request: Mapping[str, Any], found: Comparison, stats: Mapping[str, Any], advice: Answer, weights: Mapping[str, Any]
) -> dict[str, Any]:
    """What Markdown and HTML both show. stats: ``stats.json`` of the tested task, of the one that was trained on, and of the
    ``collection`` that was read; weights: of the hybrids."""
    metrics = list(request["metrics"])
    best = {metric: max(row.scores[metric].mean for row in found.rows) for metric in metrics}
    return {
        "folder": request["folder"],
        "sentences": list(advice.sentences),
        "heads": ["", *map(metric_name, metrics), "gain over BM25", "to build", "GB", "ms a query", "GB of disk"],
        "rows": [
            {
                "label": row.label,
                "used": advice.recommended and row is advice.use,
                "scores": [(str(row.scores[m]), row.scores[m].mean == best[m]) for m in metrics],
                "rest": [
                    "" if row.gain is None else str(row.gain),
                    minutes(row.cost.wall_s),
                    f"{row.cost.peak_gb:.1f}",
                    f"{row.running.ms:.0f}",
                    f"{row.running.disk / 1e9:.2f}",
                ],
            }
            for row in found.rows
        ],
        "notes": _notes(request, found, stats, weights),
    }


def _notes(
    request: Mapping[str, Any], found: Comparison, stats: Mapping[str, Any], weights: Mapping[str, Any]
) -> list[str]:
    kinds, lengths = {row.kind for row in found.rows}, request["lengths"]
    trained = [row for row in found.rows if {row.kind, row.dense_kind} & {*TRAINED, "rerank"}]
    training = _training(request, stats) if trained else "nothing is trained"
    notes = [
        f"{counted(stats['tested']['candidates'], 'document')}, {counted(found.queries, 'test query')}; {training}; a query is "
        f"read up to {lengths['query_length']} tokens, a document up to {lengths['passage_length']}.",
        f"All dense rows{' but the one from random weights' if 'scratch' in kinds else ''} begin with {request['start']}. Its "
        "training may have had texts like these.",
        "Mean over seeds ± standard deviation. BM25 and the published encoder draw nothing and have one run.",
        f"Gain: of {metric_name(found.metric)} over BM25 [95 % interval over queries and seeds, for all rows at once].",
        "To build: wall time of all stages that a score needs for one seed, shared ones in full for each; GB: the largest memory "
        "of a stage. Queries are timed one after the other on one core, BM25's with the opening of its index.",
        _weights_note(found, weights),
    ]
    if "rerank" in kinds:
        notes.append(f"Reranked: the first {request['rerank']} hits of BM25, by a cross-encoder with the start's body.")
    if request["remarks"]:
        notes.append(f"The folder: {'; '.join(request['remarks'])}.")
    skipped = stats["collection"]["warnings"]
    notes += [f"{kind[0].upper()}{kind[1:]}: {skipped[kind]['count']:,}." for kind in skipped if "left out" in kind]
    said = dict[str, list[str]]()
    for row in found.rows:
        said.setdefault(row.note, []).append(row.label)
    notes += [f"{'; '.join(labels)}: {note}." for note, labels in said.items() if note]
    if any(len(row.seeds) == 1 for row in trained):
        notes.append("One seed of a row: its interval does not hold what another seed would give.")
    if FEWEST <= found.queries < FEW:
        notes.insert(1, f"So few queries show large differences only: judge {FEW} or more before a small one decides.")
    return notes


def _training(request: Mapping[str, Any], stats: Mapping[str, Any]) -> str:
    number = next(iter(stats["trained"]["splits"].values()))["train"]
    pairs = "pairs made of the corpus, for there is no train split (zero-shot)"
    return f"fine-tuned on {number:,} {pairs if request['generated'] else 'questions'}"


def _weights_note(found: Comparison, weights: Mapping[str, Any]) -> str:
    hybrids = [row for row in found.rows if row.kind == "hybrid"]
    questions = max((weights[row.system]["questions"] for row in hybrids), default=0)
    shares = ", ".join(dict.fromkeys(f"{row.weight:g}" for row in hybrids))
    if questions < LEAST:
        return (
            f"Hybrids: weighted sums of scores; BM25's share is {shares}, for there are too few development questions to "
            f"choose one: {questions} ({EVEN:g} in a language that the published encoder was trained in, {FOREIGN:g} in others)."
        )
    return (
        f"Hybrids: weighted sums of scores; BM25's share, chosen on {questions} development questions and near to even where "
        f"they do not tell: {shares}."
    )


def to_markdown(page: Mapping[str, Any]) -> str:
    """The page as Markdown."""
    body = [
        [
            f"**{row['label']}**" if row["used"] else row["label"],
            *(f"**{value}**" if best else value for value, best in row["scores"]),
            *row["rest"],
        ]
        for row in page["rows"]
    ]
    blocks = [
        f"# What to search {to_markdown_text(page['folder'])} with",
        f"> **{page['sentences'][0]}** {' '.join(page['sentences'][1:])}",
        to_markdown_table(page["heads"], body, 1),
        "\n".join(f"- {note}" for note in page["notes"]),
    ]
    return "\n\n".join(blocks) + "\n"
