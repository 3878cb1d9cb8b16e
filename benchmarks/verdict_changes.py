"""What became of every verdict: before and after, and why. Writes the last section of docs/verdicts.md.

    PYTHONPATH=src python benchmarks/verdict_changes.py --before results/published/2026-11-23-demo-2a09d2b/claims.csv
        --after results/published/2026-11-24-demo-d94dc98/claims.csv

The first file may be of any version: of it only id, claim, verdict, and test where it has one, are read.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pretrieve.base.files import whole_file
from pretrieve.reporting.claims.ledger import Finding, effect_in_words
from pretrieve.reporting.claims.verdicts import FAILS, HOLDS, INCONCLUSIVE
from pretrieve.reporting.tables.rows import read_rows

BEGIN, END = "<!-- changes:begin -->", "<!-- changes:end -->"
TESTS = {"none": "the values alone decided", "seeds": "judged by the deviation over seeds"}


def why(before: Mapping[str, str] | None, after: Finding) -> str:
    """The reasons of a verdict, and of its change, in one line."""
    reasons = []
    if before is None:
        reasons.append("new")
    elif before["verdict"] != after.verdict:
        reasons.append(TESTS.get(before.get("test", ""), ""))
        reasons.append("one seed gives no verdict on training" if after.verdict in (HOLDS, FAILS) else "")
    if after.verdict == INCONCLUSIVE and after.low:
        reasons.append(f"effect {effect_in_words(after)}")
    return "; ".join(filter(None, (*reasons, after.note)))


def changes(before: Sequence[Mapping[str, str]], after: Sequence[Finding]) -> str:
    """The section: counts of every change, and a line for each claim."""
    old = {line["id"]: line for line in before}
    moves = Counter((old[f.id]["verdict"] if f.id in old else "new", f.verdict) for f in after)
    lines = ["| before | after | claims |", "|:--|:--|--:|"]
    lines += [f"| {first} | {second} | {n} |" for (first, second), n in moves.most_common()]
    lines += ["", "| claim | before | after | why |", "|:--|:--|:--|:--|"]
    for finding in after:
        earlier = old.pop(finding.id, None)
        cells = (f"`{finding.id}`", earlier["verdict"] if earlier else "–", finding.verdict, why(earlier, finding))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [f"| `{name}` | {line['verdict']} | – | no longer a claim of its own |" for name, line in old.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, metavar="CSV")
    parser.add_argument("--after", type=Path, required=True, metavar="CSV")
    parser.add_argument("--page", type=Path, default=Path("docs/verdicts.md"))
    args = parser.parse_args()
    with open(args.before, newline="", encoding="utf-8") as stream:
        before = list(csv.DictReader(stream))
    text = args.page.read_text(encoding="utf-8")
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    with whole_file(args.page) as stream:
        stream.write(f"{head}{BEGIN}\n{changes(before, read_rows(args.after, Finding))}\n{END}{tail}".encode())


if __name__ == "__main__":
    main()
