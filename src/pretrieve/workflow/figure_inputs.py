"""The files that a figure is made from at the configured scale: its rule's inputs. Standard library only, as the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pretrieve.analysis.plan import PRETRAINED, analyses
from pretrieve.base import paths
from pretrieve.base.paths import parse_system
from pretrieve.references.figures import Figure, Measure, Series

if TYPE_CHECKING:
    from pretrieve.workflow.plan import Plan


def cell_of(paper: str, measure: Measure) -> dict[str, str]:
    """What a point of a figure needs measured, as a cell of a table; a cell of vectors has no metric."""
    return {"paper": paper, "system": measure.system, "dataset": measure.role, "metric": measure.metric}


def cells_of(figure: Figure) -> list[dict[str, str]]:
    return [cell_of(figure.paper, measure) for measure in figure.measures()]


def figure_inputs(plan: Plan, name: str) -> list[str]:
    """Every file that this scale can make for the figure ``{paper}/{figure}``, in reading order."""
    paper = plan.figures[name].paper
    files = [file for _, series in plan.figures[name].all_series() for file in _of_series(plan, series, paper)]
    return list(dict.fromkeys(files))


def _of_series(plan: Plan, series: Series, paper: str) -> list[str]:
    if series.kind == "analysis":
        options = analyses(plan.config).get(series.analysis, {})
        there = series.encoder in options.get("encoders", ()) and (series.stage == PRETRAINED or "finetuned" in options)
        return [paths.analysis_file(plan.root, series.analysis)] if there else []
    files = []
    for measure in series.measures():
        dataset = plan.measured(cell_of(paper, measure))
        if dataset is None:
            continue
        task = paths.task_dir(plan.root, dataset)
        for seed in plan.seeds_of(measure.system):
            if series.kind == "tokens":
                first = parse_system(next(iter(series.points.values())).system).encoder
                since = trained_since(starts_of(plan), parse_system(measure.system).encoder, first)
                files += [f"{paths.encoder_dir(plan.root, encoder, seed)}/pretrieve.json" for encoder in since]
            if series.kind in ("scores", "tokens", "level"):
                files.append(paths.metrics_file(plan.root, measure.system, dataset, seed))
            elif series.kind == "steps" and plan.trained_on(dataset) == dataset:
                # The runs during training are next to it; the recipe decides which there are.
                files.append(f"{paths.retriever_dir(plan.root, measure.system, dataset, seed)}/pretrieve.json")
                files += [f"{task}/splits.parquet", f"{task}/qrels.parquet"]
            elif series.kind in ("map", "separation"):
                store = paths.embedding_dir(plan.root, measure.system, dataset, seed)
                files += [f"{store}/corpus.json", f"{store}/queries.json"]
                files += [f"{task}/{file}" for file in paths.TASK_FILES if file.endswith(".parquet")]
    return files


def setting_of(plan: Plan, paper: str | None = None) -> dict[str, Any]:
    """What ``pretrieve figure`` is told about the scale, as JSON: :meth:`~pretrieve.workflow.plan.Plan.setting` and more."""
    more = {"analyses": dict(analyses(plan.config)), "corpus": plan.scale["corpus"], "starts": starts_of(plan)}
    return plan.setting(paper) | more


def starts_of(plan: Plan) -> dict[str, str]:
    """Encoder → the encoder of the configuration that it starts from, for those that have one."""
    starts = {name: entry.get("start") for name, entry in plan.config["encoders"].items()}
    return {name: start for name, start in starts.items() if start in plan.config["encoders"]}


def trained_since(starts: Mapping[str, str], encoder: str, first: str) -> list[str]:
    """The encoders whose training lies between ``first`` and ``encoder``, the last one first.

    >>> trained_since({"bert": "base", "co": "condenser", "condenser": "base"}, "co", "base")
    ['co', 'condenser']
    """
    since = []
    while encoder != first and encoder is not None:
        since.append(encoder)
        encoder = starts.get(encoder)
    return since
