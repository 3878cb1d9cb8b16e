"""What the report says first is made from measured values by fixed rules, and says so where nothing is beyond chance.

Seen to fail when: a gain within chance is called ahead; the second best is named; the difference is that of the other direction;
a claim for one seed goes before one for all; a claim without an interval, or one whose effect points the other way, is named;
guesses are counted once for each table; a rule without data gives a sentence.
"""

from __future__ import annotations

import pytest

from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.report.boards import boards_of
from pretrieve.reporting.report.findings import Found, Sentence, claim_counts, sentences
from pretrieve.reporting.report.league import Pair, Standing
from pretrieve.reporting.report.paper_order import Rank
from pretrieve.reporting.tables.filling import Line

CONTINUED = {"body": "transformer", "layers": "deep", "start": "base", "budget": "continued"}
ENCODERS = {
    "none": {"body": "transformer", "layers": "deep", "objective": "none"},
    "bert": CONTINUED | {"objective": "mlm"},
    "condenser": CONTINUED | {"objective": "condenser"},
    "retromae": CONTINUED | {"objective": "retromae"},
}
SCORES = {"bm25": "60.00", "none": "3.00", "bert": "20.00", "condenser": "21.00", "retromae": "26.00"}


def blank(kind, **fields):
    return kind(**(dict.fromkeys(kind._fields, "") | fields))


def standing(encoder: str, **fields: str) -> Standing:
    place = {"recipe": "r-full", "dataset": "qa", "metric": "recall@10", "unit": "%", "queries": "300", "n_seeds": "3"}
    given = {"encoder": encoder, "score": SCORES[encoder], "wall_s": "12.4", "beyond_chance": "yes"}
    return blank(Standing, **place, **given, cell=f"tiny/table1: {encoder} | x, R@10", **fields)


def pair(a: str, b: str, q: str, **fields: str) -> Pair:
    place = {"recipe": "r-full", "dataset": "qa", "metric": "recall@10", "unit": "%", "queries": "300", "n_seeds": "3"}
    effect = float(SCORES[a]) - float(SCORES[b])
    bounds = {"low": f"{effect - 4:.2f}", "high": f"{effect + 4:.2f}"}
    return blank(Pair, **place, a=a, b=b, effect=f"{effect:.2f}", **bounds, p=q, q=q, **fields)


def gains(q_condenser: str, q_retromae: str, q_bm25: str = "0.0001") -> tuple[list[Standing], list[Pair]]:
    pairs = [pair("bert", "condenser", q_condenser), pair("bert", "retromae", q_retromae)]
    pairs += [pair("retromae", "bm25", q_bm25), pair("bm25", "bert", "0.0001")]
    more = [standing(name) for name in ("bm25", "none", "bert")]
    for name, q, effect in (("condenser", q_condenser, 1), ("retromae", q_retromae, 6)):
        of = {"effect": f"{effect:.2f}", "effect_low": f"{effect - 4:.2f}", "effect_high": f"{effect + 4:.2f}"}
        more.append(standing(name, baseline="bert", q=q, p=q, **of))
    return more, pairs


def said(standings=(), pairs=(), findings=(), comparisons=(), ranks=(), lines=()) -> list[Sentence]:
    anchors = {f"tiny/table1: {name} | x, R@10": f"tiny-table1-{name}" for name in SCORES}
    boards = boards_of(standings, pairs, ENCODERS, {}, anchors)
    lines = dict(lines)
    words = {"qa": "questions of this project"}
    return sentences(Found(standings, pairs, boards, findings, comparisons, ranks, lines, anchors, ENCODERS, words))


