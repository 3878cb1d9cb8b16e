"""Publishing copies a finished run whole, or refuses and changes nothing.

Seen to fail when: a report older than a table is published; a figure's files are not looked for; links of docs/results.md
lead nowhere; a table of uncommitted code is taken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pretrieve.base.errors import ConfigError, DataError, PretrieveError
from pretrieve.base.files import write_json
from pretrieve.operations.bundle.archive import write_archive
from pretrieve.operations.publish.publish import BEGIN, END, EXTENSIONS, LEDGER, publish, publish_again
from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.report.timing import configured, format_status
from pretrieve.reporting.tables.filling import fill_table, write_lines
from pretrieve.reporting.tables.latex import to_latex
from pretrieve.reporting.tables.manifest import make_manifest
from pretrieve.reporting.tables.render import to_html, to_markdown
from pretrieve.reporting.tables.rows import read_rows, write_rows

README = f"# Project\n\nBefore.\n\n{BEGIN}\nold results\n{END}\n\nAfter.\n"
TABLES = ["tiny/table9"]
CONFIG = {"scale": "demo", "bm25": {"k1": 0.9, "b": 0.4}}
FOLDER = Path("results/demo/tables/tiny")
OTHER_WORDS = {
    "id": "a",
    "paper": "tiny",
    "section": "§1",
    "table": "table9",
    "claim": "A | b.",
    "estimand": "Other words.",
    "smallest_effect": "1%",
    "check": {"type": "greater", "cells": [{"row": "A", "column": "x"}, {"row": "B", "column": "x"}]},
}


def git(*arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def finished(table, setting, monkeypatch):
    """A committed checkout (the working folder) with the tiny table made at the demo scale, by the code in it."""
    monkeypatch.setattr("pretrieve.reporting.tables.manifest.code_file", lambda: Path())
    Path("README.md").write_text(README)
    Path(".gitignore").write_text("/results/*\n!/results/published/\n")
    Path("config.yaml").write_text("scale: demo\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    lines = fill_table(table, setting)
    write_lines(FOLDER / "table9.csv", lines)
    (FOLDER / "table9.md").write_text(to_markdown(table, lines, setting))
    (FOLDER / "table9.html").write_text(to_html(table, lines, setting))
    (FOLDER / "table9.tex").write_text(to_latex(table, lines, setting))
    write_json(FOLDER / "table9.manifest.json", make_manifest(table, lines, setting, "abc"))
    for extension in ("svg", "csv", "manifest.json"):
        path = Path(f"results/demo/figures/tiny/figure1.{extension}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(extension)
    finding = dict.fromkeys(Finding._fields, "") | {
        "id": "a",
        "paper": "tiny",
        "claim": "A | b.",
        "verdict": "supported",
        "table": "table9",
        "estimand": "BM-25 minus | ours.",
        "scale": "demo",
        "effect": "5",
        "low": "-2.5",
        "high": "12.5",
        "unit": "%",
        "seeds": "2",
    }
    other = finding | {"id": "b", "claim": "Undecided.", "verdict": "inconclusive"}
    write_rows("results/demo/claims.csv", [Finding(**finding), Finding(**other)], Finding)
    group = dict.fromkeys(Comparison._fields, "") | {
        "id": "a",
        "values": "20; 15",
        "effect": "5",
        "low": "-2.5",
        "high": "12.5",
    }
    other = group | {"number": "2", "effect": "9", "cells": '["tiny/table9: nowhere"]'}
    group["cells"] = json.dumps([f"tiny/table9: {line.row}, {line.column}" for line in (lines[3], lines[1])])
    write_rows("results/demo/claims.groups.csv", [Comparison(**other), Comparison(**group)], Comparison)
    for name in LEDGER[2:]:
        Path("results/demo", name).write_text(name)
    return setting


def run(claims=("a", "b")):
    return publish(Path("results/demo"), TABLES, CONFIG, Path("."), "2026-01-02", ["tiny/figure1"], claims)


def as_small() -> None:
    """The finished run as one of the scale ``small``."""
    shutil.copytree("results/demo", "results/small")
    path = Path("results/small/tables/tiny/table9.manifest.json")
    path.write_text(path.read_text().replace('"scale": "demo"', '"scale": "small"'))


def snapshot() -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in Path(".").rglob("*") if path.is_file() and ".git/" not in str(path)
    }


def test_copies_everything_and_shows_the_headlines(finished):
    commit = git("rev-parse", "HEAD")
    target = run()
    assert target == Path(f"results/published/2026-01-02-demo-{commit[:7]}")
    copied = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    figure = {f"figures/tiny/figure1.{extension}" for extension in ("svg", "csv", "manifest.json")}
    table = {f"tiny/table9.{extension}" for extension in EXTENSIONS}
    assert copied == {"README.md", "config.yaml", *LEDGER, *figure, *table}
    for name in LEDGER:
        assert (target / name).read_bytes() == Path("results/demo", name).read_bytes()
    for extension in EXTENSIONS:
        assert (target / f"tiny/table9.{extension}").read_bytes() == (FOLDER / f"table9.{extension}").read_bytes()
    told = {"seeds": [1, 2], "tables": TABLES, "figures": ["tiny/figure1"]}
    assert yaml.safe_load((target / "config.yaml").read_text()) == CONFIG | told
    index = (target / "README.md").read_text()
    assert f"| tiny/table9 | 10 | 5 | 1 | 4 | {commit[:7]} | 245 | [csv](tiny/table9.csv)" in index

    text = Path("README.md").read_text()
    assert text.startswith("# Project\n\nBefore.\n") and text.endswith(f"{END}\n\nAfter.\n")
    assert "old results" not in text and f"[{target}]({target}/README.md)" in text
    link = f"[table9]({target}/tiny/table9.md)"
    assert (
        "| +5.0 [−2.5, 12.5] | 10 queries of `questions`, recall@5 | 2 | supported | " in text
        and "| tiny | BM-25 minus \\| ours. | demo | 20.0 against 15.0 | " in text
        and f"| {link}: " in text
    )
    picture = re.search(r"!\[.+\]\((.+)\)", text)[1]
    assert b"BM-25 minus" in Path(picture).read_bytes()
    counts = "Of the papers' 2 claims, at {}: supported: 1; inconclusive: 1."
    assert (
        counts.format("the scale `demo`") in text
        and counts.format("this scale") in index
        and "[svg](figures/tiny/figure1.svg)" in index
    )
    # What is new can be committed, and nothing else changed.
    assert git("status", "--porcelain").splitlines() == ["M README.md", "?? docs/", "?? results/"]


def test_the_results_page_links_what_is_there(finished):
    target = run()
    page = Path("docs/results.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) == 7 and {link for link in links if not Path("docs", link).is_file()} == {
        "read-a-table.md",
        "verdicts.md#the-claim",
    }
    assert f"../{target.as_posix()}/figures/tiny/figure1.svg" in links
    assert "**Supported**" in page and "- A | b. (tiny table9 )" in page and "Undecided" not in page
    assert f"- tiny: [table9](../{target.as_posix()}/tiny/table9.md) 5/1/4\n" in page


def test_pages_are_written_again_from_a_publication(finished):
    """The same pages without the run; what is compared in the words of today's claims."""
    target = run()
    pages = {name: Path(name).read_text() for name in ("README.md", "docs/results.md")}
    for name in pages:
        Path(name).write_text(f"{BEGIN}\n{END}\n")
    shutil.rmtree("results/demo")
    (target / "config.yaml").write_text(
        yaml.safe_dump({"tables": [*TABLES, "tiny/table8"], "figures": ["tiny/figure1", "tiny/figure2"]})
    )
    Path("references").mkdir(exist_ok=True)
    Path("references/claims.yaml").write_text(yaml.safe_dump({"claims": [OTHER_WORDS]}))
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert publish_again(Path("."), "demo", ("a", "b")) == target
    assert Path("docs/results.md").read_text() == pages["docs/results.md"]
    section = (
        pages["README.md"].partition(BEGIN)[2].partition(END)[0].replace("BM-25 minus \\| ours.", "Other words.", 1)
    )
    assert section in Path("README.md").read_text() and "Other words." in section
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == before
    with pytest.raises(DataError, match="no publication of the scale small"):
        publish_again(Path("."), "small")
    for name in (
        "report.html",
        "claims.md",
        "tiny/table9.csv",
        "tiny/table9.manifest.json",
        "figures/tiny/figure1.svg",
    ):
        (target / name).rename("kept")
        with pytest.raises(DataError, match=rf"{name}: no such file, .* git checkout -- "):
            publish_again(Path("."), "demo", ("a", "b"))
        Path("kept").rename(target / name)


