"""README and docs: links and anchors lead somewhere, the site has every page, counts are those of the data.

Seen to fail when: a link names a file or a heading that is not there; a page, or a file that one links, is missing in the site;
README counts 30 tables; a count of claims is not the published run's; the glossary has a term more, or one that no page links.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from pretrieve.operations.publish.publish import publish_again
from pretrieve.reporting.claims.verdicts import VERDICTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md")),
    *sorted(ROOT.glob("docs/*.md")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GLOSSARY = ROOT / "docs/glossary.md"


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of headings, as GitHub makes them, and of ``id``."""
    text = prose(page)
    headings = [
        re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    ]
    slugs = [re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings]
    numbered = {f"{slug}-{i}" for slug in slugs for i in range(1, slugs.count(slug))}
    return {*slugs, *numbered, *re.findall(r'\bid="([^"]+)"', text)}


def links(page: Path) -> list[str]:
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"https?:|mailto:", link)]


def broken(page: Path) -> list[str]:
    """Links of a page to a file or an anchor that is not there."""
    found = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# A `b`, c\n## Two\n## Two\n[1](b.md) [2](#a-b-c) [3](a.md#x) [4](#d)\n```\n[5](no)\n```\n"
    )
    assert broken(tmp_path / "a.md") == ["b.md", "a.md#x", "#d"]
    assert anchors(tmp_path / "a.md") == {"a-b-c", "two", "two-1"}


def test_the_site_has_every_page() -> None:
    made = {"docs/api.md"}  # of docstrings, by `make site`
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r"[\w./-]+\.md", text)
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(ROOT).as_posix() for page in PAGES} | made
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "mkdocs build --strict\n" in makefile  # with --quiet it passes broken links over
    # What a page links is copied, too: without it `mkdocs build --strict` ends.
    copied = re.search(r"cp -r --parents ((?:.|\\\n)*) \$\(SITE_SOURCE\)\n", makefile)[1]
    places = [ROOT / word for word in copied.replace("\\", "").split()]
    targets = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page) if link[0] != "#"
    }
    assert [str(target) for target in targets if not any(target.is_relative_to(place) for place in places)] == []


def test_make_help_has_every_target() -> None:
    made = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (targets,) = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", made)) == set(targets.split())


def test_counts_are_those_of_the_references() -> None:
    papers = [file.parent for file in ROOT.glob("references/*/paper.yaml") if file.parent.name != "pretrieve"]
    counts = {
        "tables": sum(len(list(paper.glob("table*.csv"))) for paper in papers),
        "figures": sum(len(list(paper.glob("figure*.yaml"))) for paper in papers),
        "claims": len(yaml.safe_load((ROOT / "references/claims.yaml").read_text(encoding="utf-8"))["claims"]),
    }
    said = {what: {int(n) for n in re.findall(rf"\b(\d+) (?:of their )?{what}\b", README)} for what in counts}
    assert said == {what: {n} for what, n in counts.items()}


JUDGED = [page for page in PAGES if "Of the papers' " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", JUDGED, ids=lambda page: page.name)
def test_verdicts_are_those_of_the_published_runs(page: Path) -> None:
    """Each of the newest run that has the claim's table, where a page is about several."""
    said = re.search(
        r"Of the papers' (\d+) claims, at [^:]+: ([^.]+)\.(.+)", page.read_text(encoding="utf-8"), re.DOTALL
    )
    runs = list(dict.fromkeys(re.findall(r"results/published/([\w.-]+)", said[3])))
    runs = runs[:1] if page.name == "README.md" else runs
    found: dict[str, tuple[bool, str]] = {}  # claim: whether its run has its table, and the verdict
    for run in map((ROOT / "results/published").joinpath, runs):
        with open(run / "claims.csv", encoding="utf-8", newline="") as stream:
            for line in csv.DictReader(stream):
                has_table = (run / line["paper"] / f"{line['table']}.csv").is_file()
                if line["id"] not in found or (has_table and not found[line["id"]][0]):
                    found[line["id"]] = has_table, line["verdict"]
    verdicts = Counter(verdict for _, verdict in found.values())
    assert int(said[1]) == verdicts.total() > 0
    assert said[2].split("; ") == [f"{word}: {verdicts[word]}" for word in VERDICTS if verdicts[word]]


def test_published_verdicts_are_shown() -> None:
    assert {page.name for page in JUDGED} >= {"README.md", "results.md"}


def test_the_pages_of_results_are_those_of_the_newest_demo(tmp_path: Path) -> None:
    """If not: pretrieve publish --scale demo --again."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    for name in ("references", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    publish_again(tmp_path, "demo")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == README
    assert (tmp_path / "docs/results.md").read_text(encoding="utf-8") == (ROOT / "docs/results.md").read_text("utf-8")


def test_the_glossary_is_short_and_its_terms_are_linked() -> None:
    terms = anchors(GLOSSARY) - {"glossary"}
    used = {link.partition("#")[2] for page in PAGES for link in links(page) if "glossary.md#" in link}
    assert 15 <= len(terms) <= 25 and terms == used


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 110
