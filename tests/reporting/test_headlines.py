"""The headlines of a publication: effects in points, what is at the level of guessing, and claims without a measurement.

Seen to fail when: a fraction is shown as a fraction; BM25 of another data set or of other queries is shown; a value at the
level of guessing is not counted; a smaller scale is shown; HEADLINES has two claims of a paper; another comparison than the
ledger's is taken.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.operations.publish.headlines import (
    HEADLINES,
    best_headlines,
    headline_picture,
    headline_table,
    in_a_sentence,
    read_headlines,
)
from pretrieve.reporting.claims.claims import load_claims
from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.tables.filling import Line, read_lines, write_lines
from pretrieve.reporting.tables.rows import read_rows, write_rows

ROOT = Path(__file__).parents[2]
CLAIM = {
    "id": "a",
    "paper": "p",
    "table": "table1",
    "estimand": "A minus B.",
    "verdict": "inconclusive",
    "seeds": "1",
    "scale": "demo",
}
EFFECT = {"effect": "0.015", "low": "-0.0049", "high": "0.035", "unit": "fraction"}


def filled(kind: type, **fields: str):
    return kind(**dict.fromkeys(kind._fields, "") | fields)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run with a claim of two comparisons, the second of which has the ledger's effect, and a claim without any."""
    cells = [json.dumps([f"p/table1: A, {x}", f"p/table1: B, {x}"]) for x in ("R@1", "R@5")]
    write_rows(
        tmp_path / "claims.csv",
        [
            filled(Finding, **CLAIM, **EFFECT, q="0.06602"),
            filled(Finding, **CLAIM | {"id": "b", "verdict": "not tested"}),
        ],
        Finding,
    )
    groups = [
        filled(Comparison, id="a", number="1", cells=cells[0], values="0.9; 0.4", effect="0.5", low="0.4", high="0.6"),
        filled(Comparison, id="a", number="2", cells=cells[1], values="0.02; 0.005", **EFFECT),
    ]
    write_rows(tmp_path / "claims.groups.csv", groups, Comparison)
    lines = [
        filled(Line, row=row, column=column, dataset=f"data-{column}", metric=column, queries="40")._replace(
            beyond_chance=beyond, status="scale-differs", measured="0.5"
        )
        for row, beyond in (("A", "yes"), ("B", "no"))
        for column in ("R@1", "R@5")
    ]
    papers = {("A", "R@5"): "0.7", ("B", "R@5"): "0.65"}
    lines = [
        line._replace(published_value=papers.get((line.row, line.column), ""), published_unit="fraction")
        for line in lines
    ]
    (tmp_path / "tables/p").mkdir(parents=True)
    write_lines(tmp_path / "tables/p/table1.csv", lines)
    bm25 = filled(
        Line, row="BM25", system="bm25.x-full", dataset="data-R@5", queries="40", unit="%", status="scale-differs"
    )
    write_lines(
        tmp_path / "tables/p/table2.csv",
        [
            bm25._replace(metric="R@5", measured="31.25"),
            bm25._replace(metric="R@5", measured="99", dataset="other"),
            bm25._replace(metric="R@5", measured="98", queries="41"),
            bm25._replace(metric="mrr@10", measured="20"),
            bm25._replace(metric="mrr@5", measured="18"),
        ],
    )
    for name in ("table1", "table2"):
        (tmp_path / f"tables/p/{name}.tex").touch()
    return tmp_path


def test_the_table_has_points_both_sides_bm25_and_what_is_at_chance(root: Path) -> None:
    table = headline_table(read_headlines(root, ["a", "b"], "runs/x")).splitlines()
    link = "[table1](runs/x/p/table1.md)"
    assert table[2:] == [
        "| p | A minus B. | demo | 2.0 against 0.5 | 31.2 | 70.0 against 65.0 | +1.5 [−0.5, 3.5] | 40 queries of `data-R@5`, R@5"
        f" | 1 | inconclusive; q 0.066; 1 of 2 values ≈ chance | {link}: A, R@5 |",
        f"| p | A minus B. | demo | – | – | – | – | – | 1 | not tested | {link} |",
    ]