def test_another_scale_has_a_page_of_its_own(finished):
    readme = Path("README.md").read_text()
    as_small()
    target = publish(Path("results/small"), TABLES, CONFIG, Path("."), "2026-01-02")
    assert (target / "tiny/table9.csv").is_file() and target.name.startswith("2026-01-02-small-")
    assert yaml.safe_load((target / "config.yaml").read_text())["scale"] == "small"
    assert Path("README.md").read_text() == readme and not Path("docs/results.md").exists()
    assert not Path("docs/headlines.svg").exists()
    page = Path("docs/results-small.md").read_text()
    assert f"../{target.as_posix()}/tiny/table9.md" in page


def test_readme_shows_the_run_that_it_is_told_to(finished):
    readme = Path("README.md").read_text()
    publish(Path("results/demo"), TABLES, CONFIG, Path("."), "2026-01-02", claims=())
    assert Path("README.md").read_text() == readme
    git("add", ".")
    git("commit", "-q", "-m", "published")
    as_small()
    target = publish(Path("results/small"), TABLES, CONFIG, Path("."), "2026-01-02", claims=["a"])
    text = Path("README.md").read_text()
    assert f"({target}/tiny/table9.md)" in text and "[small](docs/results-small.md), [demo](docs/results.md)" in text


def test_refuses_to_show_a_cell_that_is_not_published(finished):
    with pytest.raises(DataError, match="cells of tiny/table9, which is not published"):
        publish(Path("results/demo"), [], CONFIG, Path("."), "2026-01-02", claims=["a"])


