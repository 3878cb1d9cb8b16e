"""A corpus of one's own that is a table of lines, too small, without questions, or changed; its plan, and chains of trainings.

Seen to fail when: the plan's file is not what the run is configured by; ``contents_of`` is left out of the code of a corpus, a
collection or an index.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from pathlib import Path

import pytest
import yaml
from miniature import Workflow, clone
from own_corpus import TARGET, lines_of, with_small_start, write_folder
from tiny_science import WORDS, change_config

import pretrieve


@pytest.fixture(scope="module")
def small(unstarted: Workflow, folders: Path) -> Workflow:
    """The miniature with a small start."""
    workflow = clone(unstarted, folders / "my-corpus-small")
    change_config(workflow.folder, "my_corpus_options", to=with_small_start(folders / "small-start"))
    return workflow


def test_a_table_of_lines_without_sentences_runs_to_the_end(small: Workflow) -> None:
    """The corpus that was refused once: short lines in lower case without marks, and test judgements only."""
    rng = random.Random(3)
    lines_of(small.folder / "lines", [" ".join(rng.sample(WORDS, 9)) for _ in range(40)])
    few = "my_corpus_options={objectives: [ict]}"
    ended = small.run("--cores", "2", TARGET, "--config", "my_corpus=lines", few)
    assert ended.code == 0, ended.text
    assert "pairs are two random crops of a document" in ended.text and "ict is skipped" in ended.text
    root = small.folder / "results/demo/my_corpus"
    assert json.loads((root / "collections/my-corpus-pairs/stats.json").read_text())["reader"] == "random-crops"
    assert "> **Deploy " in (root / "table.md").read_text() and (root / "retriever/search.json").is_file()


@pytest.mark.parametrize("texts", [["only one document of words"], ["all documents are equal here"] * 12])
def test_where_nothing_can_be_trained_the_rest_is_measured(small: Workflow, texts: list[str]) -> None:
    folder = lines_of(small.folder / f"few {len(texts)}", texts)
    ended = small.run("--cores", "2", TARGET, "--config", f"my_corpus={folder.name}")
    assert ended.code == 0, ended.text
    assert "nothing is trained" in ended.text
    root = small.folder / "results/demo/my_corpus"
    recommended, page = len(texts) > 1, (root / "table.md").read_text() + (root / "table.html").read_text()
    assert json.loads((root / "choice.json").read_text())["recommended"] == recommended == ("(use this)" in page)
    assert ("No recommendation: 1 test query is too few" in page) != recommended
    assert json.loads((root / "retriever/search.json").read_text())["kind"] == "bm25", "something is exported"
    with open(root / "table.csv", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "recall@100"]
    # The questions were all of the same words, and so every document is a hit.
    published = "published encoder, not trained further"
    assert [row["row"] for row in rows] == ["BM25", published, f"BM25 + {published}"]
    assert [float(row["mean"]) for row in rows] == [1.0] * 3


def test_files_that_are_older_than_the_results_are_read_again(small: Workflow) -> None:
    """A link that leads to another folder, or files put there by ``cp -p``, showed results of the texts before."""
    first, second, link = (small.folder / name for name in ("first", "second", "link"))
    documents, judgements = write_folder(first) / "corpus.jsonl", first / "qrels/test.tsv"
    write_folder(second)
    (second / "corpus.jsonl").write_text(documents.read_text().replace("Title", "Other"))
    link.symlink_to(first)
    root, given = "results/demo/my_corpus", ("--config", "my_corpus=link")
    read = (f"{root}/corpora/my-corpus/stats.json", f"{root}/collections/my-corpus/stats.json")
    assert (ended := small.run("--cores", "2", *read, *given)).code == 0, ended.text
    for file in (documents, judgements):
        file.touch()
    assert small.plan(*read, *given).jobs == {}, "new dates are no new texts"
    judgements.write_text(judgements.read_text().replace("\t1\n", "\t2\n"))
    os.utime(judgements, (1e9, 1e9))
    assert small.plan(*read, *given).jobs == {"collection": 1}, "a corpus has no judgements"
    link.unlink()
    link.symlink_to(second)
    for file in (second / "corpus.jsonl", second / "qrels/test.tsv"):
        os.utime(file, (1e9, 1e9))
    assert small.plan(*read, *given).jobs == {"collection": 1, "corpus": 1}
    shutil.rmtree(second / "qrels")
    assert (ended := small.run("--cores", "2", TARGET, *given)).code == 0, ended.text
    documents.replace(second / "corpus.jsonl")
    os.utime(second / "corpus.jsonl", (1e9, 1e9))
    assert small.plan(TARGET, *given).count("my_corpus_index") == 1, "without questions"


def test_a_new_date_of_a_large_file_is_no_new_text(small: Workflow) -> None:
    """Snakemake compares contents below 1 MB only: a copy of the documents trained everything again."""
    documents = write_folder(small.folder / "large") / "corpus.jsonl"
    with documents.open("a") as stream:
        stream.writelines(json.dumps({"_id": f"l{n}", "text": "A long line. " * 8_000}) + "\n" for n in range(11))
    assert documents.stat().st_size > 1_000_000
    root, given = "results/demo/my_corpus", ("--config", "my_corpus=large")
    read = (f"{root}/corpora/my-corpus/stats.json", f"{root}/collections/my-corpus/stats.json")
    assert (ended := small.run("--cores", "2", *read, *given)).code == 0, ended.text
    documents.touch()
    assert small.plan(*read, *given).jobs == {}
    documents.write_text(documents.read_text().replace("A long line.", "A thin line."))
    assert small.plan(*read, *given).jobs == {"collection": 1, "corpus": 1}


def test_a_run_takes_the_rows_and_steps_of_its_plan(small: Workflow) -> None:
    write_folder(small.folder / "judged", ("train", "dev", "test"))
    given = ("--config", "my_corpus=judged")
    minutes = "my_corpus_options={minutes: 600}"
    ended = small.run("--cores", "2", "my_corpus_plan", *given, minutes)
    assert ended.code == 0, ended.text
    root = small.folder / "results/demo/my_corpus"
    assert "Plan for 600 minutes on 2 cores" in ended.text and "BM25 with each of them" in ended.text
    chosen = yaml.safe_load((root / "plan.yaml").read_text())["my_corpus_options"]
    assert chosen["objectives"] == ["ict", "bert"], "ICT + BFS needs sections"
    assert chosen["rerank"] == 3 and chosen["budgets"]["continued"]["steps"] == 8, "as much longer as steps may be"
    timetable = json.loads((root / "timetable.json").read_text())
    assert timetable["places"] == 2 and all(name.endswith("cost.json") for name in timetable["jobs"])
    plan = small.plan(TARGET, "--configfile", "results/demo/my_corpus/plan.yaml", *given)
    assert plan.count("pretrain") >= 2 and plan.count("my_corpus_rerank") == 1 and plan.count("bm25_my_corpus") == 0
    assert plan.count("finetune_my_corpus") == 5, "as it is, fine-tuned, two objectives, a cross-encoder"


def test_a_chain_is_planned_with_all_its_stages(small: Workflow, tmp_path: Path) -> None:
    """DupMAE's three: each encoder has two retrievers, a teacher, and the third that is scored."""
    folder = write_folder(tmp_path / "chain", ("train", "dev", "test"))
    few = "my_corpus_options={recipe: dupmae-3stage-cls, objectives: [bert]}"
    plan = small.plan(TARGET, "--config", f"my_corpus={folder}", few)
    assert plan.count("pretrain") == 2 and plan.count("finetune_my_corpus") == 1 + 2 * 4 + 1
    assert plan.count("mine_my_corpus") == 2 and plan.count("retrieve_my_corpus") == 1 + 2 * 2