def test_the_largest_gain_on_plain_masked_words_comes_first():
    one = said(*gains("0.6000", "0.0100"))[0]
    assert one.text == (
        "The largest gain over plain masked words that is beyond chance is that of RetroMAE: R@10 26.00 against 20.00 of Masked "
        "words (bert) on questions of this project. Of 2 differences, 1 is ahead, 0 behind, 1 within chance."
    )
    assert one.effect == "+6.00 [2.00, 10.00] points" and (one.queries, one.seeds) == ("300", "3")
    assert one.cost == "12 s against 12 s"
    assert one.links == (
        ("compare", "#league?recipe=r-full&metric=recall@10&a=retromae&b=bert"),
        ("tiny table1: retromae, x", "#tiny-table1-retromae"),
        ("tiny table1: bert, x", "#tiny-table1-bert"),
    )


def test_a_gain_within_chance_is_none():
    one = said(*gains("0.6000", "0.0500"))[0]
    assert one.text.startswith(
        "No objective is ahead of plain masked words beyond chance; the largest difference is that of RetroMAE"
    )
    assert one.text.endswith("Of 2 differences, 0 are ahead, 0 behind, 2 within chance.")
    standings, pairs = gains("0.6000", "0.0500")
    one = said([one for one in standings if one.encoder != "condenser"], pairs[1:])[0]
    assert one.text.endswith("Of 1 difference, 0 are ahead, 0 behind, 1 within chance.")


def test_what_is_beyond_chance_goes_before_what_is_larger():
    assert "that is beyond chance is that of Condenser" in said(*gains("0.0100", "0.0500"))[0].text


def test_guesses_alone_are_said_to_be_that():
    standings, pairs = gains("", "")
    one = said([one._replace(beyond_chance="no") for one in standings], pairs)[0]
    assert not any("plain masked words" in one.text for one in said(standings, pairs)), "scores without an interval"
    assert one.text.endswith("of 2 pairs none has a score beyond guessing.") and one.effect == ""


@pytest.mark.parametrize(
    ("q", "begin"),
    [
        ("0.0001", "BM25 is ahead of the best encoder of the recipe r, full training set: "),
        ("0.2", "BM25 and the best encoder of the recipe r, full training set do not differ"),
    ],
)
def test_bm25_is_compared_with_the_best_encoder(q, begin):
    one = said(*gains("0.6000", "0.0100", q))[1]
    assert one.text.startswith(begin) and "R@10 60.00 against 26.00 of RetroMAE" in one.text
    assert one.effect == "+34.00 [30.00, 38.00] points", "BM25 minus the encoder, whichever the file has first"


def test_pre_training_is_compared_with_random_weights():
    standings, pairs = gains("0.6000", "0.0100")
    pairs += [pair("none", "bert", "0.0400"), pair("none", "retromae", "0.0001"), pair("bm25", "none", "0.0001")]
    one = next(one for one in said(standings, pairs) if one.text.startswith("Against random weights"))
    assert "RetroMAE gains the most: R@10 26.00 against 3.00" in one.text and one.effect.startswith("+23.00")
    assert one.text.endswith("Of 2 such differences 2 are ahead and 0 behind.")


def test_a_claim_that_asks_for_more_than_was_found_says_what_it_asks_for():
    small = finding("small", "fails for this seed only", "-0.05", "-0.8", "0.7")
    [one] = said(findings=[small._replace(check="the first exceeds the second by more than 2%")])
    assert one.text.endswith("“The claim small.” Asked for: the first exceeds the second by more than 2%.")
    assert one.effect == "−0.05 [−0.80, 0.70] points"
    [one] = said(findings=[small._replace(check="more"), finding("less", "fails for this seed only", "-4", "-5", "-3")])
    assert one.text.endswith("“The claim less.”"), "a clear difference goes first"
    [one] = said(
        findings=[small._replace(id="b", groups="1/3/3", high="0.9"), small._replace(groups="0/3/3", check="more")]
    )
    assert one.text.endswith("Asked for: more."), "one that no comparison is for goes first"


def finding(name: str, verdict: str, effect: str, low: str, high: str) -> Finding:
    facts = {"claim": f"The claim {name}.", "seeds": "3", "groups": "2/2/3", "unit": "%"}
    return blank(Finding, id=name, verdict=verdict, effect=effect, low=low, high=high, **facts)


