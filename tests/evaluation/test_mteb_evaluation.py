"""mteb's numbers of a model on a folder, and this project's: two encoders, two searches and two sets of metrics that agree.

The folder has graded judgements, several relevant documents for a query, titles that are missing, and dev beside test. The
program runs in a process of its own where the address of the network leads nowhere.

Seen to fail when: titles are left out on one side; grades become 1; a query is cut as a document is; MRR looks at all hits.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.beir import read_beir_test
from pretrieve.evaluation.mteb_evaluation import METRICS, Evaluated, _evaluated, evaluate_by_mteb
from pretrieve.models.sentence_modules import Reading
from pretrieve.retrieval.export import export
from pretrieve.retrieval.index_documents import index_documents

TEXT = "anchor boat sea iron bed ketch mast stone hole rope hemp sailor bow chain water wood ship yacht animals north vessel"
WORDS = TEXT.split()
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}


def write_folder(folder: Path) -> Path:
    rng = random.Random(4)
    (folder / "qrels").mkdir(parents=True)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 30))) for _ in range(300)]
    titles = ["" if number % 4 == 0 else rng.choice(WORDS) for number in range(300)]
    documents = [
        {"_id": f"d{n}", "title": title, "text": text}
        for n, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]
    del documents[8]["title"]
    queries, lines = [], {"test": [], "dev": []}
    for number in range(60):
        split = "test" if number % 3 else "dev"
        near = rng.sample(range(300), rng.randint(1, 5))
        words = rng.sample(texts[near[0]].split(), 3) if len(texts[near[0]].split()) > 3 else ["boat"]
        queries.append({"_id": f"q{number}", "text": " ".join([*words, *rng.choices(WORDS, k=3 * (number % 4))])})
        lines[split] += [f"q{number}\td{place}\t{rng.randint(0, 3) if rank else 2}" for rank, place in enumerate(near)]
    for split, rows in lines.items():
        (folder / f"qrels/{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    for name, records in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("beir") / "small")


@pytest.fixture(scope="module")
def model(tmp_path_factory, wordpiece: Path, wide_retriever) -> Path:
    out = tmp_path_factory.mktemp("model")
    export(wide_retriever(out / "made", "dot"), wordpiece, out / "model", Reading(8, 20))
    return out / "model"


def test_both_count_the_same_without_a_network(model: Path, folder: Path, program, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("mteb")
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    words = ["evaluate-model", "--model", model, "--tasks", folder, "--check", "--out", tmp_path / "scores.json"]
    done = program("-m", "pretrieve", *words)
    assert done.returncode == 0, done.stderr
    [found] = json.loads((tmp_path / "scores.json").read_text())["results"]
    assert (found["task"], found["split"]) == ("small", "test") and set(found["scores"]) == set(METRICS)
    for metric, value in found["scores"].items():
        assert 0.02 < value < 0.98, "a score that tells something"
        assert abs(value - found["own"][metric]) < 1e-4, metric
    table = (tmp_path / "scores.md").read_text()
    assert table in done.stdout and f"| small | mteb | {found['scores']['ndcg@10']:.4f} |" in table


def test_named_tasks_are_read_from_the_cache_without_a_network(
    model: Path, folder: Path, program, tmp_path: Path, monkeypatch
) -> None:
    """The judgements of NanoBEIR are the configuration "qrels"; of other data sets of mteb, "default"."""
    mteb = pytest.importorskip("mteb")
    judged = [line.split("\t") for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]]
    tasks = {"NanoSciFactRetrieval": "qrels", "NanoNFCorpusRetrieval": "default"}
    for task, name in tasks.items():
        data = mteb.get_task(task).metadata.dataset
        parts = {
            "corpus": [{"title": ""} | json.loads(line) for line in (folder / "corpus.jsonl").open()],
            "queries": [json.loads(line) for line in (folder / "queries.jsonl").open()],
            name: [
                {"query-id": query, "corpus-id": document, "score": int(grade)} for query, document, grade in judged
            ],
        }
        fill_cache(tmp_path / "cache", data["path"], data["revision"], parts)
    for key, value in {**NOWHERE, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(key, value)
    words = ["--tasks", *tasks, folder, "--out", tmp_path / "scores.json"]
    done = program("-m", "pretrieve", "evaluate-model", "--model", model, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "scores.json").read_text())["results"]
    assert [one["task"] for one in found] == [*tasks, "small"]
    assert found[0]["scores"] == found[1]["scores"] == found[2]["scores"]


@pytest.mark.parametrize(("name", "score"), [("arguana", 1.0), ("mine", 0.5)])
def test_the_query_itself_is_dropped_in_arguana(
    wordpiece: Path, wide_retriever, tmp_path: Path, monkeypatch, name: str, score: float
) -> None:
    """Its queries are documents. Each answer here has the query's own document before it."""
    mteb = pytest.importorskip("mteb")
    monkeypatch.setattr(mteb, "get_benchmarks", lambda: pytest.fail("took seconds to list what a folder does not need"))
    export(wide_retriever(tmp_path / "made", "cosine"), wordpiece, tmp_path / "model", Reading(40, 40))
    (tmp_path / name / "qrels").mkdir(parents=True)
    texts = [" ".join(WORDS[at : at + 6]) for at in range(0, 18, 6)]
    queries = [{"_id": f"q{number}", "text": text} for number, text in enumerate(texts)]
    answers = [{"_id": f"a{number}", "text": f"{text} chain"} for number, text in enumerate(texts)]
    for file, records in (("queries", queries), ("corpus", queries + answers)):
        (tmp_path / name / f"{file}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / name / "qrels/test.tsv").write_text("".join(f"q{number}\ta{number}\t1\n" for number in range(3)))
    [found] = evaluate_by_mteb(tmp_path / "model", [str(tmp_path / name)], check=True)
    assert found.scores["mrr@10"] == found.own["mrr@10"] == score


def fill_cache(cache: Path, path: str, revision: str, parts: dict[str, list[dict[str, object]]]) -> None:
    """What ``datasets`` leaves in its cache after it has read a data set of the hub: a folder for each configuration."""
    datasets = pytest.importorskip("datasets")
    from datasets.packaged_modules.parquet.parquet import Parquet

    user, name = path.split("/")
    for part, rows in parts.items():
        file = cache / f"{name}-{part}.parquet"
        datasets.Dataset.from_list(rows).to_parquet(str(file))
        made = Parquet(str(cache / name / part), name, part, hash=revision, data_files={"train": [str(file)]})
        made.download_and_prepare()
        [info] = (cache / name / part).glob("**/dataset_info.json")
        said = json.loads(info.read_text()) | {"config_name": part}
        info.write_text(json.dumps(said))
        snake = datasets.naming.camelcase_to_snakecase(name)
        shutil.move(info.parent, cache / f"{user}___{snake}" / part / "0.0.0" / revision)


def test_what_counts_of_a_folder(folder: Path) -> None:
    data = read_beir_test(folder)
    judged = [line.split("\t") for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]]
    assert data.split == "test" and data.queries.keys() == {query for query, _, _ in judged}
    assert {(q, d, g) for q, grades in data.qrels.items() for d, g in grades.items()} == {
        (query, document, int(grade)) for query, document, grade in judged if grade != "0"
    }
    assert len(data.documents) == 300 and data.documents["d8"][0] == ""