def test_without_questions_the_documents_can_be_searched(small: Workflow, tmp_path: Path) -> None:
    folder = lines_of(small.folder / "unasked", ["the green harbour", "a red mountain", "one blue river"])
    (folder / "queries.jsonl").unlink()
    (folder / "qrels/test.tsv").unlink()
    root = small.folder / "results/demo/my_corpus"
    root.mkdir(parents=True, exist_ok=True)
    of_another = [root / name for name in ("table.csv", "table.md", "table.html", "choice.json", "hybrids.json")]
    for file in of_another:
        file.write_text("of the corpus before")
    ended = small.run("--cores", "2", "my_corpus_plan", "--config", "my_corpus=unasked")
    assert "no questions: nothing is compared" in ended.text and "pretrieve search --index" in ended.text
    ended = small.run(  # as make my-corpus goes on
        *("--cores", "2", TARGET, "--configfile", "results/demo/my_corpus/plan.yaml", "--config", "my_corpus=unasked")
    )
    assert ended.code == 0, ended.text
    assert not any(file.exists() for file in of_another), "a comparison beside another corpus's retriever"
    assert (root / "plan.yaml").is_file() and ended.count("pretrain") == 0
    assert (root / "benchmarks/my_corpus_plan.tsv").is_file(), "a run of this job alone reports a time"
    run = pretrieve.load_index(root / "retriever").rank(["which mountain"], 3, ["q"])
    assert run.doc_ids == [["d1"]]
    plan = small.plan("encoders", "--config", "my_corpus=unasked")
    assert plan.count("pretrain") == 1 and plan.count("finetune") == 0, (
        "masked words alone: one line has no pairs for ICT"
    )
