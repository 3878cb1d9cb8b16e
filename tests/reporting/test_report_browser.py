"""The tables of the report in a headless Chromium: panel of a cell, keyboard, address, sorting, a phone, and paper.

Seen to fail when: the panel lies over its cell, stays open on another page, or comes before its cell for Tab; Escape leaves the
focus behind; the address keeps the page's; a link names a file that is not there; published values are sorted among measured
ones; rows aside are unfolded, or stay folded when one is asked for; heads of groups are hidden on a phone; row names are as
narrow as their longest word; a printed legend is closed, a folded row is not printed, or a wide table is cut.
"""

from __future__ import annotations

import base64
import io
import math
import unicodedata
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from browser import CHROMIUM, Browser
from made_league import write_league, write_table
from pypdf import PdfReader

from pretrieve.base.files import write_json
from pretrieve.base.paths import table_file
from pretrieve.references.tables import load_table
from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.report.page import render
from pretrieve.reporting.tables.render import to_html
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import write_rows
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the report with")
ROOT = Path(__file__).parents[2]
#: One that begins with quoted rows, and one with twelve columns under heads in three rows.
TABLES = ["dupmae/table1", "condenser/table5"]
DUPMAE, WIDE = (name.replace("/", "-") for name in TABLES)
RUN = Path("results/demo")
QUERIES = 200
PANEL = "document.querySelector('#details')"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report on two tables with invented scores, at ``results/demo/report.html`` of a new folder."""
    patch = pytest.MonkeyPatch()
    patch.chdir(tmp_path_factory.mktemp("run"))
    config = read_config(ROOT / "config.yaml") | {"tables": TABLES, "figures": [], "scale": "demo", "seeds": [1]}
    plan = Plan.load(config, ROOT / "references", ROOT / "resources/sources.tsv")
    for name in TABLES:
        paper, stem = name.split("/")
        table = load_table(ROOT / f"references/{paper}/paper.yaml", ROOT / f"references/{name}.csv")
        setting = Setting.of(plan.setting(paper))
        files = {}
        for i, cell in enumerate(table.cells):
            for path in setting.files_of(table, cell):
                record = files.setdefault(
                    path, {"n_queries": QUERIES, "n_candidates": 999, "metrics": {}, "per_query": {}}
                )
                hits = 11 + 7 * i % 180
                record["metrics"][cell.metric] = hits / QUERIES
                record["per_query"][cell.metric] = {f"q{q}": float(q < hits) for q in range(QUERIES)}
        for path, record in files.items():
            write_json(path, record)
        lines = write_table(RUN, name, table, setting)
        Path(table_file(str(RUN), paper, stem, "html")).write_text(to_html(table, lines, setting), encoding="utf-8")
    write_league(RUN, TABLES, config["encoders"])
    write_rows(RUN / "claims.csv", [], Finding)
    write_rows(RUN / "claims.groups.csv", [], Comparison)
    (RUN / "report.html").write_text(render(plan, RUN, ROOT / "references"), encoding="utf-8")
    yield (RUN / "report.html").resolve()
    patch.undo()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def opened(browser, report):
    """Opens a part of the report on a desk, or on a phone."""

    def opened(part: str = "", width: int = 1400, page: Path = report) -> Browser:
        browser.look(width, 850)
        browser.open(page.as_uri() + part)
        return browser

    yield opened
    assert not browser.problems


def column_of(browser: Browser, table: str, column: int, body: int) -> list[float]:
    """What a column's cells sort by, as shown; nan where a cell has no number of the kind."""
    rows = f"[...document.querySelectorAll('#{table} table.values')[0].tBodies[{body}].querySelectorAll('tr[id]')]"
    return [float(text or "nan") for text in browser.run(f"{rows}.map(row => row.cells[{column}].dataset.order || '')")]


def tab(browser: Browser) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)


@pytest.mark.parametrize("width", [1400, 390])
def test_the_panel_never_covers_its_cell(opened, width):
    browser = opened(f"#{WIDE}", width)
    asked = browser.run(f"""
        [...document.querySelectorAll('#{WIDE} .cell')].map(cell => {{
            cell.scrollIntoView({{ block: 'nearest', inline: 'end' }});
            cell.click();
            const at = cell.getBoundingClientRect();
            const there = document.elementFromPoint(at.right - 8, at.top + at.height / 2);
            const panel = document.querySelector('#details').getBoundingClientRect();
            return [cell.id, cell.contains(there), panel.top >= at.bottom - 1, panel.left >= 0 && panel.right <= innerWidth + 1];
        }})""")
    assert len(asked) == 30
    assert [cell for cell in asked if cell[1:] != [True, True, True]] == []


