"""The answer for a corpus of one's own, in three sentences: what to deploy, what pre-training was worth, what it costs. With
fewer than :data:`FEWEST` test queries, in two: there is no recommendation, and BM25 is what is exported.

**What to deploy.** The row with the highest mean is the best one. If its interval over BM25 reaches 0, BM25 is what to deploy. If
not, it is the cheapest row that is above BM25 beyond its own interval, and that the queries do not tell from the best one (the
interval of their difference reaches 0): ties go to the cheaper. The intervals hold for all rows at once, for the choice is made
on the queries that it is measured with. A cross-encoder is a row to compare with, and never deployed: no search of this project
runs one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pretrieve.base import paths
from pretrieve.reporting.tables.my_corpus_read import DENSE, Comparison, Difference, Row, best_of, counted, metric_name

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
    recommended = found.queries >= FEWEST
    use = _deployed(found, best) if recommended else found.bm25
    dense = [row for row in found.rows if row.kind in DENSE]
    behind = next((row for row in dense if row.system in (use.system, use.dense)), None)
    if recommended:
        sentences = (_first(found, use, best), _second(found), _third(found, use, best, documents))
    else:
        sentences = _too_few(found.queries)
    return Answer(use, recommended, best, behind or best_of(dense), sentences)


def _too_few(queries: int) -> tuple[str, str]:
    return (
        f"No recommendation: {counted(queries, 'test query')} {'is' if queries == 1 else 'are'} too few, for even a search that "
        f"is ahead on every one may be so by chance; judge {FEWEST} or more, {FEW} to see small differences.",
        "Until then the retriever is BM25, which costs least.",
    )


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
