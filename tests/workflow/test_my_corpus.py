"""A corpus of one's own: a miniature from the folder to the exported retriever, and what is planned for other folders.

Seen to fail when: ICT + BFS is planned for documents without sections.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest
from miniature import Workflow, clone
from tiny_science import WORDS, change_config

TARGET = "my_corpus_report"
OPTIONS = {
    "objectives": ["none", "bert", "ict", "ict-bfs"],
    "recipe": "dpr-bm25",
    "seeds": [1],
    "depth": 20,
    "passage_length": 48,
    "examples": "blocks",
    "pairs": 20,
    "budgets": {name: {"batch": 4, "steps": 2, "learning_rate": 1.0e-3} for name in ("base", "continued", "pairs")},
    "finetuning": {"batch": 4, "group": 2, "steps": 2, "epochs": 2},
}


def write_folder(folder: Path, splits: tuple[str, ...] = ("test",), sections: bool = False) -> Path:
    """Forty documents of three sentences, and questions that are words of one of them."""
    rng = random.Random(7)
    (folder / "qrels").mkdir(parents=True)
    documents, queries = [], []
    for number in range(40):
        sentences = [f"The {' '.join(rng.sample(WORDS, 8))} stands here {number}." for _ in range(3)]
        text = f"{' '.join(sentences)}\n\n## More\n\n{' '.join(sentences[::-1])}" if sections else " ".join(sentences)
        documents.append({"_id": f"d{number}", "title": f"Title {number}", "text": text})
    for split in splits:
        lines = ["query-id\tcorpus-id\tscore"]
        for number in rng.sample(range(40), 16):
            words = rng.sample(documents[number]["text"].split()[1:9], 4)
            queries.append({"_id": f"{split}{number}", "text": f"where is {' '.join(words)}"})
            lines.append(f"{split}{number}\td{number}\t1")
        (folder / f"qrels/{split}.tsv").write_text("\n".join(lines) + "\n")
    for name, records in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


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
    assert "> **Use " in page and "for there is no train split (zero-shot)" in page and "16 test queries" in page
    with open(root / "table.csv", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "ndcg@10"]
    assert [row["row"] for row in rows] == ["BM25", "BERT (masked words)"]
    # The questions are words of their documents: BM25 finds them, and a model of two steps does not.
    assert float(rows[0]["mean"]) > 0.6 > float(rows[1]["mean"])
    assert "Use BM25" in page and float(rows[1]["p_bm25"]) < 0.05
    made = json.loads((root / "metrics/bert.dpr-bm25-full/my-corpus/seed1.json").read_text())
    assert rows[1]["mean"] == f"{made['metrics']['ndcg@10']:.4f}"
    pairs = json.loads((root / "tasks/my-corpus-pairs/stats.json").read_text())["splits"]["full"]
    assert pairs["train"] + pairs["valid"] == 16 and pairs["test"] == pairs["dev"] == 2
    assert (root / "retriever/modules.json").is_file() and "(use this)" in (root / "table.html").read_text()
    card = (root / "retriever/README.md").read_text()
    assert "my-corpus-pairs" in card and "ndcg@10" in card
    made = {path.name for path in (project.folder / "results/demo").iterdir()}
    assert made == {"my_corpus"}, "the scale's own results are left alone"

    again = project.plan(TARGET, "--config", "my_corpus=zero shot", few)
    assert again.jobs == {}
    write_folder(project.folder / "other")
    other = project.plan(TARGET, "--config", "my_corpus=other", few)
    assert other.count("pretrain") == 2 and other.count("collection") == 2 and other.count("my_corpus_table") == 1


def lines_of(folder: Path, texts: list[str]) -> Path:
    """A table of short lines, and a test question about each."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.csv").write_text("id,text\n" + "".join(f"d{n},{text}\n" for n, text in enumerate(texts)))
    queries = [{"_id": f"q{n}", "text": " ".join(text.split()[1:4])} for n, text in enumerate(texts)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "qrels/test.tsv").write_text("".join(f"q{n}\td{n}\t1\n" for n in range(len(texts))))
    return folder


def test_a_table_of_lines_without_sentences_runs_to_the_end(project: Workflow) -> None:
    """The corpus that was refused once: short lines in lower case without marks, and test judgements only."""
    rng = random.Random(3)
    lines_of(project.folder / "lines", [" ".join(rng.sample(WORDS, 9)) for _ in range(40)])
    few = "my_corpus_options={objectives: [bert, ict]}"
    ended = project.run("--cores", "2", TARGET, "--config", "my_corpus=lines", few)
    assert ended.code == 0, ended.text
    assert "pairs are two random crops of a document" in ended.text and "ICT is left out" in ended.text
    root = project.folder / "results/demo/my_corpus"
    assert json.loads((root / "collections/my-corpus-pairs/stats.json").read_text())["reader"] == "random-crops"
    assert "Use BM25" in (root / "table.md").read_text() and (root / "retriever/modules.json").is_file()


@pytest.mark.parametrize("texts", [["only one document of words"], ["all documents are equal here"] * 12])
def test_where_nothing_can_be_trained_bm25_is_measured(project: Workflow, texts: list[str]) -> None:
    folder = lines_of(project.folder / f"few {len(texts)}", texts)
    ended = project.run("--cores", "2", TARGET, "--config", f"my_corpus={folder.name}")
    assert ended.code == 0, ended.text
    assert "nothing is trained" in ended.text
    with open(project.folder / "results/demo/my_corpus/table.csv", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "recall@100"]
    # The questions were all of the same words, and so every document is a hit.
    assert [(row["row"], float(row["mean"])) for row in rows] == [("BM25", 1.0)]


def test_with_a_train_split_and_sections(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "all", ("train", "dev", "test"), sections=True)
    plan = project.plan(TARGET, "--config", f"my_corpus={folder}", "my_corpus_options={seeds: [1, 2]}")
    assert plan.count("collection") == plan.count("task") == 1
    assert (
        plan.count("pretrain") == 2 * 5
        and plan.count("finetune_my_corpus") == plan.count("retrieve_my_corpus") == 2 * 4
    )
    assert "left out" not in plan.stderr
    assert project.plan("--config", f"my_corpus={folder}").count("my_corpus_table") == 1, "the default target"


def test_without_sections_there_is_no_bfs(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "flat", ("train", "test"))
    plan = project.plan(TARGET, "--config", f"my_corpus={folder}")
    assert plan.count("pretrain") == 4 and "ICT + BFS is left out: no sections" in plan.stderr


def test_without_questions_only_pretraining_can_be_done(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "texts")
    (folder / "queries.jsonl").unlink()
    (folder / "qrels/test.tsv").unlink()
    refused = project.run("-n", TARGET, "--config", f"my_corpus={folder}")
    assert refused.code != 0 and "has no queries.jsonl" in refused.text and "Traceback (" not in refused.text
    assert "snakemake encoders --config my_corpus=" in refused.text
    plan = project.plan("encoders", "--config", f"my_corpus={folder}")
    assert plan.count("pretrain") == 4 and plan.count("finetune") == 0


def test_mistakes_end_in_one_line(project: Workflow, tmp_path: Path) -> None:
    missing = project.run("-n", TARGET)
    assert f"{TARGET} needs a folder" in missing.text and "Traceback (" not in missing.text
    folder = write_folder(tmp_path / "wrong")
    with open(folder / "qrels/test.tsv", "a") as stream:
        stream.write("test1\td99\t1\n")
    unknown = project.run("-n", TARGET, "--config", f"my_corpus={folder}")
    assert "qrels/test.tsv: line 18: " in unknown.stderr and "Traceback" not in unknown.text
