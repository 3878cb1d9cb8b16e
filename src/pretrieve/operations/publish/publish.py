"""Publish a finished run: a committed copy of its tables, figures, claims and report with an index, in a folder named after date,
scale and commit; ``docs/results.md``, and the section of README.md with one claim of each paper. A run at another scale than
config.yaml's own gets the page ``docs/results-{scale}.md``, and leaves README.md as it is.

Rule outputs themselves are never committed: a fresh clone would have "nothing to be done".
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pretrieve.base.code_folder import changed_files, version_of
from pretrieve.base.errors import DataError, PretrieveError
from pretrieve.base.files import write_text
from pretrieve.operations.publish.headlines import HEADLINES, Headline, best_headlines, headline_picture
from pretrieve.operations.publish.pages import (
    EXTENSIONS,
    FIGURE_EXTENSIONS,
    HEADLINES_FILE,
    SCORES,
    earlier_results,
    index_page,
    readme_section,
    results_page,
)
from pretrieve.operations.publish.places import (
    SCALES,
    new_place,
    newest,
    publications,
    read_manifest,
    scale_of,
    table_of,
)
from pretrieve.references.yaml_files import read_yaml
from pretrieve.reporting.claims.claims import load_claims
from pretrieve.reporting.claims.ledger import Finding
from pretrieve.reporting.report.timing import configured
from pretrieve.reporting.tables.filling import read_lines
from pretrieve.reporting.tables.rows import read_rows
from pretrieve.workflow.commands import DEFAULT_SCALE, make_it

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
#: What a run has once.
LEDGER = ("claims.csv", "claims.groups.csv", "claims.md", "league.csv", "league.pairs.csv", "order.csv", "report.html")


def publish(
    root: Path,
    tables: Sequence[str],
    config: Mapping[str, Any],
    repository: Path,
    date: str,
    figures: Sequence[str] = (),
    claims: Sequence[str] | None = None,
) -> Path:
    """Copy ``tables`` (PAPER/TABLE), ``figures`` (PAPER/FIGURE), claims and report of ``root`` (``results/{scale}``), and the
    whole ``config`` with the run's scale, seeds, tables and figures, to ``repository/results/published/{date}-{scale}-{commit}``
    (``{date}.2-…``: the second of a day), and write the pages. ``claims``: shown in README.md; by default the headlines of the
    configuration's scale, and nothing of another.

    Nothing is written unless everything is in order. Returns the new folder.

    Raises PretrieveError when the checkout has no commit or differs from it, or this was published before, and DataError when
    a table, a figure, the claims, the report or one of their files is missing, a cell failed, a table was made at another
    scale or by code that no commit has, the report is older than a table, or README.md lacks the two markers.
    """
    commit = _clean_commit(repository)
    tables, figures = [*dict.fromkeys(tables)], [*dict.fromkeys(figures)]
    for name in tables:
        _check_table(root, name)
    drawn = [f"figures/{name}.{kind}" for name in figures for kind in FIGURE_EXTENSIONS]
    _there(root / name for name in drawn)
    _check_ledger(root, tables)
    scores = [SCORES] if (root / SCORES).is_file() else []
    target = new_place(repository / "results" / "published", date, root.name, commit[:7])
    headlines = _headlines(root, target, claims)
    own = {f"{one.finding.paper}/{one.finding.table}" for one in headlines if one.folder.endswith(target.name)}
    if missing := own - set(tables):
        raise DataError(
            f"README.md shows cells of {', '.join(sorted(missing))}, which is not published with them. Publish it "
            "too, or leave README.md unchanged: pretrieve publish --no-readme"
        )
    if target.exists():
        raise PretrieveError(f"{target}: exists already; this run is published. Remove the folder to publish it again.")
    pages = _pages(root, target, tables, figures, headlines)

    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left by a publication that was killed
    copies = {f"{name}.{kind}": table_of(root, name, kind) for name in tables for kind in EXTENSIONS}
    copies |= {name: root / name for name in (*drawn, *LEDGER, *scores)}
    for name, file in copies.items():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, part / name)
    # All of it, for config/ changes; and what the run was told beside it.
    seeds = sorted({seed for name in tables for seed in _manifest(root, name)["seeds"]})
    told = {"scale": scale_of(root), "seeds": seeds, "tables": [*tables], "figures": [*figures]}
    text = yaml.safe_dump({**config, **told}, sort_keys=False, allow_unicode=True, width=130)
    (part / "config.yaml").write_text(text, encoding="utf-8")
    curves = _copy_curves(root, part / "curves")
    (part / "README.md").write_text(index_page(root, tables, figures, curves, date, commit), encoding="utf-8")
    os.replace(part, target)
    for page, content in pages.items():
        write_text(page, content)
    return target


def _pages(
    root: Path, target: Path, tables: Sequence[str], figures: Sequence[str], headlines: Sequence[Headline]
) -> dict[Path, str]:
    """Page → its text, from the files of ``root``, which is or becomes the publication ``target``."""
    scale, repository = scale_of(root), target.parents[2]
    readme, folder = repository / "README.md", target.relative_to(repository).as_posix()
    earlier = earlier_results(target.parent, scale, [*tables, *figures])
    pages = {repository / "docs" / _page_of(scale): results_page(root, tables, figures, folder, earlier)}
    if headlines:
        names = {one: _page_of(one) for one in (*SCALES, scale) if one == scale or newest(target.parent, one)}
        pages[readme] = _replace_section(readme, readme_section(root, headlines, folder, names, earlier))
        pages[repository / HEADLINES_FILE] = headline_picture(headlines)
    return pages


def _page_of(scale: str) -> str:
    return "results.md" if scale == DEFAULT_SCALE else f"results-{scale}.md"


def _headlines(root: Path, target: Path, claims: Sequence[str] | None) -> list[Headline]:
    """Headlines of ``root``, as for :func:`_pages`, and of publications of larger scales. ``claims``: as for :func:`publish`."""
    scale, repository = scale_of(root), target.parents[2]
    if claims is None:
        claims = HEADLINES if scale == DEFAULT_SCALE else ()
    if not claims:
        return []
    larger = SCALES[: SCALES.index(scale)] if scale in SCALES else SCALES
    runs = [(one, one) for name in larger for one in publications(target.parent, name)]
    return best_headlines([(one, at.relative_to(repository).as_posix()) for one, at in (*runs, (root, target))], claims)


def publish_again(repository: Path, scale: str, claims: Sequence[str] | None = None) -> Path:
    """Write the pages about the newest publication of ``scale`` again, from its files: for words that have changed since. The
    publication stays as it is. What is compared is said in the words that ``references/claims.yaml`` has now; ``claims`` as for
    :func:`publish`. Returns the publication.

    Raises DataError when there is none, or one of its files is missing or has another form than today's.
    """
    root = newest(repository / "results" / "published", scale)
    if root is None:
        raise DataError(f"{repository / 'results/published'}: no publication of the scale {scale}.")
    config = read_yaml(root / "config.yaml", "the configuration of a published run")
    _there(root / name for name in ("README.md", *LEDGER))
    tables = _whole(configured(config, "tables"), lambda name: [table_of(root, name, kind) for kind in EXTENSIONS])
    drawn = config.get("figures", [])
    figures = _whole(drawn, lambda name: [root / f"figures/{name}.{kind}" for kind in FIGURE_EXTENSIONS])
    words = {claim.name: claim.estimand for claim in load_claims(repository / "references/claims.yaml")}
    headlines = [
        one._replace(finding=one.finding._replace(estimand=words.get(one.finding.id, one.finding.estimand)))
        for one in _headlines(root, root, claims)
    ]
    for page, content in _pages(root, root, tables, figures, headlines).items():
        write_text(page, content)
    return root


def _clean_commit(repository: Path) -> str:
    commit = version_of(repository).commit
    if commit is None:
        raise PretrieveError(f"{repository}: no git commit to name the results after. Commit the code first.")
    if changed := changed_files(repository):
        names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise PretrieveError(
            f"{repository}: files differ from commit {commit[:7]}: {names}. Commit or remove them first."
        )
    return commit


def _manifest(root: Path, name: str) -> dict[str, Any]:
    return read_manifest(table_of(root, name, "manifest.json"), "Delete the file and make the table again.")


def _check_table(root: Path, name: str) -> None:
    path = table_of(root, name)
    _there((table_of(root, name, extension) for extension in EXTENSIONS), name)
    manifest = _manifest(root, name)
    if manifest.get("scale") != root.name:
        raise DataError(
            f"{table_of(root, name, 'manifest.json')}: of the scale {manifest.get('scale')!r}; expected {root.name!r}, as its "
            "folder is named. Publish it from the folder that made it."
        )
    git = manifest["git"]
    if git["dirty"]:
        raise DataError(
            f"{table_of(root, name, 'manifest.json')}: {name} was made by files that differ from commit "
            f"{(git['commit'] or 'none')[:7]}, so nobody could make it again. Commit them, and make the table again from a clean "
            "checkout."
        )
    failed = [line for line in read_lines(path) if line.status == "failed"]
    if failed:
        first = failed[0]
        raise DataError(
            f"{path}: {len(failed)} failed cell(s), the first is row '{first.row}', column '{first.column}' "
            f"({first.note}). Run snakemake again before publishing."
        )


def _check_ledger(root: Path, tables: Sequence[str]) -> None:
    """Claims and report are there, readable, and not older than the tables that they are about."""
    _there(root / name for name in LEDGER)
    read_rows(root / "claims.csv", Finding)
    for name in tables:
        path = table_of(root, name)
        for page in (root / "claims.csv", root / "report.html"):
            if page.stat().st_mtime < path.stat().st_mtime:
                raise DataError(f"{page}: older than {path}, so it may show other numbers. {make_it(page)}")
        if (scores := root / SCORES).is_file() and scores.stat().st_mtime < path.stat().st_mtime:
            raise DataError(
                f"{scores}: older than {path}. Keep the scores again (pretrieve keep-scores), or remove it."
            )


def _there(files: Iterable[Path], what: str = "the run") -> None:
    for path in files:
        if not path.is_file() or not path.stat().st_size:
            raise DataError(
                f"{path}: no such file, or an empty one (delete it), so {what} is not finished. {make_it(path)}"
            )


def _whole(names: Iterable[str], files: Callable[[str], Sequence[Path]]) -> list[str]:
    """The names of which any file is there, and then all have to be."""
    published = [name for name in names if any(map(Path.is_file, files(name)))]
    _there(file for name in published for file in files(name))
    return published


def _copy_curves(root: Path, target: Path) -> list[str]:
    """Copy the learning curve of every pre-trained encoder; returns the names of the copies."""
    names = []
    for curve in sorted((root / "encoders").glob("*/seed*/curve.csv")):
        if len(curve.read_text(encoding="utf-8").splitlines()) < 2:
            continue  # a random initialisation: nothing was trained
        target.mkdir(parents=True, exist_ok=True)
        names.append(f"{curve.parents[1].name}-{curve.parent.name}.csv")
        shutil.copyfile(curve, target / names[-1])
    return names


def _replace_section(readme: Path, section: str) -> str:
    """README text with what stands between the markers replaced."""
    if not readme.is_file():
        raise DataError(f"{readme}: no such file; expected a README with the lines {BEGIN} and {END}.")
    text = readme.read_text(encoding="utf-8")
    begin, end = text.find(BEGIN), text.find(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or end < begin:
        raise DataError(
            f"{readme}: expected the line {BEGIN} once and after it {END} once; found {text.count(BEGIN)} and "
            f"{text.count(END)}. Put both lines where the results belong."
        )
    return f"{text[: begin + len(BEGIN)]}\n{section}\n{text[end:]}"
