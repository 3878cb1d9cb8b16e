"""The table of a corpus of one's own: BM25 and every objective, what is beyond chance, what it cost, and what to use.

Scores are means over seeds with their sample standard deviation. Each objective is tested twice on the queries' nDCG@10
(mean over seeds): against BM25, and against BERT, which had the same body, steps and fine-tuning and no special objective.
The test is the paired randomisation test, and p is corrected by Holm over all tests of the table
(:mod:`pretrieve.evaluation.significance`). A difference that is not significant counts as none in the recommendation, and
is called so.

The winner is chosen on the queries that it is measured with, so its own number is a little too good; a note under the
table says so.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import holm, paired_randomisation_test
from pretrieve.reporting.tables.outside_text import to_markdown_text
from pretrieve.reporting.tables.results import Cost, ResultFiles
from pretrieve.reporting.tables.training_sizes import negatives_note

LEVEL = 0.05
ROUNDS = 10_000
#: With fewer test queries a note says so: TREC takes 50 for the least that tells systems apart (Voorhees and Buckley 2002).
FEW = 50
NAMES = {"ndcg": "nDCG", "mrr": "MRR", "recall": "Recall"}


class Score(NamedTuple):
    """Mean over seeds and sample standard deviation (None for one seed), 0 to 1."""

    mean: float
    sd: float | None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.sd is None else f" ± {self.sd:.3f}")


@dataclass(frozen=True)
class Row:
    """One system. scores: metric → :class:`Score`. per_query: query id → first metric, mean over seeds. against_bm25,
    against_bert: corrected p-values, None where a row is not tested against itself or there is no such row. note: on its
    training."""

    label: str
    system: str
    seeds: tuple[int, ...]
    scores: Mapping[str, Score]
    per_query: Mapping[str, float]
    cost: Cost
    against_bm25: float | None = None
    against_bert: float | None = None
    note: str = ""

    @property
    def trained(self) -> bool:
        return not self.system.startswith("bm25.")

    @property
    def pretrained(self) -> bool:
        return self.trained and not self.system.startswith("none.")

    @property
    def named(self) -> str:
        """What a sentence about retrievers calls it: "no pre-training" is a row's name, but no retriever's."""
        return self.label if self.pretrained else "the one without pre-training"


class Advice(NamedTuple):
    """``use``: the system to use; ``best``: the best retriever that was trained, which is exported; and the sentence."""

    use: str
    best: str
    sentence: str


def read_rows(request: Mapping[str, Any]) -> list[Row]:
    """The rows of a request (:func:`pretrieve.workflow.my_corpus.table_request`), tested and corrected.

    Raises
    ------
    DataError
        when a file is missing or damaged, or two rows have other queries.
    """
    files, metric = ResultFiles(), request["metrics"][0]
    rows = [_row(entry, request, files) for entry in request["rows"]]
    known = rows[0].per_query.keys()
    for row in rows:
        if row.per_query.keys() != known:
            raise DataError(
                f"{row.system}: {len(row.per_query)} queries with {metric}, {rows[0].system} has {len(known)}; expected the "
                "same. Evaluate both again."
            )
    return compare(rows, request["baseline"])


def _row(entry: Mapping[str, Any], request: Mapping[str, Any], files: ResultFiles) -> Row:
    root, dataset, system = request["root"], request["dataset"], entry["system"]
    of_seeds = {seed: paths.metrics_file(root, system, dataset, seed) for seed in entry["seeds"]}
    scores = {}
    for metric in request["metrics"]:
        values = [files.number(file, "metrics", metric) for file in of_seeds.values()]
        scores[metric] = Score(fmean(values), stdev(values) if len(values) > 1 else None)
    queries = [files.per_query(file, request["metrics"][0]) or {} for file in of_seeds.values()]
    if any(one.keys() != queries[0].keys() for one in queries):
        raise DataError(f"{system}: its seeds have other queries; expected the same. Evaluate all again.")
    costs = [
        files.cost(paths.cost_files(root, system, dataset, request["trained_on"], seed).values()) for seed in of_seeds
    ]
    return Row(
        label=entry["label"],
        system=system,
        seeds=tuple(of_seeds),
        scores=scores,
        per_query={query: fmean(one[query] for one in queries) for query in queries[0]},
        cost=Cost(*map(fmean, zip(*costs, strict=True))),
        note="" if system.startswith("bm25.") else negatives_note(root, request["trained_on"], system, of_seeds, files),
    )


def compare(rows: Sequence[Row], baseline: str) -> list[Row]:
    """The rows with their p-values: each trained one against BM25 and against the system ``baseline``."""
    others = {"against_bm25": next((row for row in rows if not row.trained), None)}
    others["against_bert"] = next((row for row in rows if row.system == baseline), None)
    tests = [
        (number, field, _p_value(row, other))
        for number, row in enumerate(rows)
        for field, other in others.items()
        if other is not None and row.trained and row is not other
    ]
    corrected = holm([p for _, _, p in tests]) if tests else []
    found: list[dict[str, float]] = [{} for _ in rows]
    for (number, field, _), p in zip(tests, corrected, strict=True):
        found[number][field] = p
    return [Row(**{**vars(row), **values}) for row, values in zip(rows, found, strict=True)]


def _p_value(row: Row, other: Row) -> float:
    queries = sorted(other.per_query)
    ours, theirs = ([one.per_query[query] for query in queries] for one in (row, other))
    return paired_randomisation_test(ours, theirs, rounds=ROUNDS, seed=0)


def advise(rows: Sequence[Row], metric: str, baseline: str) -> Advice:
    """What to use, and why, in one sentence. The first row is BM25."""
    bm25, trained = rows[0], [row for row in rows if row.trained]
    name, n = metric_name(metric), len(bm25.per_query)

    def mean(row: Row) -> float:
        return row.scores[metric].mean

    if not trained:
        why = f"Use BM25: nothing could be trained on this corpus; its {name} is {mean(bm25):.3f} ({n:,} queries)."
        return Advice(bm25.system, "", why)
    best = max(trained, key=mean)
    bert = next((row for row in rows if row.system == baseline), None)
    ahead = [row for row in trained if mean(row) > mean(bm25) and _significant(row.against_bm25)]
    if not ahead:
        if _significant(best.against_bm25):
            return Advice(
                bm25.system,
                best.system,
                f"Use BM25: its {name} of {mean(bm25):.3f} is above that of every retriever that was trained here; the best of "
                f"them, {best.named}, has {best.scores[metric]} ({_p(best.against_bm25)}, {n:,} queries)"
                f"{_beside(best, bert, metric)}.",
            )
        return Advice(
            bm25.system,
            best.system,
            f"Use BM25: between it ({name} {mean(bm25):.3f}) and the best retriever that was trained here, {best.named} "
            f"({best.scores[metric]}), {n:,} queries show no difference ({_p(best.against_bm25)}), and BM25 needs no "
            f"training{_beside(best, bert, metric)}.",
        )
    use = max(ahead, key=mean)
    what = use.label if use.pretrained else "a retriever without pre-training"
    reason = (
        f"Use {what}: its {name} of {use.scores[metric]} is above BM25's {mean(bm25):.3f} ({_p(use.against_bm25)}, "
        f"{n:,} queries)"
    )
    if best is not use:
        more = f"; {best.named} has {best.scores[metric]}, but that may be chance ({_p(best.against_bm25)})"
    elif bert is None or use is bert:
        other = "other " if use.pretrained else ""
        more = f", and no {other}objective that was trained here has a higher one"
    elif _significant(use.against_bert):
        more = f", and above the {mean(bert):.3f} of {bert.label} ({_p(use.against_bert)})"
    else:
        more = f"; between it and {bert.label} ({bert.scores[metric]}) they show no difference ({_p(use.against_bert)})"
    return Advice(use.system, use.system, f"{reason}{more}.")


def _beside(best: Row, bert: Row | None, metric: str) -> str:
    """Behind a recommendation of BM25: whether the best objective is at least better than plain masked words, or none is
    better than no pre-training."""
    if bert is None or best is bert:
        return ""
    if _significant(best.against_bert) and not best.pretrained:
        return (
            f"; no objective that was trained here has a higher one, and {bert.label} a lower "
            f"({bert.scores[metric]}, {_p(best.against_bert)})"
        )
    if _significant(best.against_bert):
        return (
            f"; of the objectives, {best.label} is above {bert.label} ({bert.scores[metric]}, {_p(best.against_bert)})"
        )
    return (
        f"; between {best.named} and {bert.label} ({bert.scores[metric]}) the queries show no difference "
        f"({_p(best.against_bert)})"
    )


def _significant(p: float | None) -> bool:
    return p is not None and p < LEVEL


def _p(p: float | None) -> str:
    return "not tested" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def metric_name(metric: str) -> str:
    """``ndcg@10`` → ``nDCG@10``."""
    name, at, depth = metric.partition("@")
    return f"{NAMES.get(name, name)}{at}{depth}"


HEADS = ("row", "system", "metric", "mean", "sd", "seeds", "queries")
COSTS = ("p_bm25", "p_bert", "wall_s", "gpu_h", "peak_gb")


def to_csv(rows: Sequence[Row]) -> str:
    """One line for each row and metric; p-values (corrected) stand with the first metric, which is tested."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*HEADS, *COSTS])
    for row in rows:
        for number, (metric, score) in enumerate(row.scores.items()):
            values = (row.against_bm25, row.against_bert) if number == 0 else (None, None)
            writer.writerow(
                [
                    row.label,
                    row.system,
                    metric,
                    f"{score.mean:.4f}",
                    "" if score.sd is None else f"{score.sd:.4f}",
                    len(row.seeds),
                    len(row.per_query),
                    *("" if p is None else f"{p:.4f}" for p in values),
                    f"{row.cost.wall_s:.1f}",
                    f"{row.cost.gpu_h:.4f}",
                    f"{row.cost.peak_gb:.2f}",
                ]
            )
    return text.getvalue()