def test_the_clearest_claim_on_each_side_is_named_with_its_cells():
    findings = [
        finding("weak", "supported", "2", "1", "3"),
        finding("clear", "supported", "8", "7.5", "8.5"),
        finding("for-one-seed", "holds for this seed only", "9", "8.9", "9.1"),
        finding("bare", "supported", "99", "", ""),
        finding("against", "fails for this seed only", "-4.567", "-5", "-4"),
        finding("crooked", "contradicted", "70", "69", "71"),
        finding("open", "inconclusive", "50", "49", "51"),
    ]
    cells = '["tiny/table1: bert | x, R@10", "tiny/table1: none | x, R@10"]'
    line = blank(Line, queries="1200", wall_s="7.6")
    found = said(
        findings=findings,
        comparisons=[blank(Comparison, id="clear", cells=cells, values="1; 2")],
        lines={"tiny/table1: bert | x, R@10": line},
    )
    assert [one.text for one in found] == [
        "Best supported of the papers' claims: “The claim clear.”",
        "Most clearly contradicted of the papers' claims (for this seed only): “The claim against.”",
    ]
    assert (found[0].effect, found[0].queries, found[0].cost) == ("+8.00 [7.50, 8.50] points", "1,200", "8 s a row")
    assert found[0].links[0] == ("claim, 2 / 2 / 3 comparisons", "#claim-clear")
    assert found[0].links[1:] == (
        ("tiny table1: bert, x", "#tiny-table1-bert"),
        ("tiny table1: none, x", "#tiny-table1-none"),
    )
    assert found[1].effect == "−4.57 [−5.00, −4.00] points"
    assert claim_counts(findings) == [
        ("supported", 4, "1 for this seed only"),
        ("contradicted", 2, "1 for this seed only"),
        ("undecided", 1, ""),
        ("not tested", 0, ""),
    ]
    assert claim_counts([blank(Finding, verdict="not tested")])[3] == (
        "not tested",
        1,
        "all not measured in this run",
    )


def test_the_order_is_summed_up_over_columns():
    def rank(column: str, rho: str, low: str, flips: str, shown: str, p: str = "0.0400") -> Rank:
        of = {"pairs": "6", "flips": flips, "flips_shown": shown, "p": p}
        return blank(Rank, paper="tiny", table="table1", column=column, rho=rho, low=low, high="1.00", **of)

    ranks = [
        rank("x", "0.90", "0.20", "1", "0"),
        rank("y", "0.30", "-0.40", "2", "1"),
        rank("z", "-0.50", "-0.90", "4", "2"),
    ]
    assert said(ranks=[one._replace(low="", high="") for one in ranks]) == [], "no uncertainty is known"
    one = said(ranks=[*ranks, *ranks])[0]
    assert one.text.startswith(
        "In 1 of 3 columns the rows stand nearer to the paper's order than 95 % of random orders do."
    )
    assert "Of 18 pairs of rows 7 are the other way round here, 3 of them beyond chance." in one.text
    assert one.effect == "Spearman's rho 0.30 in the middle column, −0.10 to 0.60 in the middle half of them"
    few = [rank("x", "0.90", "0.20", "1", "0", p="0.0500"), *ranks[1:]]
    assert said(ranks=few)[0].text.startswith("In 0 of 3 columns"), (
        "as near as one in twenty random orders is not enough"
    )


def test_guesses_are_counted_once():
    def line(system: str, beyond: str) -> Line:
        of = {"dataset": "qa", "metric": "mrr", "queries": "300", "n_seeds": "3"}
        return blank(Line, system=system, status="scale-differs", beyond_chance=beyond, **of)

    lines = {"a": line("s", "no"), "b": line("s", "no"), "c": line("t", "yes"), "d": line("u", "")}
    one = said(lines=lines)[0]
    assert one.text.startswith("1 of 2 scores are no better than guessing.")
    assert said(lines={"c": lines["c"]}) == []


def test_a_run_without_measurements_has_no_findings():
    assert said() == []
