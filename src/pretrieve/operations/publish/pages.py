"""What a publication says in words: the index of its folder, ``docs/results.md``, and the results section of README.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pretrieve.operations.publish.headlines import Headline, headline_table, in_a_sentence
from pretrieve.operations.publish.places import PUBLICATION, publications, read_manifest, scale_of, table_of
from pretrieve.operations.scores import origins
from pretrieve.reporting.claims.ledger import Finding, count_verdicts
from pretrieve.reporting.claims.verdicts import CONTRADICTED, FAILS, HOLDS, SUPPORTED
from pretrieve.reporting.tables.filling import count_statuses, read_lines
from pretrieve.reporting.tables.rows import read_rows

#: Files of a table. The CSV comes first: it is the one that is checked.
EXTENSIONS = ("csv", "md", "html", "tex", "manifest.json")
#: Files of a figure.
FIGURE_EXTENSIONS = ("svg", "csv", "manifest.json")
#: Scores of every query, where they were kept (:mod:`pretrieve.operations.scores`).
SCORES = "scores.tar.xz"
#: The picture of the headlines, from the repository's root.
HEADLINES_FILE = "docs/headlines.svg"


def index_page(
    root: Path, tables: Sequence[str], figures: Sequence[str], curves: Sequence[str], date: str, commit: str
) -> str:
    """The README of a published folder. ``curves``: file names of learning curves, under ``curves/``."""
    blocks = [
        f"# Results at the {scale_of(root)} scale, {date}",
        f"Published from commit `{commit}`. [report.html](report.html) shows all of it in one file that loads nothing. Each\n"
        "table is here as CSV (one line per cell), Markdown and HTML; its manifest names the code, software, data, hardware\n"
        "and cost behind it. The configuration is [config.yaml](config.yaml).",
        f"{claims_sentence(root)} [All claims](claims.md), as [CSV](claims.csv), and"
        " [what each was compared on](claims.groups.csv). Encoders compared: [league table](league.csv) and\n"
        "[the difference of every two](league.pairs.csv). [The papers' order of rows beside ours](order.csv).",
        "\n".join(_table_of_tables(root, tables)),
        "A stage that tables share counts in the wall seconds of each.",
    ]
    if (root / SCORES).is_file():
        blocks.append(
            f"[{SCORES}]({SCORES}) has the scores of every query, to compare with your own or to\n"
            "[join with other seeds](../../../docs/clusters.md#joining-seeds). Their code and processor:\n\n"
            + "\n".join(f"- {line}" for line in origins(root / SCORES))
        )
    if figures:
        links = [", ".join(f"[{e.split('.')[0]}](figures/{name}.{e})" for e in FIGURE_EXTENSIONS) for name in figures]
        blocks += ["## Figures", "\n".join(f"- {name}: {some}" for name, some in zip(figures, links, strict=True))]
    if curves:
        encoders = len({name.rpartition("-seed")[0] for name in curves})
        blocks += [
            "## Learning curves",
            f"What pre-training looked like: step, tokens, loss and its terms, gradient norm. [curves](curves) has"
            f" {len(curves)} files of {encoders} encoders: `ENCODER-seedN.csv`.",
        ]
    return "\n\n".join(blocks) + "\n"


def _table_of_tables(root: Path, tables: Sequence[str]) -> list[str]:
    """Lines of a Markdown table: counts, commit, cost and links of every table."""
    lines = ["| Table | Cells | Measured | Quoted | Not run | Made at commit | Wall s | Files |"]
    lines.append("|:--|--:|--:|--:|--:|:--|--:|:--|")
    for name in tables:
        counts = count_statuses(read_lines(table_of(root, name)))
        manifest = read_manifest(table_of(root, name, "manifest.json"), "Publish the run again.")
        made = manifest["git"]["commit"][:7]  # publish refuses what no commit made
        links = ", ".join(f"[{extension.split('.')[0]}]({name}.{extension})" for extension in EXTENSIONS)
        lines.append(
            f"| {name} | {sum(counts.values())} | {counts['measured']} | {counts['quoted']} | {counts['not-run']} | "
            f"{made} | {manifest['cost']['wall_s']:,.0f} | {links} |"
        )
    return lines


def _cells_of_tables(root: Path, tables: Sequence[str], folder: str) -> list[str]:
    """A line for each paper: its tables, links, with their cells measured/quoted/not run."""
    papers: dict[str, list[str]] = {}
    for name in tables:
        paper, _, table = name.partition("/")
        counts = count_statuses(read_lines(table_of(root, name)))
        numbers = "/".join(str(counts[status]) for status in ("measured", "quoted", "not-run"))
        papers.setdefault(paper, []).append(f"[{table}]({folder}{name}.md) {numbers}")
    return [f"- {paper}: {', '.join(links)}" for paper, links in papers.items()]


def claims_sentence(root: Path, findings: Sequence[Finding] = (), where: str = "this scale") -> str:
    """``Of the papers' 103 claims, at this scale: supported: 7; inconclusive: 96.`` ``findings``: default: of ``root``."""
    findings = findings or read_rows(root / "claims.csv", Finding)
    counts = "; ".join(f"{word}: {n}" for word, n in count_verdicts(findings).items() if n)
    return f"Of the papers' {len(findings)} claims, at {where}: {counts}."