def test_publications_of_some_tables_add_up(finished):
    """What only an earlier run has stays findable: each table once, where it is newest, and the claims on it."""
    as_small()
    claims = Path("results/small/claims.csv")
    own, elsewhere = read_rows(claims, Finding)
    write_rows(claims, [own, elsewhere._replace(table="table1", paper="other", verdict="not tested")], Finding)
    for run_of, names in {
        "2025-01-01-small-1111111": ["tiny/table9", "tiny/table8", "other/table1"],
        "2025-01-02-small-2222222": ["tiny/table8"],
        "2025-01-03-demo-3333333": ["tiny/table7"],
    }.items():
        for name in names:
            for extension in ("csv", "tex", "manifest.json"):
                file = Path("results/published", run_of, f"{name}.{extension}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
        tested = elsewhere._replace(table="table1", paper="other", verdict="contradicted", groups="0/3/3")
        older = own._replace(verdict="contradicted")  # on a table that the newest run has, too
        write_rows(Path("results/published", run_of, "claims.csv"), [older, tested], Finding)
    git("add", "-f", "results/published")
    git("commit", "-q", "-m", "earlier")
    publish(Path("results/small"), TABLES, CONFIG, Path("."), "2026-01-02")
    page = Path("docs/results-small.md").read_text()
    assert "supported: 1; contradicted: 1." in page
    run = "2025-01-01-small-1111111"
    assert f"- Undecided. (other table1 0/3/3; [{run}](../results/published/{run}/claims.md))\n" in page
    assert [line for line in page.splitlines() if line.startswith("- [20")] == [
        "- [2025-01-02-small-2222222](../results/published/2025-01-02-small-2222222/README.md): tiny/table8",
        "- [2025-01-01-small-1111111](../results/published/2025-01-01-small-1111111/README.md): other/table1",
    ]


def test_figures_of_an_earlier_publication_stay_and_both_pages_count_the_claims_on_them(finished):
    run(["a"])
    earlier = next(Path("results/published").iterdir())
    claims = Path("results/demo/claims.csv")
    own, other = read_rows(claims, Finding)
    shown = other._replace(table="figure1", verdict="contradicted", groups="0/3/3")
    write_rows(earlier / "claims.csv", [own, shown], Finding)
    write_rows(claims, [own, shown._replace(verdict="not tested")], Finding)
    git("add", ".")
    git("commit", "-q", "-m", "published")
    publish(Path("results/demo"), TABLES, CONFIG, Path("."), "2026-01-03", (), ["a"])  # without the figure
    page = Path("docs/results.md").read_text()
    assert (
        f"- Undecided. (tiny figure1 0/3/3; [{earlier.name}](../results/published/{earlier.name}/claims.md))\n" in page
    )
    assert f"- [{earlier.name}](../results/published/{earlier.name}/README.md): tiny/figure1\n" in page
    for text in (page, Path("README.md").read_text()):
        assert "supported: 1; contradicted: 1." in text


def test_a_name_given_twice_is_published_once(finished):
    names = [["tiny/figure1"] * 2, []]
    target = publish(Path("results/demo"), TABLES * 2, CONFIG, Path("."), "2026-01-02", *names)
    assert (target / "README.md").read_text().count("| tiny/table9 |") == 1
    assert yaml.safe_load((target / "config.yaml").read_text())["tables"] == TABLES
    assert Path("docs/results.md").read_text().count("figure1.svg") == 1


def test_a_damaged_configuration_of_a_publication_is_named(finished):
    target = run()
    (target / "config.yaml").write_text("scale: [demo\n")
    with pytest.raises(ConfigError, match="published/2026-01-02-demo-.*config.yaml: not readable as YAML"):
        publish_again(Path("."), "demo")


def test_kept_scores_are_published_with_where_they_were_made(finished):
    made = {"arguments": "a" * 24, "code": "b" * 24, "sha256": "c" * 64, "cpu": "A processor"}
    scores = {
        f"results/demo/metrics/x.y-full/d/seed{seed}.json": made | {"commit": commit * 40}
        for seed, commit in ((1, "1"), (3, "1"), (2, "2"))
    }
    file = Path("results/demo/scores.tar.xz")
    write_archive(file, {"scores.json": json.dumps({"scale": "demo", "scores": scores, "data": {}}).encode()})
    os.utime(file, (1, 1))
    with pytest.raises(DataError, match=r"scores.tar.xz: older than .*table9.csv. Keep the scores again"):
        publish(Path("results/demo"), TABLES, CONFIG, Path("."), "2026-01-02", claims=())
    os.utime(file)
    for seed in (1, 2):
        curve = Path(f"results/demo/encoders/bert-at50/seed{seed}/curve.csv")
        curve.parent.mkdir(parents=True)
        curve.write_text("step,loss\n1,2.5\n")
    target = publish(Path("results/demo"), TABLES, CONFIG, Path("."), "2026-01-02", claims=())
    assert "[curves](curves) has 2 files of 1 encoders" in (target / "README.md").read_text()
    assert (target / "curves/bert-at50-seed2.csv").read_bytes() == curve.read_bytes()
    assert (target / "scores.tar.xz").read_bytes() == file.read_bytes()
    assert (
        "\n- seeds 1, 3: `1111111`, A processor\n- seed 2: `2222222`, A processor\n"
        in (target / "README.md").read_text()
    )


def test_publishing_again_replaces_the_section(finished):
    run()
    once = Path("README.md").read_text()
    git("add", ".")
    git("commit", "-q", "-m", "published")
    target = run()  # the page of the first publication is replaced, too
    assert target.name.startswith("2026-01-02.2-demo-")
    assert Path("docs/results.md").read_text().count("# Results at the scale `demo`\n") == 1
    assert Path("README.md").read_text().count("![") == 1
    assert once.count(BEGIN) == Path("README.md").read_text().count(BEGIN) == 1
    assert len(list(target.parent.iterdir())) == 2


def damage_failed():
    path = FOLDER / "table9.csv"
    path.write_text(path.read_text().replace("scale-differs", "failed", 1))


def damage_scale():
    path = FOLDER / "table9.manifest.json"
    path.write_text(path.read_text().replace('"scale": "demo"', '"scale": "small"'))


def damage_report():
    os.utime("results/demo/report.html", (0, 0))


def damage_markers():
    Path("README.md").write_text("# Project\n")
    git("commit", "-q", "-am", "no markers")


def damage_order():
    Path("README.md").write_text(f"{END}\n{BEGIN}\n")
    git("commit", "-q", "-am", "wrong order")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda: (FOLDER / "table9.csv").unlink(),
            "is not finished. Make it with: snakemake results/demo/tables/tiny/table9",
        ),
        (lambda: (FOLDER / "table9.manifest.json").unlink(), "table9.manifest.json: no such file, or an empty one"),
        (lambda: (FOLDER / "table9.manifest.json").write_text("[]"), "table9.manifest.json: not readable: TypeError"),
        (
            lambda: (FOLDER / "table9.manifest.json").write_text("{"),
            "table9.manifest.json: not readable: JSONDecodeError",
        ),
        (
            lambda: Path("results/demo/report.html").unlink(),
            "report.html: no such file, or an empty one (delete it), so",
        ),
        (
            lambda: Path("results/demo/report.html").write_text(""),
            "report.html: no such file, or an empty one (delete it), so",
        ),
        (
            lambda: Path("results/demo/figures/tiny/figure1.svg").unlink(),
            "figure1.svg: no such file, or an empty one (delete it), so the run is not",
        ),
        (damage_report, "report.html: older than results/demo/tables/tiny/table9.csv"),
        (damage_scale, "table9.manifest.json: of the scale 'small'; expected 'demo', as its folder is named"),
        (damage_failed, "1 failed cell(s), the first is row '1% | BM-25', column 'R@1'"),
        (lambda: Path("config.yaml").write_text("scale: small\n"), "files differ from commit"),
        (lambda: Path("new.py").write_text(""), "new.py. Commit or remove"),
        (damage_markers, f"expected the line {BEGIN} once and after it {END} once; found 0 and 0"),
        (damage_order, "found 1 and 1"),
    ],
)
def test_refuses_and_changes_nothing(finished, damage, message):
    damage()
    before = snapshot()
    with pytest.raises(PretrieveError) as error:
        run()
    assert message in str(error.value)
    assert snapshot() == before