def make_page(
    request: Mapping[str, Any], rows: Sequence[Row], stats: Mapping[str, Any], advice: Advice
) -> dict[str, Any]:
    """What Markdown and HTML both show. stats: ``stats.json`` of the tested task, of the one that was
    trained on, and of the ``collection`` that was read."""
    metrics = list(request["metrics"])
    best = {metric: max(row.scores[metric].mean for row in rows) for metric in metrics}
    tested_task, trained_task = stats["tested"], stats["trained"]
    training = next(iter(trained_task["splits"].values()))
    source = (
        "pairs made of the corpus, for there is no train split (zero-shot)" if request["generated"] else "questions"
    )
    notes = [
        f"{tested_task['candidates']:,} documents, {len(rows[0].per_query):,} test queries; fine-tuned on "
        f"{training['train']:,} {source}; a query is read up to {request['lengths']['query_length']} tokens, a document up "
        f"to {request['lengths']['passage_length']}.",
        "Mean over seeds ± standard deviation. BM25 draws nothing and has one run.",
        f"p: paired randomisation test on {metric_name(metrics[0])} of the queries, corrected by Holm over all tests of the "
        f"table. The winner is chosen on the queries it is measured with, so its number is a little too good.",
        "Time: wall time of all stages behind a score for one seed, shared ones (the base that all go on from) in full for each; "
        "GPU hours and the largest memory of a stage likewise.",
    ]
    skipped = stats["collection"]["warnings"]
    notes += [f"{kind[0].upper()}{kind[1:]}: {skipped[kind]['count']:,}." for kind in skipped if "left out" in kind]
    found = dict[str, list[str]]()
    for row in rows:
        found.setdefault(row.note, []).append(row.label)
    notes += [f"{', '.join(labels)}: {note}." for note, labels in found.items() if note]
    if len(rows[0].per_query) < FEW:
        notes.insert(1, f"So few queries show large differences only: judge {FEW} or more before a small one decides.")
    return {
        "folder": request["folder"],
        "sentence": advice.sentence,
        "heads": ["", *map(metric_name, metrics), "p, BM25", "p, BERT", "time", "GPU h", "GB"],
        "rows": [
            {
                "label": row.label,
                "used": row.system == advice.use,
                "scores": [(str(row.scores[m]), row.scores[m].mean == best[m]) for m in metrics],
                "rest": [
                    _cell(row.against_bm25),
                    _cell(row.against_bert),
                    _time(row.cost.wall_s),
                    f"{row.cost.gpu_h:.2f}",
                    f"{row.cost.peak_gb:.1f}",
                ],
            }
            for row in rows
        ],
        "notes": notes,
    }


def _cell(p: float | None) -> str:
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


def to_markdown(page: Mapping[str, Any]) -> str:
    """The page as Markdown, padded so that it can be read in a terminal too."""
    body = [
        [
            f"**{row['label']}**" if row["used"] else row["label"],
            *(f"**{value}**" if best else value for value, best in row["scores"]),
            *row["rest"],
        ]
        for row in page["rows"]
    ]
    lines = [[to_markdown_text(cell).replace("|", "\\|") for cell in line] for line in (page["heads"], *body)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(page["heads"]))]
    table = [_line(line, widths) for line in lines]
    table.insert(1, f"| :{'-' * (widths[0] - 1)} | " + " | ".join(f"{'-' * (w - 1)}:" for w in widths[1:]) + " |")
    notes = [f"- {note}" for note in page["notes"]]
    blocks = [
        f"# Objectives compared on {to_markdown_text(page['folder'])}",
        f"> **{page['sentence']}**",
        "\n".join(table),
        "\n".join(notes),
    ]
    return "\n\n".join(blocks) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    padded = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
    return f"| {' | '.join(padded)} |"
