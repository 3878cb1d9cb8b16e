"""The report shows every cell, opens from a disk without asking for anything, and answers to a reader in a real browser.

The browser tests want a Chromium; the others read the file.

Seen to fail when: claims link to no cell; two cells have one
address; the search hides no row; every sorting is upwards; a cell of another page stays out of view; the script has an error;
the style sheet asks for a font; tables are wider than a phone; pictures shrink with it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from made_league import write_league, write_table

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.paths import figure_file, table_file
from pretrieve.references.tables import load_table
from pretrieve.reporting.claims.claims import load_claims
from pretrieve.reporting.claims.ledger import Comparison, Finding, to_comparisons, to_findings
from pretrieve.reporting.claims.measured import Measurements
from pretrieve.reporting.claims.verdicts import judge_claims
from pretrieve.reporting.figures.draw import to_svg
from pretrieve.reporting.figures.measure import FigureSetting, measure_figure
from pretrieve.reporting.figures.points import Point
from pretrieve.reporting.report.fidelity import encoder_choices, recipe_choices
from pretrieve.reporting.report.page import render
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import write_rows
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).parents[2]
TABLES = ["pretraining_tasks/table3", "condenser/table1"]
FIGURE = "condenser/figure2"
RUN = Path("results/demo")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the report with")


@pytest.fixture(scope="module")
def plan() -> Plan:
    config = read_config(ROOT / "config.yaml")
    config |= {"tables": TABLES, "figures": [FIGURE], "scale": "demo", "seeds": [1]}
    sources = ROOT / "resources/sources.tsv"
    return Plan.load(config, ROOT / "references", sources)


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    """A folder with a run of two tables: invented scores for one of them, nothing for the other. Returns it and the table."""
    folder = tmp_path_factory.mktemp("run")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    setting = Setting.of(plan.setting())
    for name in TABLES:
        paper = name.partition("/")[0]
        table = load_table(ROOT / f"references/{paper}/paper.yaml", ROOT / f"references/{name}.csv")
        for cell in table.cells if paper == "pretraining_tasks" else ():
            for path in setting.files_of(table, cell):
                there = json.loads(Path(path).read_text()) if Path(path).is_file() else {}
                there = there or {"n_queries": 5, "n_candidates": 9, "metrics": {}, "per_query": {}}
                hits = len(path + cell.metric) % 6
                there["metrics"][cell.metric] = hits / 5
                there["per_query"][cell.metric] = {f"q{i}": float(i < hits) for i in range(5)}
                write_json(path, there)
        write_table(RUN, name, table, setting)
    curve = RUN / "encoders/transformer-ict/seed1/curve.csv"
    curve.parent.mkdir(parents=True)
    curve.write_text("step,loss\n0,3.5\n1,2.5\n2,2.0\n")
    figure = plan.figures[FIGURE]
    points = measure_figure(figure, FigureSetting(setting), {})
    svg = Path(figure_file(str(RUN), *FIGURE.split("/")))
    svg.parent.mkdir(parents=True)
    svg.write_bytes(to_svg(figure, points, "demo"))
    write_rows(svg.with_suffix(".csv"), points, Point)
    papers = ("pretraining_tasks", "condenser")
    claims = [claim for claim in load_claims(ROOT / "references/claims.yaml") if claim.paper in papers]
    verdicts = judge_claims(claims, Measurements(RUN, [1]))
    write_rows(RUN / "claims.csv", to_findings(verdicts, "demo"), Finding)
    write_rows(RUN / "claims.groups.csv", to_comparisons(verdicts), Comparison)
    write_league(RUN, TABLES, plan.config["encoders"])
    page = render(plan, RUN, ROOT / "references")
    (folder / "report.html").write_text(page, encoding="utf-8")
    yield folder
    patch.undo()


@pytest.fixture(scope="module")
def page(finished) -> str:
    return (finished / "report.html").read_text(encoding="utf-8")


def test_every_cell_has_an_address_and_all_its_facts(page):
    for name in TABLES:
        anchor = name.replace("/", "-")
        table = load_table(ROOT / f"references/{name.split('/')[0]}/paper.yaml", ROOT / f"references/{name}.csv")
        assert len(re.findall(rf'<td id="{anchor}-r\d+c\d+"', page)) == len(table.cells)
        found = re.search(rf'data-details="{anchor}">(.*?)</script>', page)
        facts = json.loads(found[1])
        assert sum(cell is not None for row in facts["cells"] for cell in row) == len(table.cells)
        assert [head.rpartition("published: ")[2].partition(": here ")[0] for head in facts["columns"]] == table.columns
        assert [" | ".join(row) for row in facts["rows"]] == table.rows
    assert "snakemake results/demo/metrics/transformer-mlm.reqa-1pct/questions/seed1.json" in page


def test_ids_are_unique_and_links_lead_somewhere(page):
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 100
    targets = {address.partition("?")[0] for address in re.findall(r'href="#([^"]+)"', page)}
    assert targets and targets <= set(ids), sorted(targets - set(ids))


def test_nothing_comes_from_outside(page):
    assert not re.search(r'(?:src|href|action)="(?!#|data:,")', page) and "@import" not in page
    assert not re.search(r"url\((?!#)", page), "a style sheet that loads something"


def test_claims_link_to_the_cells_they_compare(page):
    claim = page[page.index('id="claim-ict-beats-bfs"') :]
    assert 'data-verdict="not tested"' in claim[:200] and "pretraining_tasks/table5 is not among" in claim[:3000]
    claim = page[page.index('id="claim-mlm-helps-squad"') :]
    assert 'href="#pretraining_tasks-table3-r5c3"' in claim[: claim.index("</details>")]


def test_claims_link_to_the_figures_whose_points_they_compare(page):
    assert 'href="#condenser-figure2">a, absolute change, mean</a>' in page and 'id="condenser-figure2"' in page


def test_what_is_not_built_is_named(page, plan):
    assert page.count('class="absent"') == len(plan.all_tables) + len(plan.figures) - len(TABLES) - 1


def test_a_missing_manifest_is_named(finished, plan):
    manifest = Path(table_file(str(RUN), *TABLES[0].split("/"), "manifest.json"))
    text = manifest.read_text()
    manifest.unlink()
    try:
        with pytest.raises(
            DataError, match=r"table3.manifest.json: no such file. Make it with: snakemake .*table3.csv"
        ):
            render(plan, RUN, ROOT / "references")
    finally:
        manifest.write_text(text)


def test_choices_say_which_source_they_follow(plan):
    part = encoder_choices(plan.config, "retromae")
    by_name = {choice.option: choice for choice in part.choices}
    # The default preset of RetroMAE is the released code's: whole words, where the paper has tokens.
    assert (by_name["unit"].used, by_name["unit"].paper, by_name["unit"].follows) == ("word", "token", "code")
    assert by_name["decoder_rate"].follows == "both" and by_name["examples"].follows == "neither"
    parts = recipe_choices(plan.config, "dpr-bm25", ["questions", "questions-open", "descriptions"])
    assert [dict(part.facts)["data"] for part in parts] == ["questions, descriptions", "questions-open"]


@needs_browser
def test_pictures_scroll_by_themselves_on_a_phone(finished, tmp_path):
    browser = Browser(tmp_path)
    try:
        address = (finished / "report.html").as_uri()
        width = "document.querySelector('#condenser-figure2 .figure svg').getBoundingClientRect().width"
        browser.look(375, 812)
        for part in ("#condenser", "#pretraining_tasks"):
            browser.open(address + part)
            assert browser.run("document.documentElement.scrollWidth") <= 375, part
        browser.open(f"{address}#condenser-figure2")
        box = "document.querySelector('#condenser-figure2 .figure')"
        assert browser.run(
            f"{box}.scrollWidth > {box}.clientWidth * 2 && (({box}.scrollLeft = 9999), {box}.scrollLeft > 300)"
        )
        size = "parseFloat(getComputedStyle([...document.querySelectorAll('#condenser-figure2 svg text')].at(-1)).fontSize)"
        box_width = "document.querySelector('#condenser-figure2 svg').viewBox.baseVal.width"
        assert browser.run(f"{size} * {width} / {box_width}") >= 9.9
        browser.look(1400, 900)
        browser.open(f"{address}#condenser-figure2")
        assert browser.run(f"{box}.scrollWidth <= {box}.clientWidth"), "nothing to scroll on a desk"
    finally:
        browser.close()


@needs_browser
def test_a_reader_opens_searches_sorts_and_asks(finished, tmp_path):
    browser = Browser(tmp_path)
    try:
        browser.look(1200, 900)
        address = (finished / "report.html").as_uri()
        shown = "[...document.querySelectorAll('main > .page:not([hidden])')].map(page => page.id)"
        browser.open(address)
        assert browser.run(shown) == ["overview"]

        # A link in the page leads to a cell of another page, and into view: nothing was there to scroll to before.
        browser.run("location.hash = 'pretraining_tasks-table3-r18c1'")
        last = browser.run("document.getElementById('pretraining_tasks-table3-r18c1').getBoundingClientRect().top")
        assert browser.run(shown) == ["pretraining_tasks"] and 0 < last < 900

        # So does an address from outside, and the cell tells all about itself.
        browser.open(f"{address}#pretraining_tasks-table3-r14c4")
        assert browser.run(shown) == ["pretraining_tasks"]
        place = "document.getElementById('pretraining_tasks-table3-r14c4').getBoundingClientRect()"
        assert 0 < browser.run(f"{place}.top") < 900 and 0 < browser.run(f"{place}.left") < 1200
        assert browser.run("document.querySelector('#details:not([hidden]) h2').textContent").endswith("R@50")
        assert "snakemake results/demo/metrics/" in browser.run("document.querySelector('#details code').textContent")
        browser.press("Escape")
        assert browser.run("document.querySelector('#details').hidden")

        # Arrow keys walk over the cells, Enter asks.
        browser.run("document.getElementById('pretraining_tasks-table3-r1c1').focus()")
        for key in ("ArrowDown", "ArrowRight", "Enter"):
            browser.press(key)
        assert browser.run("document.activeElement.id") == "pretraining_tasks-table3-r2c2"
        assert browser.run("document.querySelector('#details').hidden") is False
        browser.press("Escape")

        # Sorted by a column: downwards, then as printed again after the third time.
        column = "[...document.querySelectorAll('#pretraining_tasks-table3 tbody tr')].map(row => row.cells[3].dataset.order * 1)"
        press = "document.querySelectorAll('#pretraining_tasks-table3 .sort')[3].click()"
        printed = browser.run(column)
        browser.run(press)
        assert browser.run(column) == sorted(printed, reverse=True) != printed
        browser.run(press)
        assert browser.run(column) == sorted(printed)
        browser.run(press)
        assert browser.run(column) == printed

        # Search: "/" and a word; only rows with it stay, on every page that has one.
        browser.press("/")
        for letter in "bow-mlp table3":
            browser.press(letter)
        rows = "[...document.querySelectorAll('.values tbody tr:not([hidden])')].map(row => row.textContent)"
        found = browser.run(rows)
        assert len(found) == 6 and all("BoW-MLP" in row for row in found)
        assert browser.run("document.querySelector('#found').textContent").startswith("6 rows, ")
        browser.press("Escape")
        assert len(browser.run(rows)) > 6 and browser.run(shown) == ["pretraining_tasks"]

        # The filter of cells, from the address.
        browser.open(f"{address}?status=quoted")
        assert browser.run(shown) == ["condenser"]

        # No error, nothing asked for but the file; on a phone nothing but tables is wider than the window.
        browser.look(390, 844)
        for part in ("#overview", "#claims", "#pretraining_tasks"):
            browser.open(address + part)
            assert browser.run("document.documentElement.scrollWidth") <= 390, part
        assert not browser.problems
        assert all(url.startswith(("file:", "data:", "about:")) for url in browser.requests) and browser.requests
    finally:
        browser.close()
