"""The table of a corpus of one's own as CSV, Markdown and HTML: every row's scores, its gain over BM25, and what it costs.

Scores are means over seeds with their sample standard deviation. The interval of a gain has the parts of the
ledger's (other seeds and other queries; :mod:`pretrieve.reporting.tables.my_corpus_read`), and is wide enough to hold for all
rows at once.

The answer is three sentences: what to deploy, what pre-training was worth, what it costs. With fewer than :data:`FEWEST` test
queries it is two: there is no recommendation, and BM25 is what is exported.

**What to deploy.** The row with the highest mean is the best one. If its interval over BM25 reaches 0, BM25 is what to deploy. If
not, it is the cheapest row that is above BM25 beyond its own interval, and that the queries do not tell from the best one (the
interval of their difference reaches 0): ties go to the cheaper. The intervals hold for all rows at once, for the choice is made
on the queries that it is measured with. A cross-encoder is a row to compare with, and never deployed: no search of this project
runs one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

from pretrieve.base import paths
from pretrieve.evaluation.fusion_weight import EVEN, FOREIGN, LEAST
from pretrieve.reporting.tables.my_corpus_read import (
    DENSE,
    TRAINED,
    Comparison,
    Difference,
    Row,
    best_of,
    counted,
    metric_name,
)
from pretrieve.reporting.tables.rows import to_markdown_table, to_markdown_text

#: With fewer test queries nothing is recommended. If no row differs from BM25, the probability that one of 25 rows is better, or
#: worse, on all of n queries is at most 2 · 25 · 0.5ⁿ (sign test, Bonferroni): 10 % for 9 queries, 5 % for 10.
FEWEST = 10
#: With fewer a note says so: TREC takes 50 for the least that tells systems apart (Voorhees and Buckley 2002).
FEW = 50


class Answer(NamedTuple):
    """use: the row to deploy; recommended: whether enough queries say so; best: with the highest mean; exported: a dense row, the
    one that is deployed or behind it, or else the best; sentences: two or three."""

    use: Row
    recommended: bool
    best: Row
    exported: Row
    sentences: tuple[str, ...]


def answer(found: Comparison, documents: int) -> Answer:
    """The answer of a comparison. documents: of the corpus."""
    best = best_of(_deployable(found))
    n, recommended = found.queries, found.queries >= FEWEST
    use = _deployed(found, best) if recommended else found.bm25
    dense = [row for row in found.rows if row.kind in DENSE]
    behind = next((row for row in dense if row.system in (use.system, use.dense)), None)
    sentences = (
        f"No recommendation: {counted(n, 'test query')} {'is' if n == 1 else 'are'} too few, for even a search that "
        f"is ahead on every one may be so by chance; judge {FEWEST} or more, {FEW} to see small differences.",
        "Until then the retriever is BM25, which costs least.",
    )
    if recommended:
        sentences = (_first(found, use, best), _second(found), _third(found, use, best, documents))
    return Answer(use, recommended, best, behind or best_of(dense), sentences)


def _deployable(found: Comparison) -> list[Row]:
    return [row for row in found.rows if row.kind != "rerank"]


def _deployed(found: Comparison, best: Row) -> Row:
    if best.gain is None or best.gain.low <= 0:
        return found.bm25
    above = [row for row in _deployable(found) if row.gain is not None and row.gain.low > 0]
    tied = [row for row in above if row is best or found.difference(best, row).may_be_nothing]
    return min(tied, key=lambda row: row.effort)


def _first(found: Comparison, use: Row, best: Row) -> str:
    name, n = metric_name(found.metric), f"{found.queries:,} test queries"
    said = f"Deploy {use.label}: {name} {use.mean:.3f}"
    if use is found.bm25:
        other = best if best is not use else best_of(_deployable(found)[1:])
        if other.gain.high < 0:
            said += f"; every other row is below it, the nearest, {other.label}, by {_interval(other.gain)}, on {n}"
        else:
            said += f"; {other.label} has {other.mean:.3f}, a difference of {_interval(other.gain)}, which {n} do not tell from"
            said += " chance, and BM25 costs least"
    else:
        said += f", which is {_interval(use.gain)} above BM25's {found.bm25.mean:.3f}, on {n}"
        if best is use:
            said += "; no other row that can be deployed has a higher mean"
        else:
            said += f"; {best.label} has {best.mean:.3f}, but the difference of {_interval(found.difference(best, use))} may be "
            said += f"chance, and {use.label} costs less"
    for row in found.rows:
        if row.kind == "rerank" and row.mean > best.mean:
            said += f"; {row.label} has {row.mean:.3f} ({_interval(row.gain)} over BM25), but no search here runs a cross-encoder"
    return f"{said}."


def _second(found: Comparison) -> str:
    tuned = next((row for row in found.rows if row.kind == "fine-tuned"), None)
    continued = [row for row in found.rows if row.kind == "continued"]
    if tuned is None or not continued:
        return "Whether more pre-training on these texts helps was not measured in this run."
    best = best_of(continued)
    gain = found.difference(best, tuned)
    of = f"the best of {len(continued)} objectives" if len(continued) > 1 else "the only objective"
    seeds = "" if len(best.seeds) > 1 else ", with one seed each"
    verdict = "may be nothing" if gain.may_be_nothing else "is beyond chance" if gain.low > 0 else "is a loss"
    return (
        f"More pre-training on these texts before fine-tuning ({best.label.removesuffix(', fine-tuned')}, {of}) changes "
        f"{metric_name(found.metric)} by {_interval(gain)} over fine-tuning alone, {tuned.mean:.3f}{seeds}, which {verdict}."
    )


def _third(found: Comparison, use: Row, best: Row, documents: int) -> str:
    cost = (
        f"{use.label[0].upper()}{use.label[1:]} takes {minutes(use.cost.wall_s)} to build, {use.cost.peak_gb:.1f} GB of memory "
        f"for that, {use.running.disk / 1e9:.2f} GB of disk, and {use.running.ms:.0f} ms a query on one core among "
        f"{counted(documents, 'document')}"
    )
    other = best if best is not use else best_of([row for row in _deployable(found) if row is not use])
    difference = found.difference(other, use)
    reach = max(difference.high - difference.effect, difference.effect - difference.low)
    return (
        f"{cost}; these queries do not tell a difference up to {reach:.3f} between it and {other.label} from chance (four times "
        "as many would tell half of that), and more steps may change the trained rows."
    )


def _interval(difference: Difference) -> str:
    return f"{difference.effect:+.3f} (95 % interval {difference.low:+.3f} to {difference.high:+.3f})"


def minutes(seconds: float) -> str:
    """``75`` → ``1 min 15 s``."""
    whole, rest = divmod(round(seconds), 60)
    return f"{whole} min {rest:02d} s" if whole else f"{seconds:.1f} s"


def choice(found: Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """``choice.json``: what is deployed, which dense retriever is exported, and where it is.

    The exported one is that of the first seed: choosing among seeds by the test queries would make its number better than it is.
    """
    use, dense = found.use, found.exported
    seed = dense.seeds[0]
    deploy = {
        "kind": "dense" if use.kind in DENSE else use.kind,
        "dense": dense.system if use.kind in (*DENSE, "hybrid") else None,
        "weights": {"bm25": use.weight, "dense": round(1 - use.weight, 10)} if use.kind == "hybrid" else None,
    }
    return {
        "use": use.system,
        "label": use.label,
        "recommended": found.recommended,
        "exported": dense.system,
        "seed": seed,
        "sentence": found.sentences[0],
        "sentences": list(found.sentences),
        "deploy": deploy,
        "retriever": paths.retriever_dir(request["root"], dense.system, request["trained_on"], seed),
        "metrics": paths.metrics_file(request["root"], dense.system, request["dataset"], seed),
        **request["lengths"],
    }


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
    said = f", chosen on {questions} development questions and near to even where they do not tell: {shares}."
    if questions < LEAST:
        said = (
            f" is {shares}, for there are too few development questions to choose one: {questions} ({EVEN:g} in a language that "
            f"the published encoder was trained in, {FOREIGN:g} in others)."
        )
    return f"Hybrids: weighted sums of scores; BM25's share{said}"


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