def test_refuses_what_is_published_already(finished):
    target = run()
    git("checkout", "-q", "README.md")
    Path(".git/info/exclude").write_text("/results/\n/docs/\n")
    with pytest.raises(PretrieveError, match=f"{target}: exists already"):
        run()


def test_refuses_a_folder_without_commits(finished):
    git("init", "-q", "results/empty")
    with pytest.raises(PretrieveError, match="no git commit"):
        publish(Path("results/demo"), TABLES, CONFIG, Path("results/empty"), "2026-01-02", "tiny/table9")


def test_refuses_to_show_a_claim_that_the_run_has_not_judged(finished):
    before = snapshot()
    with pytest.raises(DataError, match="claims.csv: no claim c, which README.md shows"):
        run(claims=("a", "c"))
    assert snapshot() == before


@pytest.mark.parametrize("commit", [None, "abc1234" * 5])
def test_what_uncommitted_code_made_is_not_published(finished, commit):
    path = FOLDER / "table9.manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["git"]["dirty"] is False
    manifest["git"] = {"commit": commit, "dirty": True}
    path.write_text(json.dumps(manifest))
    before = snapshot()
    with pytest.raises(DataError, match=f"differ from commit {(commit or 'none')[:7]}, so nobody could make it again"):
        run()
    assert snapshot() == before