def earlier_results(published: Path, scale: str, names: Sequence[str]) -> dict[Path, list[str]]:
    """Folder of an earlier publication of this scale → its tables and figures that are neither among ``names`` nor in a later
    one."""
    seen, found = set(names), {}
    for folder in publications(published, scale):
        files = (*folder.glob("*/*.tex"), *folder.glob("figures/*/*.svg"))
        names = {f"{file.parent.name}/{file.stem}" for file in files} - seen
        if names:
            found[folder] = sorted(names)
        seen |= names
    return found


def latest_findings(root: Path, earlier: Mapping[Path, Sequence[str]]) -> list[tuple[Finding, str]]:
    """Each claim's finding and the name of the earlier publication that it is from, '' for ``root``'s own. A claim on a table
    or figure that only an earlier publication has is from there: so publications of some tables each add up."""
    newest = {one.id: (one, "") for one in read_rows(root / "claims.csv", Finding)}
    for folder, names in earlier.items():
        for one in read_rows(folder / "claims.csv", Finding):
            if one.id in newest and f"{one.paper}/{one.table}" in names:
                newest[one.id] = one, folder.name
    return list(newest.values())


def results_page(
    root: Path, tables: Sequence[str], figures: Sequence[str], folder: str, earlier: Mapping[Path, Sequence[str]]
) -> str:
    """``docs/results.md``: the newest publication, and what only ``earlier`` ones have (:func:`earlier_results`). ``folder``: of
    the newest, from the repository's root."""
    place = f"../{folder}/"
    date, _, _, commit = PUBLICATION.fullmatch(Path(folder).name).groups()
    findings = latest_findings(root, earlier)
    blocks = [
        f"# Results at the scale `{scale_of(root)}`",
        f"The newest published run: {date}, commit `{commit}`. In one file: [report.html]({place}report.html).",
        "## Claims",
        f"{claims_sentence(root, [one for one, _ in findings])} Effects and reasons:"
        f" [claims.md]({place}claims.md); rules: [verdicts.md](verdicts.md#the-claim). In brackets: table, and"
        " comparisons for the claim / measured / all.",
    ]
    for verdict in (SUPPORTED, CONTRADICTED, HOLDS, FAILS):
        claims: dict[tuple[str, str, str], list[str]] = {}
        for f, run in findings:
            if f.verdict == verdict:
                claims.setdefault((f.paper, f.claim, run), []).append(f"{f.table} {f.groups}")
        lines = [
            f"- {claim} ({paper} {', '.join(where)}{f'; [{run}](../results/published/{run}/claims.md)' if run else ''})"
            for (paper, claim, run), where in claims.items()
        ]
        if lines:
            blocks += [f"**{verdict.capitalize()}**:", "\n".join(lines)]
    blocks += [
        "## Tables",
        f"With their numbers of cells measured/quoted/not run ([how to read them](read-a-table.md)). All files, costs and"
        f" commits: [README.md]({place}README.md).",
        "\n".join(_cells_of_tables(root, tables, place)),
    ]
    if earlier:
        lines = [
            f"- [{run.name}](../results/published/{run.name}/README.md): {', '.join(names)}"
            for run, names in earlier.items()
        ]
        blocks += ["Tables and figures that only earlier runs have; claims on them are from there:", "\n".join(lines)]
    if figures:
        blocks.append("## Figures")
        blocks += [f"![{name}]({place}figures/{name}.svg)" for name in figures]
    return "\n\n".join(blocks) + "\n"


def readme_section(
    root: Path,
    headlines: Sequence[Headline],
    folder: str,
    pages: Mapping[str, str],
    earlier: Mapping[Path, Sequence[str]],
) -> str:
    """The results section of README.md: a picture and a table of the headlines, the verdicts on all claims at the scale of
    ``root``, published in ``folder``, and where everything is. ``pages``: scale → the page of its results, under docs/;
    ``earlier``: as for :func:`results_page`, so that both count the same verdicts."""
    findings = [one for one, _ in latest_findings(root, earlier)]
    data = " Data sets substitute for the papers' and models are small: scores neither confirm nor refute the papers' numbers."
    if {one.finding.scale for one in headlines if one.cells} == {"paper"}:
        data = ""
    more = ", ".join(f"[{scale}](docs/{page})" for scale, page in pages.items())
    return (
        f"![What each paper's method adds, in points: the numbers of the table below]({HEADLINES_FILE})\n\n"
        f"{in_a_sentence(headlines)} Each row is from the largest [scale](docs/glossary.md#scale) that measured it.{data}\n\n"
        f"{headline_table(headlines)}\n\n"
        "A row is one claim: what a paper's method adds to its first baseline; of several comparisons, the one with the median"
        " difference; one whose metric has no room for the smallest effect is shown only if there is no other."
        " The verdict is on all of them: *q*, the claim's p adjusted for all measured claims of its run, has to be below"
        " 0.05. Intervals cover other test queries and, with several seeds, other seeds. *≈ chance*: no better than guessing."
        " *≥*: BM25's MRR at a greater depth is at least this.\n\n"
        f"{claims_sentence(root, findings, f'the scale `{scale_of(root)}`')} Claims,"
        f" tables and figures of {more}. The whole run in one page: [report.html]({folder}/report.html); its files:"
        f" [{folder}]({folder}/README.md)."
    )
