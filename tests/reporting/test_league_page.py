"""In a real browser, two clicks answer whether one encoder beats another, by how much, whether beyond chance, and at what cost.

Seen to fail when: the second pick replaces the first; a pair picked the other way round keeps its sign; the address forgets a
row; an address of the league leads to the first page; a board of another recipe stays in view.
"""

from __future__ import annotations

import pytest
import test_report
from browser import Browser
from test_report import RUN, needs_browser

from pretrieve.reporting.report.league import Pair
from pretrieve.reporting.tables.rows import read_rows

#: The run of two tables and the report on it.
plan, finished = test_report.plan, test_report.finished
BOARD = "document.querySelector('#league .board:not([hidden])')"


@pytest.fixture(scope="module")
def browser(finished, tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    browser.look(1400, 900)
    yield browser
    assert not browser.problems
    browser.close()


def pick(browser: Browser, encoder: str) -> None:
    browser.run(f"{BOARD}.querySelector('tr[data-encoder=\"{encoder}\"] .pick').click()")


def answer(browser: Browser) -> str:
    return browser.run(f"{BOARD}.querySelector('.pair').innerText")


def number(text: str, plus: bool = False) -> str:
    return ("+" if plus and float(text) > 0 else "") + text.replace("-", "−")


@needs_browser
def test_two_clicks_compare_two_rows(browser, finished):
    address = (finished / "report.html").as_uri()
    pairs = [pair for pair in read_rows(RUN / "league.pairs.csv", Pair) if pair.metric == "recall@10"]
    pair = max((p for p in pairs if p.recipe == "reqa-80pct" and p.q), key=lambda p: abs(float(p.effect)))
    assert float(pair.effect)
    browser.open(f"{address}#league?recipe=reqa-80pct&metric=recall@10")
    assert browser.run("document.querySelector('#league').hidden") is False
    assert browser.run(f"{BOARD}.querySelector('.pair').hidden"), "nothing is picked yet"
    pick(browser, pair.a)
    assert "pick a second row" in answer(browser)
    pick(browser, pair.b)
    text = answer(browser)
    for part in (number(pair.effect, plus=True), f"{number(pair.low)} to {number(pair.high)}", pair.q, pair.dataset):
        assert part in text, part
    assert "beyond chance on" in text and "Cost:" in text and "One seed" in text
    assert browser.run("location.hash") == (f"#league?recipe=reqa-80pct&metric=recall%4010&a={pair.a}&b={pair.b}")
    seen = browser.run(
        "(() => { const r = "
        + BOARD
        + ".querySelector('.pair').getBoundingClientRect(); return [r.top, r.bottom]; })()"
    )
    assert seen[0] >= 0 and seen[1] <= 900, "the answer is in view"

    # The address shows it again, and picked the other way round it is the other difference.
    browser.open(address + browser.run("location.hash"))
    assert answer(browser) == text
    pick(browser, pair.a)
    pick(browser, pair.a)
    turned = str(-float(pair.effect)) if float(pair.effect) > 0 else pair.effect[1:]
    assert f"{float(turned):+.2f}".replace("-", "−") in answer(browser)
    assert browser.run("location.hash").endswith(f"&a={pair.b}&b={pair.a}")


@needs_browser
def test_recipe_and_metric_choose_the_table(browser, finished):
    browser.open((finished / "report.html").as_uri() + "#league")
    shown = "[...document.querySelectorAll('#league .board:not([hidden])')].map(board => board.id)"
    assert len(browser.run(shown)) == 1, "the first, of many"
    form = "document.querySelector('#league .choose').elements"
    browser.run(f"{{ {form}.recipe.value = 'reqa-1pct'; {form}.recipe.dispatchEvent(new Event('change')); return 0; }}")
    browser.run(f"{{ {form}.metric.value = 'recall@50'; {form}.metric.dispatchEvent(new Event('change')); return 0; }}")
    assert browser.run(shown) == ["league-reqa-1pct-recall-50"]
    assert browser.run("location.hash") == "#league?recipe=reqa-1pct&metric=recall%4050"
    browser.run("location.hash = 'league-reqa-5pct-recall-10'")
    assert browser.run(shown) == ["league-reqa-5pct-recall-10"], "a board has an address, too"


@needs_browser
def test_the_first_pages_fit_a_phone(browser, finished):
    browser.look(390, 844)
    for part in ("overview", "league?recipe=reqa-80pct&a=bm25&b=transformer-mlm", "order", "build"):
        browser.open(f"{(finished / 'report.html').as_uri()}#{part}")
        assert browser.run("document.documentElement.scrollWidth") <= 390, part
    browser.look(1400, 900)