def test_status_counts_cells_and_names_what_is_not_made(finished):
    lines = [line.split() for line in format_status(Path("results/demo"), [*TABLES, "tiny/table8"]).splitlines()]
    assert lines[0] == ["table", "cells", "measured", "quoted", "not-run", "failed"]
    assert lines[1] == ["tiny/table9", "10", "5", "1", "4", "0"]
    assert lines[2] == ["tiny/table8", "not", "made", "yet"]
    assert lines[3] == ["total", "10", "5", "1", "4", "0"]


def test_configured_tables_are_read_or_missed():
    assert configured({"tables": ["a/b", "c/d"]}, "tables") == ["a/b", "c/d"]
    for config in ({}, {"tables": "a/b"}, {"tables": []}):
        with pytest.raises(ConfigError, match="config: tables: found .* expected a list of PAPER/TABLE"):
            configured(config, "tables")


def test_the_code_of_every_published_run_is_in_the_history() -> None:
    root = Path(__file__).parents[2]
    manifests = sorted((root / "results/published").glob("*/**/*.manifest.json"))
    commits = {json.loads(path.read_text(encoding="utf-8"))["git"]["commit"] for path in manifests}
    assert commits
    shallow = subprocess.run(
        ["git", "-C", root, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.returncode or shallow.stdout.strip() != "false":
        pytest.skip("no whole history to look in")
    for commit in commits:
        there = subprocess.run(["git", "-C", root, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True)
        assert there.returncode == 0, f"{commit} is published and not in the history"