@pytest.mark.parametrize(("q", "said"), [("4.3e-05", "; q < 0.001"), ("0.0014", "; q 0.0014"), ("", "")])
def test_the_verdict_has_its_q(root: Path, q: str, said: str) -> None:
    one = read_headlines(root, ["a"])[0]
    assert one._replace(cells=(), finding=one.finding._replace(q=q)).verdict == "inconclusive" + said


def test_bm25_at_a_smaller_depth_is_a_bound(root: Path) -> None:
    """Of mean reciprocal ranks alone, and the deepest of them."""
    path = root / "tables/p/table1.csv"
    lines = read_lines(path)
    for metric, said in (
        ("mrr", (20.0, True)),
        ("mrr@7", (18.0, True)),
        ("mrr@10", (20.0, False)),
        ("recall@100", (None, False)),
    ):
        write_lines(path, [line._replace(metric=metric) for line in lines])
        one = read_headlines(root, ["a"])[0]
        assert (one.bm25, one.is_bound) == pytest.approx(said)


def test_the_sentence_counts_rows(root: Path) -> None:
    one, other = read_headlines(root, ["a", "b"])
    assert in_a_sentence([one, other]) == (
        "The table has a row for each paper. In 0 of 1 rows the method is ahead of its baseline, in 0 it is behind, and in 1 the "
        "95 % interval includes 0. BM25 scores higher than both in 1 of the 1 rows where it was measured (no significance test)."
    )
    ahead = one._replace(finding=one.finding._replace(low="0.001"), bm25=1.0)
    assert "In 1 of 1 rows" in in_a_sentence([ahead]) and "in 0 of the 1 rows" in in_a_sentence([ahead])


def test_the_picture_says_what_the_table_says(root: Path) -> None:
    headlines = read_headlines(root, ["a", "b"])
    picture = headline_picture(headlines)
    assert all(
        text in picture
        for text in (
            ">+1.5, inconclusive<",
            ">q 0.066<",
            ">1 of 2 values ≈ chance<",
            ">not tested<",
            "minus B. (demo)<",
        )
    )
    assert headline_picture(headlines) == picture


def test_a_headline_is_from_the_first_run_that_measured_it(root: Path, tmp_path: Path) -> None:
    """Or from the last; a ledger of an earlier time may lack the claim."""
    first, second = tmp_path / "first", tmp_path / "second"
    for other in (first, second):
        shutil.copytree(root / "tables", other / "tables")
        for name in ("claims.csv", "claims.groups.csv"):
            shutil.copyfile(root / name, other / name)
    measured, untested = read_rows(root / "claims.csv", Finding)
    write_rows(first / "claims.csv", [measured._replace(effect="", low="", high="")], Finding)
    write_rows(second / "claims.csv", [measured, untested], Finding)
    runs = [(first, "1"), (second, "2"), (root, "3")]
    assert [one.folder for one in best_headlines(runs, ["b", "a"])] == ["3", "2"]
    with pytest.raises(DataError, match="no claim c"):
        best_headlines(runs, ["c"])


def test_a_publication_of_other_tables_is_passed_over(root: Path, tmp_path: Path) -> None:
    """Its ledger is of the whole run. Where no other run has the table, it says what to do."""
    part = tmp_path / "2026-01-02-small-0123abc"
    part.mkdir()
    for name in ("claims.csv", "claims.groups.csv"):
        shutil.copyfile(root / name, part / name)
    assert [one.folder for one in best_headlines([(part, "1"), (root, "2")], ["a"])] == ["2"]
    with pytest.raises(DataError, match=r"p/table1.csv: no such table, and README.md shows .* publish --no-readme"):
        best_headlines([(part, "1")], ["a"])


def test_what_the_ledger_does_not_have_is_named(root: Path) -> None:
    with pytest.raises(DataError, match="claims.csv: no claim c, which README.md shows"):
        read_headlines(root, ["c"])
    write_lines(root / "tables/p/table1.csv", [])
    with pytest.raises(DataError, match="p/table1 has no cell 'A, R@5'"):
        read_headlines(root, ["a"])


def test_one_claim_of_each_paper_is_shown() -> None:
    claims = {claim.name: claim.paper for claim in load_claims(ROOT / "references/claims.yaml")}
    papers = [claims[name] for name in HEADLINES]
    assert len(papers) == len(set(papers)) and set(papers) == set(claims.values())
