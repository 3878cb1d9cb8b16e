"""The claims ledger of a run: ``claims.csv`` (one line for each claim), ``claims.groups.csv`` (one for each comparison that a
claim is made of) and ``claims.md`` (to be read).

A verdict is about the run, not about the paper: below paper scale it says what small models on little data show.

What others measured that speaks to claims (``references/reproductions.yaml``) stands beside them, and decides nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.references.yaml_files import check
from pretrieve.reporting.claims.claims import Claim, Place, entries_of
from pretrieve.reporting.claims.outcomes import LEVEL, p_in_digits
from pretrieve.reporting.claims.verdicts import FAILS, HOLDS, NOT_TESTABLE, VERDICTS, Verdict
from pretrieve.reporting.tables.rows import text_tuple


class Reproduction(NamedTuple):
    """What others measured that speaks to a claim: ``value`` in ``unit``, or in words (``note``); ``source``: where it can be
    read."""

    by: str
    system: str
    data: str
    source: str
    claims: tuple[str, ...]
    metric: str = ""
    value: float | None = None
    unit: str = ""
    note: str = ""

    def __str__(self) -> str:
        number = "" if self.value is None else f": {self.metric} {self.value:g} {self.unit}".rstrip()
        what = f"{self.by}: {self.system}, {self.data}{number}"
        return f"{what} ({self.source})" + (f"; {self.note}" if self.note else "")


def load_reproductions(path: Path | str, claims: Sequence[Claim]) -> list[Reproduction]:
    """Read what others measured (``references/reproductions.yaml``).

    Raises ConfigError for unreadable text, a key that is missing, unknown or senseless, and a claim that is not among ``claims``.
    """
    found, names = [], {claim.name for claim in claims}
    for i, entry in enumerate(entries_of(path, "reproductions"), 1):
        where = f"{path}: reproduction {i}"
        check(entry, where, "claims", "reproduction")
        if ("metric" in entry) != ("value" in entry) or not {"value", "note"} & set(entry):
            raise ConfigError(f"{where}: expected metric and value, or a note that says in words what was found.")
        for name in entry["claims"]:
            if name not in names:
                raise ConfigError(f"{where}: no claim {name!r}{nearest(name, sorted(names)) or '.'}")
        found.append(Reproduction(**{**entry, "claims": tuple(entry["claims"])}))
    return found


#: What a claim's check asks for, in words, and where that is not the contrary, what speaks against it; {m} is the smallest effect
#: of interest.
CHECKS = {
    "greater": ("the first exceeds the second", "a difference below {m}"),
    "at-least": ("the first exceeds the second by more than {m}", ""),
    "not-worse": ("the first is behind the second by less than {m}", ""),
    "near": ("the two differ by less than {m}", ""),
    "gap": ("the first advantage exceeds the second", "a difference below {m}"),
    "order": ("each exceeds the next", "a difference below {m}"),
    "correlation": ("the rank correlation is {sign} 0", "one that does not reach {m}"),
    "reach": ("the first needs at most {m} of the steps in which the second comes to its best", ""),
}
SIGNS = dict.fromkeys(CHECKS, " > ") | {"near": " ≈ ", "not-worse": " ≥ ", "gap": " − "}
SIGNS |= dict.fromkeys(("correlation", "reach"), ", ")


class Finding(
    text_tuple(
        "Finding",
        "id paper section table claim verdict scale groups pointing against needed effect low high unit p q estimand "
        "smallest_effect check seeds not_learnt second others cells values note",
        later="trained",
    )
):
    """One line of ``claims.csv``, every field as text.

    ``groups``: comparisons for the claim / measured / all; ``pointing``: measured ones whose values alone pass; ``needed``: how
    many must be for it; ``effect``, ``low`` and ``high``: of the measured comparison with the median effect, and its interval
    over seeds and queries, in ``unit``; ``p`` of the claim and ``q``, adjusted for all claims; ``seeds``: of what was trained;
    ``not_learnt``: rows whose values are at the level of guessing; ``second``: the same by contrastive entropy; ``others``: what
    others measured; ``cells``: rows and columns, or panels and series, that the claim looks at; ``values``: of every measured
    comparison; ``trained``: the numbers of training examples behind them.
    """


class Comparison(
    text_tuple("Comparison", "id number outcome cells values effect low high unit p_for p_against not_learnt note")
):
    """One line of ``claims.groups.csv``: a group of cells. ``cells`` (a JSON list of places) and ``values`` (separated by ``;``)
    are in one order."""


def to_findings(verdicts: Sequence[Verdict], scale: str, others: Sequence[Reproduction] = ()) -> list[Finding]:
    """The lines of ``claims.csv``, in the order given. others: what others measured, for the claims that they speak to."""
    return [_finding(verdict, scale, others) for verdict in verdicts]


def _finding(verdict: Verdict, scale: str, others: Sequence[Reproduction]) -> Finding:
    claim, measured, middle = verdict.claim, verdict.measured, verdict.middle
    values = [value for outcome in measured for value in outcome.values]
    return Finding(
        id=claim.name,
        paper=claim.paper,
        section=claim.section,
        table=claim.table,
        claim=claim.claim,
        verdict=verdict.verdict,
        scale=scale,
        groups=f"{verdict.counts['for']}/{len(measured)}/{len(verdict.outcomes)}",
        pointing=str(sum(outcome.points for outcome in measured)),
        against=str(verdict.counts["against"]),
        needed=str(verdict.needed),
        effect=_number(middle and middle.effect),
        low=_number(middle and middle.low),
        high=_number(middle and middle.high),
        unit="" if claim.type in ("reach", "correlation") else " ".join(sorted({value.unit for value in values})),
        p=p_in_digits(verdict.p),
        q=p_in_digits(verdict.q),
        estimand=claim.estimand,
        smallest_effect=str(claim.smallest_effect),
        check=check_in_words(claim),
        seeds=" or ".join(sorted({value.n_seeds for value in values if value.encoder})),
        not_learnt=", ".join(dict.fromkeys(name for outcome in measured for name in outcome.not_learnt)),
        second=verdict.beside,
        others=" | ".join(str(other) for other in others if claim.name in other.claims),
        cells=_cells([place for outcome in verdict.outcomes for place in outcome.places]),
        values="; ".join(SIGNS[claim.type].join(str(value.number) for value in o.values) for o in measured),
        note=verdict.note,
        trained=", ".join(f"{n:,}" for n in sorted({n for o in verdict.outcomes for n in o.trained})),
    )


def _cells(places: Sequence[Place]) -> str:
    """``table3: Condenser, BERT × Top-20 1K, Top-20 10K``: tables (figures), their rows (panels) and columns (series)."""
    parts = []
    for of in dict.fromkeys((place.paper, place.of) for place in places):
        here = [place.where for place in places if (place.paper, place.of) == of]
        words = (", ".join(dict.fromkeys(where[i] for where in here)) for i in (0, 1))
        parts.append(f"{of[1]}: {' × '.join(words)}")
    return "; ".join(parts)


def check_in_words(claim: Claim) -> str:
    """``the first is behind the second by less than 10%, in 90% of the comparisons``."""
    sign = "below" if claim.smallest_effect.size < 0 else "above"
    text, against = (words.format(m=claim.smallest_effect, sign=sign) for words in CHECKS[claim.type])
    text += f", and by less than {claim.at_most}" if claim.at_most else ""
    text += ", and the second is one" if claim.both_gain else ""
    text += f", in {claim.share:.0%} of the comparisons" if claim.share < 1 else ""
    return text + (f"; against it: {against}" if against else "")


def to_comparisons(verdicts: Sequence[Verdict]) -> list[Comparison]:
    """The lines of ``claims.groups.csv``."""
    return [
        Comparison(
            id=verdict.claim.name,
            number=str(i),
            outcome=outcome.outcome,
            cells=json.dumps([str(place) for place in outcome.places], ensure_ascii=False),
            values="; ".join(str(value.number) for value in outcome.values),
            effect=_number(outcome.effect),
            low=_number(outcome.low),
            high=_number(outcome.high),
            unit=outcome.values[0].unit if outcome.values else "",
            p_for=p_in_digits(outcome.p_for) if outcome.low is not None else "",
            p_against=p_in_digits(outcome.p_against) if outcome.low is not None else "",
            not_learnt=", ".join(outcome.not_learnt),
            note=outcome.note,
        )
        for verdict in verdicts
        for i, outcome in enumerate(verdict.outcomes, 1)
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def count_verdicts(findings: Sequence[Finding]) -> dict[str, int]:
    """Number of claims of each verdict, all words in order."""
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
            "A supported claim shows that the effect needs no large model. A contradicted one shows that it is not there at this "
            "scale: with more data, more layers or longer training it may appear.",
        ]
    if scale == "demo":
        said.append(
            "Such models can show whether an objective that is close to retrieval helps early, and effects that are larger than "
            "the noise of a few hundred test queries. They cannot show what long texts, many negatives in a batch or converged "
            "pre-training would do, nor differences of one or two points. Where BM25 is far ahead of "
            "all encoders, their order says how fast they begin to learn, not how far they get."
        )
    if any(finding.verdict in (HOLDS, FAILS) for finding in findings):
        said.append(
            "Where only one seed was trained, no verdict on training is given. “Holds for this seed only” says that other "
            "queries of this kind would give the same result with these models; another seed may not."
        )
    if any(finding.verdict == NOT_TESTABLE for finding in findings):
        said.append("“Not testable here”: this scale's data or its number of training examples cannot show the claim.")
    return said


def to_markdown(findings: Sequence[Finding], scale: str) -> str:
    """The ledger as a page: counts, what they mean, and a table for each paper."""
    counts = count_verdicts(findings)
    blocks = [
        f"# Claims at the {scale} scale",
        ", ".join(f"**{n}** {word}" for word, n in counts.items()) + f", of {len(findings)}.",
        " ".join(what_it_shows(scale, findings)),
        "*For* is a comparison of cells that shows what the claim says, over other seeds and other queries together (each p < "
        f"{LEVEL / 2}). Values no better than guessing count neither for nor against a claim. *Groups* is: for / measured / "
        "all. *Effect* is that of the middle comparison with room for it, with its 95 % interval. *q* is the claim's p, "
        f"adjusted to a false-discovery rate of {LEVEL:.0%} over all claims. What each comparison gave is in claims.groups.csv.",
    ]
    for paper in dict.fromkeys(finding.paper for finding in findings):
        lines = [
            f"## {paper}",
            "",
            "| Verdict | Finding | Where | What is estimated | Smallest effect | Cells | Groups | Effect | q | Seeds | "
            "Trained on | Note | By contrastive entropy | Measured by others |",
            "|:--|:--|:--|:--|--:|:--|--:|--:|--:|--:|--:|:--|:--|:--|",
        ]
        for f in findings:
            if f.paper == paper:
                asked = (f.claim, f"{f.section}, {f.table}", f.estimand, f.smallest_effect, f.cells)
                found = (f.groups, effect_in_words(f), f.q, f.seeds, f.trained, f.note, f.second, f.others)
                cells = (f"**{f.verdict}**", *asked, *found)
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def effect_in_words(finding: Finding | Comparison) -> str:
    """``1.2 [0.3, 2.1] %``; '' where nothing was measured."""
    interval = f" [{finding.low}, {finding.high}]" if finding.low else ""
    return f"{finding.effect}{interval} {finding.unit}".strip() if finding.effect else ""