def test_a_judged_document_without_a_text_is_left_out(folder: Path, tmp_path: Path) -> None:
    """As a collection leaves it out; a query with no other one goes with it."""
    data, copy = read_beir_test(folder), shutil.copytree(folder, tmp_path / "small")
    with open(copy / "corpus.jsonl", "a") as stream:
        stream.write(json.dumps({"_id": "blank", "text": " "}) + "\n")
    with open(copy / "queries.jsonl", "a") as stream:
        stream.write(json.dumps({"_id": "alone", "text": "a boat"}) + "\n")
    with open(copy / "qrels/test.tsv", "a") as stream:
        stream.write("q1\tblank\t1\nalone\tblank\t1\n")
    assert read_beir_test(copy) == data


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("corpus.jsonl", '{"_id": "d1", "text": "b"}', r"corpus.jsonl: line 301: _id 'd1' was used before, in line 2;"),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "b"}',
            r"queries.jsonl: line 61: _id 'q1' was used before, in line 2;",
        ),
        ("qrels/test.tsv", "none\td1\t1", r"test.tsv: line \d+: 'none' is not an _id of a query in .*queries.jsonl"),
        ("qrels/test.tsv", "q1\tnone\t0", r"test.tsv: line \d+: 'none' is not an _id of a document in .*corpus.jsonl"),
        (
            "qrels/test.tsv",
            "q1\td1\t-1",
            r"test.tsv: line \d+: relevance -1 of document 'd1' for query 'q1' is below zero",
        ),
        (
            "qrels/test.tsv",
            "q0\td1\t1\nq0\td1\t3",
            r"line \d+: document 'd1' has relevance 3 for query 'q0', and had 1",
        ),
    ],
)
def test_contradictions_are_refused(folder: Path, tmp_path: Path, name: str, line: str, said: str) -> None:
    """As by ``make my-corpus``: seen to be measured with what came last."""
    copy = shutil.copytree(folder, tmp_path / "small")
    with open(copy / name, "a") as stream:
        stream.write(line + "\n")
    with pytest.raises(DataError, match=said):
        read_beir_test(copy)


