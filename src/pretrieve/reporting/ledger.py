"""The claims ledger of a run: ``claims.csv`` (one line for each claim), ``claims.groups.csv`` (one for each comparison that a
claim is made of) and ``claims.md`` (to be read).

A verdict is about the run, not about the paper: below paper scale it says what small models on little data show.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pretrieve.reporting.claims import Place
from pretrieve.reporting.verdicts import LEVEL, VERDICTS, Outcome, Verdict

#: What a claim's check asks for, in words; {m} is the margin.
CHECKS = {
    "greater": "the first exceeds the second",
    "close": "both within {m}",
    "gap": "the first advantage exceeds the second",
    "ratio": "the first is at least {m} of the second",
    "order": "each exceeds the next",
    "correlation": "rank correlation {sign} {m}",
}
SIGNS = {"greater": " > ", "close": " ≈ ", "gap": " − ", "ratio": " / ", "order": " > ", "correlation": ", "}


class Finding(NamedTuple):
    """One line of ``claims.csv``, every field as text.

    ``groups``: comparisons for the claim / measured / all; ``pointing``: measured ones whose values alone pass; ``needed``: how
    many must be for it; ``effect``: median over the measured, in ``unit``; ``cells``: rows and columns, or panels and series,
    that the claim looks at; ``values``: of every measured comparison.
    """

    id: str
    paper: str
    section: str
    table: str
    claim: str
    verdict: str
    scale: str
    groups: str
    pointing: str
    against: str
    needed: str
    effect: str
    unit: str
    p: str
    check: str
    test: str
    seeds: str
    cells: str
    values: str
    note: str


class Comparison(NamedTuple):
    """One line of ``claims.groups.csv``: a group of cells.

    ``cells`` (a JSON list of places) and ``values`` (separated by ``;``) are in one order.
    """

    id: str
    number: str
    outcome: str
    cells: str
    values: str
    effect: str
    unit: str
    p: str
    p_holm: str
    note: str


def to_findings(verdicts: Sequence[Verdict], scale: str) -> list[Finding]:
    """The lines of ``claims.csv``, in the order given."""
    return [_finding(verdict, scale) for verdict in verdicts]


def _finding(verdict: Verdict, scale: str) -> Finding:
    claim, measured = verdict.claim, verdict.measured
    units = {value.unit for outcome in measured for value in outcome.values}
    sign = SIGNS[claim.type]
    return Finding(
        id=claim.name,
        paper=claim.paper,
        section=claim.section,
        table=claim.table,
        claim=claim.claim,
        verdict=verdict.verdict,
        scale=scale,
        groups=f"{verdict.counts['for']}/{len(measured)}/{len(verdict.outcomes)}",
        pointing=str(verdict.pointing),
        against=str(verdict.counts["against"]),
        needed=str(verdict.needed),
        effect=_number(verdict.effect),
        unit="" if claim.type in ("ratio", "correlation") else " ".join(sorted(units)),
        p=_p(verdict.p),
        check=check_in_words(verdict),
        test=claim.test,
        seeds=" ".join(sorted({value.n_seeds for o in measured for value in o.values if value.n_seeds})),
        cells=_cells([place for outcome in verdict.outcomes for place in outcome.places]),
        values="; ".join(sign.join(str(value.number) for value in outcome.values) for outcome in measured),
        note=verdict.note,
    )


def _cells(places: Sequence[Place]) -> str:
    """``table3: Condenser, BERT × Top-20 1K, Top-20 10K``: tables (figures), their rows (panels) and columns (series)."""
    parts = []
    for of in dict.fromkeys((place.paper, place.of) for place in places):
        here = [place.where for place in places if (place.paper, place.of) == of]
        words = (", ".join(dict.fromkeys(where[i] for where in here)) for i in (0, 1))
        parts.append(f"{of[1]}: {' × '.join(words)}")
    return "; ".join(parts)


def check_in_words(verdict: Verdict) -> str:
    """``the first exceeds the second by more than 1.5, in 90 % of the comparisons``."""
    claim = verdict.claim
    text = CHECKS[claim.type].format(m=abs(claim.margin), sign="of at least" if claim.margin >= 0 else "of at most −")
    text = text.replace("− ", "−")
    if claim.type in ("greater", "gap", "order") and claim.margin:
        more = f"by more than {claim.margin}" if claim.margin > 0 else f"or is behind by less than {-claim.margin}"
        text = f"{text} {more}"
    return text + (f", in {claim.share:.0%} of the comparisons" if claim.share < 1 else "")


def to_comparisons(verdicts: Sequence[Verdict]) -> list[Comparison]:
    """The lines of ``claims.groups.csv``."""
    return [
        _comparison(verdict.claim.name, i + 1, outcome)
        for verdict in verdicts
        for i, outcome in enumerate(verdict.outcomes)
    ]


def _comparison(name: str, number: int, outcome: Outcome) -> Comparison:
    return Comparison(
        id=name,
        number=str(number),
        outcome=outcome.outcome,
        cells=json.dumps([str(place) for place in outcome.places], ensure_ascii=False),
        values="; ".join(str(value.number) for value in outcome.values),
        effect=_number(outcome.effect),
        unit=outcome.values[0].unit if outcome.values else "",
        p=_p(outcome.p),
        p_holm=_p(outcome.p_holm),
        note=outcome.note,
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def count_verdicts(findings: Sequence[Finding]) -> dict[str, int]:
    """Number of claims of each verdict, all four words in order."""
    counts = Counter(finding.verdict for finding in findings)
    return {word: counts[word] for word in VERDICTS}


def what_it_shows(scale: str, findings: Sequence[Finding] = ()) -> list[str]:
    """What verdicts of this scale are about and what they leave open, in sentences for the reader."""
    if scale == "paper":
        said = ["Measured at the papers' own scale: a verdict is about the finding itself."]
    else:
        said = [
            f"Measured at the {scale} scale: small models, little data, short training. A verdict says what happens here, and "
            "not whether the paper is right.",
            "A claim that a test supports shows that the effect needs no large model; where the values alone decide, it shows "
            "less. A contradicted one shows that it is not there at this scale: with more data, more layers or longer training "
            "it may appear.",
        ]
    if scale == "demo":
        said.append(
            "What such models can show: whether an objective that is near to retrieval pays off soon, and effects that are large "
            "beside the noise of some hundred test queries. What they cannot: what long texts, many negatives in a batch, or "
            "pre-training until nothing more is learnt would do, and differences of a point or two. Where BM25 is far ahead of "
            "all encoders, who is first among them is a question about beginnings."
        )
    if {finding.seeds for finding in findings if finding.seeds} == {"1"}:
        said.append(
            "All of it is from one seed. A test on queries says that other queries of this kind would give the same result; it "
            "does not say that another seed would. Claims that are about seeds stay inconclusive."
        )
    return said


def to_markdown(findings: Sequence[Finding], scale: str) -> str:
    """The ledger as a page: counts, what they mean, and a table for each paper."""
    counts = count_verdicts(findings)
    blocks = [
        f"# Claims at the {scale} scale",
        ", ".join(f"**{n}** {word}" for word, n in counts.items()) + f", of {len(findings)}.",
        " ".join(what_it_shows(scale, findings)),
        "*For* is a comparison of cells that passes the claim's check: beyond chance where it is tested (*queries*: "
        f"randomisation test on the same queries, p < {LEVEL}, corrected for the claim's comparisons; *seeds*: against the "
        "deviation over seeds), by its values alone where *Test* is none. Values that guessing would have too speak neither for "
        "nor against a claim. *Groups* is: for / measured / all. *Effect* is the median over the measured comparisons. *p* is "
        "that of the weakest comparison which the verdict needs. What each comparison gave is in claims.groups.csv.",
    ]
    for paper in dict.fromkeys(finding.paper for finding in findings):
        lines = [
            f"## {paper}",
            "",
            "| Verdict | Finding | Where | Cells | Test | Groups | Effect | p | Seeds | Note |",
            "|:--|:--|:--|:--|:--|--:|--:|--:|--:|:--|",
        ]
        for f in findings:
            if f.paper == paper:
                effect = f"{f.effect} {f.unit}".strip() if f.effect else ""
                test = {"paired": "queries"}.get(f.test, f.test)
                told = (f.claim, f"{f.section}, {f.table}", f.cells, test, f.groups, effect, f.p, f.seeds, f.note)
                cells = (f"**{f.verdict}**", *told)
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
