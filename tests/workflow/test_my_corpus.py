"""A corpus of one's own: a miniature from the folder to the exported retriever, and what is planned for other folders.

Seen to fail when: ICT + BFS is planned for documents without sections; a hybrid's run is one of its parts.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from miniature import Workflow, clone
from own_corpus import OPTIONS, TARGET, write_folder
from tiny_science import change_config

import pretrieve
from pretrieve.benchmarks.official.beir import read_beir_test
from pretrieve.retrieval.trec_run import read_trec


@pytest.fixture(scope="module")
def project(unstarted: Workflow, folders: Path) -> Workflow:
    workflow = clone(unstarted, folders / "my-corpus")
    change_config(workflow.folder, "my_corpus_options", to=OPTIONS)
    return workflow


def test_without_a_train_split_it_runs_to_the_exported_retriever(project: Workflow) -> None:
    write_folder(project.folder / "zero shot")
    few = "my_corpus_options={objectives: [bert]}"
    ended = project.run("--cores", "2", TARGET, "--config", "my_corpus=zero shot", few)
    assert ended.code == 0, ended.text
    root = project.folder / "results/demo/my_corpus"
    page = (root / "table.md").read_text()
    assert "> **Deploy " in page and "for there is no train split (zero-shot)" in page and "16 test queries" in page
    with open(root / "table.csv", newline="") as stream:
        rows = {row["row"]: row for row in csv.DictReader(stream) if row["metric"] == "ndcg@10"}
    dense = ["published encoder, not trained further", "fine-tuned", "masked words, fine-tuned"]
    assert list(rows) == ["BM25", *dense, *(f"BM25 + {name}" for name in dense)], (
        "no pairs to train a cross-encoder with"
    )
    assert rows["BM25 + fine-tuned"]["bm25_weight"] == "0.5", "no development questions"
    made = json.loads((root / "metrics/bert.dpr-bm25-full/my-corpus/seed1.json").read_text())
    assert rows["masked words, fine-tuned"]["mean"] == f"{made['metrics']['ndcg@10']:.4f}"
    # One run of a hybrid, fused by hand.
    runs = {
        name: read_trec(root / f"runs/{name}-full/my-corpus/seed{seed}.trec.gz")
        for name, seed in (("bm25.reqa", 0), ("published.dpr-bm25", 1), ("hybrid-published.dpr-bm25", 1))
    }
    lexical, trained, hybrid = runs.values()
    query = hybrid.query_ids[0]
    hits = [
        dict(zip(one.doc_ids[at], one.scores[at], strict=True))
        for one in (lexical, trained)
        for at in [one.query_ids.index(query)]
    ]
    best, share = hybrid.doc_ids[0][0], float(rows["BM25 + fine-tuned"]["bm25_weight"])
    scaled = [
        (one[best] - min(one.values())) / (max(one.values()) - min(one.values())) if best in one else 0.0
        for one in hits
    ]
    expected = share * scaled[0] + (1 - share) * scaled[1]
    assert hybrid.scores[0][0] == pytest.approx(expected, rel=1e-5)
    chosen = json.loads((root / "choice.json").read_text())
    assert chosen["deploy"]["kind"] in ("bm25", "dense", "hybrid") and len(chosen["sentences"]) == 3
    pairs = json.loads((root / "tasks/my-corpus-pairs/stats.json").read_text())["splits"]["full"]
    assert pairs["train"] + pairs["valid"] == 16 and pairs["test"] == pairs["dev"] == 2
    assert "(use this)" in (root / "table.html").read_text()
    check_deployed(root, project.folder / "zero shot", chosen, rows)
    made = {path.name for path in (project.folder / "results/demo").iterdir()}
    assert made == {"my_corpus"}, "the scale's own results are left alone"

    again = project.plan(TARGET, "--config", "my_corpus=zero shot", few)
    assert again.jobs == {}
    write_folder(project.folder / "other")
    other = project.plan(TARGET, "--config", "my_corpus=other", few)
    assert other.count("pretrain") == 2 and other.count("collection") == 2 and other.count("my_corpus_table") == 1


def check_deployed(root: Path, folder: Path, chosen: dict, rows: dict) -> None:
    """What is deployed finds what the table says, from the directory alone."""
    has_model, card = chosen["deploy"]["kind"] != "bm25", (root / "retriever/README.md").read_text()
    assert (root / "retriever/modules.json").is_file() == has_model
    assert ("licence apache-2.0" in card and "`s2orc`" in card) == has_model
    copy = root.parents[2] / "a copy"
    shutil.copytree(root / "retriever", copy)
    data = read_beir_test(folder)
    run = pretrieve.load_index(copy).rank(list(data.queries.values()), 20, list(data.queries))
    # The run's queries may have been encoded in bf16.
    mean = pretrieve.evaluate(run, data.qrels, ["ndcg@10"]).mean["ndcg@10"]
    assert mean == pytest.approx(float(rows[chosen["label"]]["mean"]), abs=0.02)


def test_with_a_train_split_and_sections(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "all", ("train", "dev", "test"), sections=True)
    plan = project.plan(TARGET, "--config", f"my_corpus={folder}", "my_corpus_options={seeds: [1, 2]}")
    assert plan.count("collection") == plan.count("task") == 1
    assert plan.count("pretrain") == 2 * 4 and plan.count("my_corpus_rerank") == 2
    assert plan.count("finetune_my_corpus") == 1 + 2 * 4 + 2 and plan.count("retrieve_my_corpus") == 1 + 2 * 4
    assert "left out" not in plan.stderr.replace(str(tmp_path), "")
    assert project.plan("--config", f"my_corpus={folder}").count("my_corpus_table") == 1, "the default target"


def test_another_row_is_exported_as_the_page_says(project: Workflow, tmp_path: Path) -> None:
    """Of a folder without training questions the only command of the page asked for a retriever that nothing makes."""
    page = (project.folder / "docs/your-own-corpus.md").read_text(encoding="utf-8")
    (target,) = re.findall(r"results/demo/my_corpus/exports/SYSTEM/my-corpus/\S+", page)
    said = re.search(r"without training questions, `(\S+)` stands in place of `my-corpus`", page)
    target = target.replace("SYSTEM", "bert.dpr-bm25-full").replace(
        "/my-corpus/", f"/{said[1]}/" if said else "/my-corpus/"
    )
    plan = project.plan(target, "--config", f"my_corpus={write_folder(tmp_path / 'untrained')}")
    assert plan.count("pretrain") == 1 and plan.count("export") == 1


def test_without_sections_there_is_no_bfs(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "flat", ("train", "test"))
    plan = project.plan(TARGET, "--config", f"my_corpus={folder}")
    assert plan.count("pretrain") == 3 and "ict-bfs is skipped: no sections" in plan.stderr


def test_mistakes_end_in_one_line(project: Workflow, tmp_path: Path) -> None:
    missing = project.run("-n", TARGET)
    assert f"{TARGET} needs a corpus" in missing.text and "Traceback (" not in missing.text
    folder = write_folder(tmp_path / "wrong")
    with open(folder / "qrels/test.tsv", "a") as stream:
        stream.write("test1\td99\t1\n")
    unknown = project.run("-n", TARGET, "--config", f"my_corpus={folder}")
    assert "qrels/test.tsv: line 18: " in unknown.stderr and "Traceback" not in unknown.text