def test_what_is_below_zero_in_trec_covid_is_left_out(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "trec-covid")
    with open(copy / "qrels/test.tsv", "a") as stream:
        stream.write("q1\td1\t-1\n")
    assert read_beir_test(copy).qrels == read_beir_test(folder).qrels


def test_what_the_corpus_of_arguana_lacks_is_never_found(folder: Path, tmp_path: Path) -> None:
    """As in BEIR's own scores, and mteb's; of all other folders it is an error."""
    copy = shutil.copytree(folder, tmp_path / "arguana")
    with open(copy / "qrels/test.tsv", "a") as stream:
        stream.write("q1\tcon03b\t1\n")
    expected = read_beir_test(folder).qrels
    assert read_beir_test(copy).qrels == expected | {"q1": expected["q1"] | {"con03b": 1}}
    with open(copy / "qrels/test.tsv", "a") as stream:
        stream.writelines(f"q1\tother{number}\t1\n" for number in range(5))
    with pytest.raises(DataError, match="'other4' is not an _id of a document"):
        read_beir_test(copy)


def test_every_subset_of_a_task_has_its_row() -> None:
    """Of a task in several languages the first is not the task."""

    def scores(share: float, subset: str) -> dict[str, object]:
        return dict.fromkeys(METRICS.values(), share) | {"hf_subset": subset}

    found = list(_evaluated("T", {"test": [scores(0.5, "deu"), scores(0.25, "fra")], "dev": [scores(1.0, "default")]}))
    assert found == [
        Evaluated("T (deu)", "test", dict.fromkeys(METRICS, 0.5)),
        Evaluated("T (fra)", "test", dict.fromkeys(METRICS, 0.25)),
        Evaluated("T", "dev", dict.fromkeys(METRICS, 1.0)),
    ]


def test_a_wrong_name_is_found_before_anything_is_measured(model: Path, folder: Path, monkeypatch) -> None:
    mteb = pytest.importorskip("mteb")
    monkeypatch.setattr(mteb, "evaluate", lambda *_, **__: pytest.fail("measured a task"))
    with pytest.raises(ConfigError, match="task 'Nano' is not a folder"):
        evaluate_by_mteb(model, [str(folder), "Nano"])


def test_a_directory_without_an_encoder_is_told(folder: Path, program, tmp_path: Path) -> None:
    """What `make my-corpus` leaves where it recommends BM25 was called no directory of sentence-transformers."""
    pytest.importorskip("mteb")
    index_documents(tmp_path / "index", [("a", "", "An anchor.")])
    done = program("-m", "pretrieve", "evaluate-model", "--model", tmp_path / "index", "--tasks", folder)
    assert done.returncode and "searches by BM25 alone and has no encoder" in done.stderr, done.stderr


def test_what_cannot_be_measured(model: Path, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("mteb")
    with pytest.raises(
        ConfigError, match="'NanoSciFactRetrieva' is not a folder, .* did you mean 'NanoSciFactRetrieval'"
    ):
        evaluate_by_mteb(model, ["NanoSciFactRetrieva"])
    with pytest.raises(DataError, match="has no modules.json"):
        evaluate_by_mteb(folder, [str(folder)])
    unknown = write_folder(tmp_path / "unknown")
    with open(unknown / "qrels/test.tsv", "a") as stream:
        stream.write("q1\td999\t1\n")
    with pytest.raises(DataError, match=r"test.tsv: line \d+: 'd999' is not an _id of a document"):
        evaluate_by_mteb(model, [str(unknown)])
