"""Publish a finished run: a committed copy of its tables with an index, and the section of README.md that shows one.

Rule outputs are never committed (a fresh clone would have "nothing to be done"), so results are published by an
explicit command, into a folder named after date, scale and commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pretrieve.errors import DataError, PretrieveError
from pretrieve.files import whole_file
from pretrieve.paths import table_file
from pretrieve.reporting.repository import changed_files, version_of
from pretrieve.reporting.status import split_name
from pretrieve.reporting.tables import count_statuses, read_lines

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
#: Files of a table. The CSV comes first: it is the one that is checked.
EXTENSIONS = ("csv", "md", "html", "manifest.json")


def publish(
    root: Path,
    tables: Sequence[str],
    config: Path,
    repository: Path,
    date: str,
    shown: str = "pretraining_tasks/table3",
) -> Path:
    """Copy ``tables`` (PAPER/TABLE) of ``root`` (``results/{scale}``) and ``config`` to
    ``repository/results/published/{date}-{scale}-{commit}``, and show the table ``shown`` in ``repository/README.md``.

    Nothing is written unless everything is in order. Returns the new folder.

    Raises
    ------
    PretrieveError
        when the checkout has no commit or differs from it, or this was published before.
    DataError
        when a table or one of its files is missing, a cell failed, or README.md lacks the two markers.
    """
    commit = _clean_commit(repository)
    for name in tables:
        _check_table(root, name)
    if shown not in tables:
        raise DataError(f"README.md shows {shown}, which is not among the tables to publish: {', '.join(tables)}.")
    if not config.is_file():
        raise DataError(f"{config}: no such file; expected the configuration of the run.")
    target = repository / "results" / "published" / f"{date}-{root.name}-{commit[:7]}"
    if target.exists():
        raise PretrieveError(f"{target}: exists already; this run is published. Remove the folder to publish it again.")
    readme = repository / "README.md"
    section = _section(root, shown, target.relative_to(repository).as_posix())
    text = _replace_section(readme, section)

    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left by a publication that was killed
    for name in tables:
        for extension in EXTENSIONS:
            copy = part / f"{name}.{extension}"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(table_file(str(root), *split_name(name), extension), copy)
    shutil.copyfile(config, part / "config.yaml")
    curves = _copy_curves(root, part / "curves")
    (part / "README.md").write_text(_index(root, tables, date, commit) + _curve_index(curves), encoding="utf-8")
    os.replace(part, target)
    with whole_file(readme) as stream:
        stream.write(text.encode())
    return target


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


def _check_table(root: Path, name: str) -> None:
    for extension in EXTENSIONS:
        path = Path(table_file(str(root), *split_name(name), extension))
        if not path.is_file():
            table = table_file(str(root), *split_name(name))
            raise DataError(f"{path}: no such file, so {name} is not finished. Make it with: snakemake {table}")
    path = table_file(str(root), *split_name(name))
    failed = [line for line in read_lines(path) if line.status == "failed"]
    if failed:
        first = failed[0]
        raise DataError(
            f"{path}: {len(failed)} failed cell(s), the first is row '{first.row}', column '{first.column}' "
            f"({first.note}). Run snakemake again before publishing."
        )


def _index(root: Path, tables: Sequence[str], date: str, commit: str) -> str:
    """The README of a published folder."""
    lines = [
        f"# Results at the {root.name} scale, {date}",
        "",
        f"Published from commit `{commit}`. Each table is here as CSV (one line per cell), Markdown and HTML; its",
        "manifest names the code, software, data, hardware and cost behind it. The configuration is",
        "[config.yaml](config.yaml).",
        "",
        "| Table | Cells | Measured | Quoted | Not run | Made at commit | Wall s | Files |",
        "|:--|--:|--:|--:|--:|:--|--:|:--|",
    ]
    for name in tables:
        counts = count_statuses(read_lines(table_file(str(root), *split_name(name))))
        manifest = json.loads(
            Path(table_file(str(root), *split_name(name), "manifest.json")).read_text(encoding="utf-8")
        )
        made = (manifest["git"]["commit"] or "none")[:7] + (" with changes" if manifest["git"]["dirty"] else "")
        links = ", ".join(f"[{extension.split('.')[0]}]({name}.{extension})" for extension in EXTENSIONS)
        lines.append(
            f"| {name} | {sum(counts.values())} | {counts['measured']} | {counts['quoted']} | {counts['not-run']} | "
            f"{made} | {manifest['cost']['wall_s']:,.0f} | {links} |"
        )
    lines += ["", "A stage that tables share counts in the wall seconds of each."]
    return "\n".join(lines) + "\n"


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


def _curve_index(names: Sequence[str]) -> str:
    """The README's section on learning curves; '' without any."""
    if not names:
        return ""
    links = ", ".join(f"[{name.removesuffix('.csv')}](curves/{name})" for name in names)
    return f"\n## Learning curves\n\nWhat pre-training looked like: step, tokens, loss and its terms, gradient norm.\n\n{links}\n"


def _section(root: Path, shown: str, folder: str) -> str:
    text = Path(table_file(str(root), *split_name(shown), "md")).read_text(encoding="utf-8")
    text = re.sub(r"\A# ", "### ", text)  # the table's own heading becomes one below the section's
    return f"{text.strip()}\n\nAll tables of this run, with their manifests: [{folder}]({folder}/README.md)."


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