def test_the_panel_closes_on_the_way_to_another_page(opened):
    browser = opened(f"#{DUPMAE}-r15c2")
    assert not browser.run(f"{PANEL}.hidden")
    browser.run("document.querySelector('nav a[href=\"#condenser\"]').click()")
    assert browser.run(f"{PANEL}.hidden && !document.querySelector('.cell.chosen, .tray')")
    browser.run(f"document.getElementById('{WIDE}-r2c4').click()")
    browser.run(f"document.querySelectorAll('#{WIDE} .sort')[1].click()")
    assert browser.run(f"{PANEL}.hidden"), "sorted rows leave the panel without its cell"


def test_keys_open_reach_and_close_the_panel(opened):
    browser = opened(f"#{DUPMAE}")
    cell = f"{DUPMAE}-r15c2"
    browser.run(f"document.getElementById('{cell}').focus()")
    browser.press("Enter")
    tab(browser)
    assert browser.run(f"{PANEL}.contains(document.activeElement) && document.activeElement.className") == "close"
    browser.press("Escape")
    assert browser.run(f"{PANEL}.hidden") and browser.run("document.activeElement.id") == cell
    tab(browser)
    assert browser.run("document.activeElement.closest('.cell') === null"), "one stop of Tab for a table's cells"


def test_the_address_says_what_is_shown(opened):
    browser = opened("#condenser")
    browser.run(f"document.getElementById('{WIDE}').scrollIntoView()")
    browser.run("new Promise(done => setTimeout(done, 300))")
    assert browser.run("location.hash") == f"#{WIDE}"
    browser.run(f"document.getElementById('{WIDE}-r2c4').click()")
    assert browser.run("location.hash") == f"#{WIDE}-r2c4"
    browser.press("Escape")
    assert browser.run("location.hash") == f"#{WIDE}"
    browser.press("/")
    for letter in "dupmae":
        browser.press(letter)
    assert browser.run("location.search") == "?q=dupmae"
    shown = (
        "[...document.querySelectorAll('.values tr[id]')].filter(row => row.getClientRects().length).map(row => row.id)"
    )
    found = browser.run(shown)
    browser.open(browser.run("location.href"))
    assert browser.run(shown) == found != []


def test_links_lead_to_files_of_the_checkout(opened, report):
    browser = opened(f"#{DUPMAE}-r15c2")
    to = {
        name: browser.run(f"{PANEL}.querySelector('.to-{name}').href") for name in ("paper", "reference", "csv", "docs")
    }
    assert to.pop("paper") == "https://arxiv.org/abs/2211.08769"
    files = {name: Path(unquote(urlparse(address).path)) for name, address in to.items()}
    assert files["csv"].is_file()
    checkout = report.parents[2]
    assert all((ROOT / files[name].relative_to(checkout)).is_file() for name in ("reference", "docs"))
    assert files["reference"].name == "table1.csv" and "dupmae" in files["reference"].parts
    alone = report.parents[2] / "downloaded.html"
    alone.write_bytes(report.read_bytes())
    browser.open(f"{alone.as_uri()}#{DUPMAE}-r15c2")
    hidden = "['csv', 'reference', 'docs', 'paper'].map(name => document.querySelector('.to-' + name).hidden)"
    assert browser.run(hidden) == [True, True, True, False], "no files lie beside a report that was sent to somebody"


def test_sorting_keeps_published_values_apart(opened):
    browser = opened(f"#{DUPMAE}")
    printed = [column_of(browser, DUPMAE, 2, body) for body in (0, 1)]
    assert len(printed[0]) == 3 and len(printed[1]) == 13 and max(printed[0]) < 1
    press = f"document.querySelector('#{DUPMAE} th[data-column=\"2\"] .sort').click()"
    for sign in (-1, 1):
        browser.run(press)
        for body, before in enumerate(printed):
            assert column_of(browser, DUPMAE, 2, body) == sorted(before, key=lambda x: sign * x), "each kind by itself"
    browser.run(press)
    assert [column_of(browser, DUPMAE, 2, body) for body in (0, 1)] == printed
    # A column that is measured in some rows only: the others' published values are not numbers to sort by.
    not_run = column_of(browser, DUPMAE, 5, 0)
    assert all(map(math.isnan, not_run))
    assert browser.run(f"document.querySelectorAll('#{DUPMAE} thead .group').length") == 1, (
        "the group stays above its columns"
    )


