"""Your own corpus: the rows of the table, and the files that they are made of.

A row is one way to search: BM25, the published encoder as it is, the same fine-tuned, continued on the folder's texts and then
fine-tuned, each of these together with BM25, and BM25 with a cross-encoder behind it. Rows are plain values, for JSON.
"""

from collections.abc import Mapping
from typing import Any

from pretrieve.base import paths
from pretrieve.workflow.job_options import recipe_options
from pretrieve.workflow.my_corpus import METRICS, NAME, PAIRS, PUBLISHED, SCRATCH, SIZE, remarks
from pretrieve.workflow.my_corpus_recipes import AS_IS, RERANKER

BM25 = f"bm25.reqa-{SIZE}"
#: The published encoder as it is, the cross-encoder, and what that ranks again.
START, CROSS = f"{PUBLISHED}.{AS_IS}-{SIZE}", f"{PUBLISHED}.{RERANKER}-{SIZE}"
RERANKED = f"rerank-{CROSS}"
_LABELS = {
    "bert": "masked words",
    "condenser": "Condenser",
    "retromae": "RetroMAE",
    "dupmae": "DupMAE",
    "seed-encoder": "SEED-Encoder",
    "ict": "ICT",
    "ict-bfs": "ICT + BFS",
    SCRATCH: "from random weights",
}
_KINDS = {PUBLISHED: "fine-tuned", SCRATCH: "scratch"}
#: Kinds of rows with one system of vectors.
DENSE = ("as-is", "fine-tuned", "continued", "scratch")


def _row(kind: str, label: str, system: str, seeds: list[int], **more: str) -> dict[str, Any]:
    return {"kind": kind, "label": label, "system": system, "seeds": seeds, **more}


def rows_of(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``kind``, ``label``, ``system`` and ``seeds`` of every row; ``dense``: of a hybrid, the system that BM25 is fused with;
    ``cross``: of the reranked row, the cross-encoder."""
    options = config["my_corpus_options"]
    seeds, recipe = list(config["seeds"]), options["recipe"]
    dense = [_row("as-is", "published encoder, not trained further", START, seeds[:1])]
    order = list(_KINDS) + list(_LABELS)
    encoders = sorted(config["encoders"], key=lambda name: order.index(name) if name in order else len(order))
    encoders.sort(key=lambda name: (name != PUBLISHED, name == SCRATCH))
    for name in encoders if config["my_corpus_found"]["trains"] else ():
        label = "fine-tuned" if name == PUBLISHED else f"{_LABELS.get(name, name)}, fine-tuned"
        dense.append(_row(_KINDS.get(name, "continued"), label, f"{name}.{recipe}-{SIZE}", seeds))
    rows = [_row("bm25", "BM25", BM25, [0]), *dense]
    for row in dense:
        label, system = f"BM25 + {row['label']}", f"hybrid-{row['system']}"
        rows.append(_row("hybrid", label, system, row["seeds"], dense=row["system"]))
    if _reranks(config):
        rows.append(_row("rerank", "BM25, reranked", RERANKED, seeds, cross=CROSS))
    return rows


def cost_files(root: str, row: Mapping[str, Any], trained_on: str, seed: int) -> list[str]:
    bm25 = paths.cost_files(root, BM25, NAME, trained_on, 0)["search"]
    if row["kind"] == "rerank":
        stages = paths.cost_files(root, row["cross"], NAME, trained_on, seed)
        beside = paths.cost_beside(paths.run_file(root, row["system"], NAME, seed))
        return [bm25, stages["pretrain"], stages["finetune"], beside]
    if row["kind"] == "hybrid":
        return [bm25, *paths.cost_files(root, row["dense"], NAME, trained_on, seed).values()]
    return list(paths.cost_files(root, row["system"], NAME, trained_on, seed).values())


def _reranks(config: Mapping[str, Any]) -> bool:
    return bool(config["my_corpus_options"]["rerank"] and config["my_corpus_found"]["reranks"])


def search_request(config: Mapping[str, Any], root: str) -> dict[str, Any]:
    """What programs that search are told: where the files are, and how it is searched; whatever rows there are. ``rerank``: hits
    that a cross-encoder scores; ``seed``: of the models that are timed; ``conventions``: of the scores, where there are any."""
    options, data = config["my_corpus_options"], config["datasets"][NAME]
    trained_on = data.get("trained_on", NAME)
    recipe = recipe_options(config, options["recipe"], trained_on)
    return {
        "root": root,
        "dataset": NAME,
        "trained_on": trained_on,
        "size": SIZE,
        "seed": config["seeds"][0],
        "systems": {"bm25": BM25, "published": START, "cross": CROSS, "reranked": RERANKED},
        "index": f"{root}/indexes/bm25/{NAME}",
        "metrics": METRICS,
        "reranks": _reranks(config),
        "rerank": options["rerank"],
        "depth": data["depth"],
        "k1": config["bm25"]["k1"],
        "b": config["bm25"]["b"],
        "lengths": {key: recipe[key] for key in ("query_length", "passage_length")},
        **{key: data[key] for key in ("conventions",) if key in data},
    }


def table_request(config: Mapping[str, Any], root: str) -> dict[str, Any]:
    """The same with the rows, and what the table says of them."""
    search, rows = search_request(config, root), rows_of(config)
    for row in rows:
        row["costs"] = {str(seed): cost_files(root, row, search["trained_on"], seed) for seed in row["seeds"]}
    return search | {
        "rows": rows,
        "start": config["my_corpus_options"]["start"],
        "folder": str(config["my_corpus"]),
        "generated": search["trained_on"] == PAIRS,
        "remarks": remarks(config),
        "start_reads_it": config["my_corpus_found"]["start_reads_it"],
    }


def metrics_of(request: Mapping[str, Any], *kinds: str) -> list[str]:
    """The metrics files of the rows of some kinds, or of all rows, of all seeds."""
    rows = [row for row in request["rows"] if row["kind"] in kinds or not kinds]
    pairs = ((row["system"], seed) for row in rows for seed in row["seeds"])
    return [paths.metrics_file(request["root"], system, request["dataset"], seed) for system, seed in pairs]


def table_inputs(request: Mapping[str, Any]) -> list[str]:
    """Every file that the table is made of: metrics and statistics; costs stand beside what the metrics are made of."""
    tasks = dict.fromkeys([request["dataset"], request["trained_on"]])
    stats = [f"{paths.task_dir(request['root'], task)}/stats.json" for task in tasks]
    return [*metrics_of(request), *stats]