def test_rows_that_are_not_measured_are_folded_until_asked_for(opened):
    browser = opened(f"#{DUPMAE}")
    shown = f"[...document.querySelectorAll('#{DUPMAE} tr[id]')].filter(row => row.getClientRects().length).length"
    assert browser.run(shown) == 3
    browser.run(f"document.querySelector('#{DUPMAE} .fold button').click()")
    assert browser.run(shown) == 16
    assert browser.run(f"document.querySelector('#{DUPMAE} .fold button').getAttribute('aria-expanded')") == "true"
    browser.open(browser.run("location.href").partition("#")[0] + f"#{DUPMAE}-r2c1")
    assert browser.run(shown) == 16 and not browser.run(f"{PANEL}.hidden")


def test_a_phone_shows_groups_and_short_row_names(opened):
    browser = opened(f"#{DUPMAE}", 390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.run(f"document.querySelector('#{DUPMAE} .fold button').click()")
    heights = browser.run(
        f"[...document.querySelectorAll('#{DUPMAE} tr[id] > th:not(.outer)')].map(name => name.getBoundingClientRect().height)"
    )
    assert len(heights) == 16 and max(heights) < 100, "five lines"
    group = f"document.querySelector('#{DUPMAE} .group')"
    assert browser.run(f"{group}.textContent").startswith("MS MARCO Dev")
    assert browser.run(f"{group}.getBoundingClientRect().height") > 10


def test_two_compared_rows_fit_a_phone(opened):
    browser = opened("#league", 390)
    browser.run("[...document.querySelectorAll('.board:not([hidden]) .pick')].slice(0, 2).map(pick => pick.click())")
    box = "document.querySelector('.board:not([hidden]) .pair .scroll')"
    assert browser.run(f"{box}.querySelectorAll('th, td').length") >= 14
    assert browser.run(f"{box}.scrollWidth <= {box}.clientWidth")


def test_a_correlation_with_its_interval_and_p_stands_on_one_line(opened):
    browser = opened("#order")
    rho = "document.querySelector('.rho')"
    browser.run(f"{rho}.lastChild.data = 'rho −0.50 [−1.00, −0.50], p 0.83'")
    assert browser.run(f"{rho}.querySelectorAll('.whisker').length") == 1
    lines = "text => { const all = new Range(); all.selectNodeContents(text); return all.getClientRects().length; }"
    assert browser.run(f"({lines})({rho}.lastChild)") == 1


def printed(browser: Browser) -> tuple[list[str], float]:
    """Text of each page on paper, and the largest part of a page's width at which a text begins."""
    answer = browser.call("Page.printToPDF", preferCSSPageSize=True)
    texts, right = [], [0.0]
    for page in PdfReader(io.BytesIO(base64.b64decode(answer["data"]))).pages:

        def look(text, cm, tm, _font, _size, width=float(page.mediabox.width)):
            if text.strip():
                right.append((tm[4] * cm[0] + cm[4]) / width)

        # "ff" of a PDF is one letter, which this takes apart.
        texts.append(unicodedata.normalize("NFKC", page.extract_text(visitor_text=look)))
    return texts, max(right)


def test_paper_has_whole_tables_and_their_legends(opened):
    browser = opened(f"#{DUPMAE}-r15c2")
    texts, right = printed(browser)
    text = "\n".join(texts)
    assert "SimLM" in text and "RetroMAE Xiao" in text, "rows aside are printed"
    assert "half widths of the difference" in text and "Student" in text, "the legend is printed"
    assert "copy the command" not in text and "Condenser: a Pre-training" not in text, "no panel, no other page"
    assert right < 0.97
    assert not browser.run("document.querySelector('.reading').open"), "closed again"
    texts, right = printed(opened(f"#{WIDE}"))
    assert any(page.count("FULL") == 3 for page in texts) and right < 0.97, "twelve columns beside each other"


def test_a_page_of_its_own_has_quoted_rows_last_and_fits_paper(opened, report):
    browser = opened(page=report.parent / "tables/dupmae/table1.html")
    rows = browser.run("[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].textContent)")
    assert rows[0].startswith("RetroMAE") and rows[3] == "Not measured here: 13 rows" and len(rows) == 17
    texts, right = printed(opened(page=report.parent / "tables/condenser/table5.html"))
    assert texts[0].count("FULL") == 3 and "half widths of the difference" in "\n".join(texts) and right < 0.97
