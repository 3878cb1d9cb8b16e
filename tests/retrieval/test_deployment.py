"""A deployed directory: what it finds against the parts it is made of, both loaders of its model, and what is said of bad ones.

Seen to fail when: a hybrid is fused with the weights exchanged; a hybrid fuses no more hits than are shown; vectors are added in
another order than the documents (of blocks side by side, too); titles are left out of BM25's texts; a block of documents.parquet
is counted from its first row; ``search.json`` is written although a part is missing; an earlier directory is removed before the
new one is whole; folders of a copied model stay read-only; a snippet is cut at the only blank of a Chinese text.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import pretrieve
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.commands import index as index_command
from pretrieve.commands import my_corpus_export
from pretrieve.commands import search as search_command
from pretrieve.commands.search import snippet
from pretrieve.models.sentence_modules import Reading
from pretrieve.retrieval import bm25
from pretrieve.retrieval.deployment import SearchSettings, deploying, read_settings, write_vectors
from pretrieve.retrieval.document_table import DocumentTable, write_documents
from pretrieve.retrieval.export import export
from pretrieve.retrieval.fusion import fuse
from pretrieve.retrieval.index import load_faiss
from pretrieve.retrieval.model_card import CardFacts
from pretrieve.retrieval.shards import Shards
from pretrieve.tasks.collection_tables import with_title

TEXT = """
anchor boat sea iron bed ketch mast north stone hole rope hemp sailor bow chain water wood ship yacht animals
"""
WORDS = TEXT.split()
DEPTH, QUESTIONS = 12, ["where does the anchor hold the boat", "a rope of hemp and a stone", "iron ship in the north"]


def documents(count: int = 1300) -> list[tuple[str, str, str]]:
    """More than two blocks of documents.parquet; ids in no order."""
    rng = np.random.default_rng(5)
    return [
        (f"d{number:04}", f"{rng.choice(WORDS)} {number}" if number % 3 else "", " ".join(rng.choice(WORDS, 6)))
        for number in rng.permutation(count)
    ]


@pytest.fixture(scope="module")
def retriever(tmp_path_factory, wide_retriever) -> Path:
    directory = tmp_path_factory.mktemp("deployed") / "retriever"
    return wide_retriever(directory, "cosine", encoder={"start": "dir:base", "objective": "none"})


@pytest.fixture(scope="module")
def model(retriever: Path, wordpiece: Path) -> Path:
    out = retriever.parent / "model"
    export(retriever, wordpiece, out, Reading(9, 21))
    return out


def run_command(command, *words: object, **options: object) -> None:
    """``--name value`` of each of ``options`` behind the ``words``."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    words += tuple(word for name, value in options.items() for word in (f"--{name}", value))
    command.main(parser.parse_args([str(word) for word in words]))


@pytest.fixture(scope="module")
def corpus(retriever: Path) -> Path:
    path = retriever.parent / "corpus.jsonl"
    lines = [json.dumps({"_id": i, "title": title, "text": text}) for i, title, text in documents()]
    path.write_text("\n".join([*lines, json.dumps({"_id": "empty", "text": " "})]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hybrid(retriever: Path, model: Path, corpus: Path) -> Path:
    """What pretrieve index makes of them, searched with weights."""
    even, out = retriever.parent / "even", retriever.parent / "hybrid"
    run_command(index_command, documents=corpus, model=model, out=even, language="en", precision="fp32")
    shutil.copytree(even, out)
    about = json.loads((out / "search.json").read_text()) | {"weights": {"bm25": 0.6, "dense": 0.2}, "depth": 40}
    (out / "search.json").write_text(json.dumps(about))
    return out


def parts(hybrid: Path, model: Path, depth: int):
    """BM25's run and the dense one, from texts in memory."""
    texts = {doc_id: f"{title} {text}".strip() for doc_id, title, text in documents()}
    names = [str(number) for number in range(len(QUESTIONS))]
    lexical = pretrieve.bm25(texts, dict(zip(names, QUESTIONS, strict=True)), depth)
    encoder = pretrieve.load(model)
    vectors = encoder.encode_passages(list(texts.values()))
    return lexical, pretrieve.search(encoder.encode_queries(QUESTIONS), vectors, list(texts), depth)


def same(found, expected) -> None:
    assert found.query_ids == expected.query_ids and found.doc_ids == expected.doc_ids
    for ours, theirs in zip(found.scores, expected.scores, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_every_kind_finds_what_its_parts_find(hybrid: Path, model: Path, tmp_path: Path) -> None:
    lexical, dense = parts(hybrid, model, 40)
    same(pretrieve.load_index(hybrid).rank(QUESTIONS, DEPTH), fuse(lexical, dense, 0.75, DEPTH))
    about = json.loads((hybrid / "search.json").read_text())
    for kind, weights, expected in [
        ("hybrid", "rrf", fuse(lexical, dense, None, DEPTH)),
        ("bm25", None, lexical.cut(DEPTH)),
        ("dense", None, dense.cut(DEPTH)),
    ]:
        out = tmp_path / f"{kind}-{weights}"
        shutil.copytree(hybrid, out)
        shutil.rmtree(out / {"bm25": "dense", "dense": "bm25"}.get(kind, "none"), ignore_errors=True)
        (out / "search.json").write_text(json.dumps(about | {"kind": kind, "weights": weights}))
        same(pretrieve.load_index(out).rank(QUESTIONS, DEPTH), expected)


def test_threads_change_no_vector(model: Path, corpus: Path, tmp_path: Path) -> None:
    """Two blocks, of which the second and shorter one is ready first."""
    for threads in (1, 3):
        words = ("--documents", corpus, "--model", model, "--out", tmp_path / str(threads), "--threads", threads)
        run_command(index_command, *words, "--kind", "dense", "--language", "en")
    assert (tmp_path / "1/dense/index.faiss").read_bytes() == (tmp_path / "3/dense/index.faiss").read_bytes()


def test_documents_in_int8_have_nearly_the_same_vectors(model: Path, corpus: Path, tmp_path: Path) -> None:
    found = {}
    for precision in ("fp32", "int8"):
        options = ("--model", model, "--kind", "dense", "--precision", precision, "--out", tmp_path / precision)
        run_command(index_command, "--documents", corpus, *options)
        index = load_faiss(1).read_index(str(tmp_path / precision / "dense/index.faiss"))
        found[precision] = index.reconstruct_n(0, index.ntotal)
    cosines = (found["fp32"] * found["int8"]).sum(1)
    assert 0.99 < cosines.min() < 1 - 1e-6
    queries = pretrieve.load(model).encode_queries(QUESTIONS)
    assert (pretrieve.load(model, int8=True).encode_queries(QUESTIONS) == queries).all()


def test_a_model_that_cannot_be_used_is_found_before_the_documents_are_read(model: Path, tmp_path: Path) -> None:
    documents = iter([("a", "", "an anchor")])
    with pytest.raises(ConfigError, match="precision 'fp61' is not allowed"):
        pretrieve.index_documents(tmp_path / "index", documents, model, precision="fp61")
    with pytest.raises(ConfigError, match="precision 'int8' is an encoder's; give a model"):
        pretrieve.index_documents(tmp_path / "index", documents, precision="int8")
    assert len(list(documents)) == 1 and not list(tmp_path.iterdir())


#: What it is given are the options of pretrieve index. The second time the index is an earlier one that cannot be written.
TWICE = """
import os, sys
from pretrieve.base.program import make_parser
from pretrieve.commands import index
options = make_parser(index).parse_args(sys.argv[1:])
for _ in range(2):
    index.main(options)
    os.chmod(options.out, 0o555)
"""


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root writes anywhere")
def test_a_model_and_an_earlier_index_that_cannot_be_written(model: Path, corpus: Path, tmp_path: Path) -> None:
    closed = shutil.copytree(model, tmp_path / "closed")
    for folder in (*filter(Path.is_dir, closed.rglob("*")), closed):
        folder.chmod(0o555)
    # root writes anywhere, unless it gives that up
    words = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    words += [sys.executable, "-c", TWICE, "--documents", corpus, "--model", closed, "--kind", "dense"]
    subprocess.run([*map(str, words), "--out", str(tmp_path / "index")], check=True)
    assert {path.name for path in tmp_path.iterdir()} >= {"closed", "index"}


def test_a_link_leads_to_the_index(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "an anchor"}\n', encoding="utf-8")
    (tmp_path / "large").mkdir()
    (tmp_path / "link").symlink_to("large")
    for _ in range(2):
        run_command(index_command, "--documents", tmp_path / "corpus.jsonl", "--out", tmp_path / "link")
        assert len(pretrieve.load_index(tmp_path / "large")) == 1 and (tmp_path / "link").is_symlink()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run_command(index_command, "--documents", tmp_path / "corpus.jsonl", "--out", ".")
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "here", "large", "link"}


def test_a_plain_model_is_refused(model: Path, tmp_path: Path) -> None:
    """Nothing there says whether its vector is the first state or the mean."""
    plain = shutil.copytree(model, tmp_path / "plain")
    (plain / "modules.json").unlink()
    documents = iter([("a", "", "an anchor")])
    for name, said in (("plain", "has no modules.json"), ("none", "no such directory")):
        with pytest.raises(
            DataError, match=f"{name}: {said}; expected a directory of sentence-transformers: .pretrieve"
        ):
            pretrieve.index_documents(tmp_path / "index", documents, tmp_path / name)
        with pytest.raises(DataError, match=f"{name}: {said}"):  # its settings are what BM25 would take
            pretrieve.index_documents(tmp_path / "index", documents, tmp_path / name, "bm25")
    assert len(list(documents)) == 1 and not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ((1, "", "b"), r"documents\[1\]\[0\]: 1 is int; expected a text"),
        (("b", None, "b"), r"documents\[1\]\[1\]: None is NoneType"),
        (("b", "", "\udcff"), r"documents\[1\]\[2\]: '.udcff' is not UTF-8"),
        (("b", "c"), r"documents\[1\]: \('b', 'c'\); expected \(id, title, text\)"),
        ("bcd", r"documents\[1\]: 'bcd'; expected \(id, title, text\)"),
        (("", "", "b"), r"documents\[1\]: .*an id that is not ''"),
        (("b" * 32_767, "", "b"), r"documents\[1\]: its id has 32,767 bytes; expected at most 32,766"),
    ],
)
def test_what_is_no_document_is_refused(document, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        pretrieve.index_documents(tmp_path / "index", [("a", "", "an anchor"), document])
    assert not list(tmp_path.iterdir())


def test_what_is_no_question_is_refused(hybrid: Path) -> None:
    index = pretrieve.load_index(hybrid)
    for error, said, call in [
        (DataError, r"questions\[0\]: None is NoneType; expected a text", lambda: index.search([None])),
        (DataError, r"ids\[0\]: 5 is int; expected a text", lambda: index.rank(["boat"], ids=[5])),
        (DataError, r"queries\[0\]: None is NoneType", lambda: pretrieve.bm25({"a": "boat"}, {"q": None})),
        (
            ConfigError,
            "queries is a list; expected a text for each id",
            lambda: pretrieve.bm25({"a": "boat"}, ["boat"]),
        ),
        (DataError, r"query ids\[0\]: 1 is int", lambda: pretrieve.bm25({"a": "boat"}, {1: "boat"})),
        (DataError, "id has 32,768 bytes; expected at most 32,766", lambda: pretrieve.bm25({"ä" * 16_384: "boat"}, {})),
        (ConfigError, "one text, 'boat'; expected a list of questions", lambda: index.rank("boat")),
        (ConfigError, "1 ids for 2 questions; expected one for each", lambda: index.rank(["a", "b"], ids=["x"])),
    ]:
        with pytest.raises(error, match=said):
            call()


def test_what_is_no_file_of_documents(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"a folder; expected .* make-corpus {tmp_path} --out DIR/corpus.jsonl"):
        run_command(index_command, "--documents", tmp_path, "--out", tmp_path / "index")
    twice = tmp_path / "twice.jsonl"
    twice.write_text('{"_id": "a", "text": ""}\n\n{"_id": "b", "text": "x"}\n{"_id": "b", "text": "y"}\n')
    with pytest.raises(
        DataError, match="twice.jsonl: line 4: _id 'b' was used before, in line 3; expected every id once"
    ):
        run_command(index_command, "--documents", twice, "--out", tmp_path / "index")


def test_hits_have_their_texts(hybrid: Path) -> None:
    shown, index = {doc_id: (title, text) for doc_id, title, text in documents()}, pretrieve.load_index(hybrid)
    found, run = index.search(QUESTIONS, top=60), index.rank(QUESTIONS, 60)
    assert len(index) == 1300 and [[hit.doc_id for hit in hits] for hits in found] == run.doc_ids
    assert all((hit.title, hit.text) == shown[hit.doc_id] for hits in found for hit in hits)
    assert [hit.rank for hit in found[0]] == list(range(1, 61)) and found[0][3].score == run.scores[0][3]
    assert index.search([]) == []
    with pytest.raises(ConfigError, match="expected a list of questions"):
        index.search(QUESTIONS[0])


def test_vectors_of_another_encoder_are_refused(hybrid: Path, tmp_path: Path) -> None:
    shutil.copytree(hybrid, tmp_path / "changed")
    weights = tmp_path / "changed/model.safetensors"
    save_file({name: tensor.flip(0) for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    with pytest.raises(DataError, match="gives document 'd.*' another vector than dense has"):
        pretrieve.load_index(tmp_path / "changed").search(QUESTIONS)


def test_every_row_of_every_block_is_found(tmp_path: Path) -> None:
    assert write_documents(tmp_path, documents()) == 1300
    table = DocumentTable(tmp_path)
    assert table.ids == [doc_id for doc_id, _, _ in documents()]
    assert table.shown(table.ids[::-1]) == {doc_id: (title, text) for doc_id, title, text in documents()}
    assert list(table.texts()) == [with_title(title, text) for _, title, text in documents()]
    with pytest.raises(DataError, match="'d0001' occurs twice, as number 2 and 3;"):
        write_documents(tmp_path, [("d0000", "", "x"), ("d0001", "", "a"), ("d0001", "", "b")])
    with pytest.raises(DataError, match="no document"):
        write_documents(tmp_path, [])
    assert DocumentTable(tmp_path).ids == table.ids, "what stood there stays"


def test_both_libraries_load_its_model(hybrid: Path) -> None:
    """sentence-transformers, and transformers with pooling and norm by hand."""
    library, transformers = pytest.importorskip("sentence_transformers"), pytest.importorskip("transformers")
    import torch

    ours = pretrieve.load(hybrid).encode_passages(QUESTIONS)
    theirs = library.SentenceTransformer(str(hybrid), device="cpu", local_files_only=True).encode_document(QUESTIONS)
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(hybrid, local_files_only=True)
    body = transformers.AutoModel.from_pretrained(hybrid, local_files_only=True).eval()
    batch = tokenizer(QUESTIONS, padding=True, truncation=True, max_length=21, return_tensors="pt")
    with torch.no_grad():
        states = body(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    np.testing.assert_allclose(means.numpy(), ours, atol=1e-5)


def test_an_index_lends_model_and_settings_to_the_next(hybrid: Path, model: Path, corpus: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(corpus.read_text().splitlines(keepends=True)[:30]))
    run_command(index_command, "--documents", few, "--model", hybrid, "--out", tmp_path / "new")
    assert (
        read_settings(tmp_path / "new") == read_settings(hybrid) and len(pretrieve.load_index(tmp_path / "new")) == 30
    )
    shutil.copytree(hybrid, tmp_path / "german")
    (tmp_path / "german/bm25/language.json").write_text('"de"')
    run_command(index_command, "--documents", few, "--model", tmp_path / "german", "--out", tmp_path / "more")
    assert json.loads((tmp_path / "more/bm25/language.json").read_text()) == "de", "not told from few texts again"
    encoder = pretrieve.load(model)
    vector = encoder.encode_passages([with_title(*documents()[7][1:])])
    found = pretrieve.load_index(tmp_path / "new").rank([with_title(*documents()[7][1:])], 1)
    assert found.doc_ids == [[documents()[7][0]]] and vector.shape == (1, 16)
    before = (tmp_path / "new/documents.parquet").read_bytes()
    few.write_text(few.read_text() * 2)
    with pytest.raises(DataError, match="few.jsonl: line 31: _id .* was used before, in line 1;"):
        run_command(index_command, "--documents", few, "--model", hybrid, "--out", tmp_path / "new")
    assert (tmp_path / "new/documents.parquet").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    with pytest.raises(ConfigError, match="is not an earlier index"):
        run_command(index_command, "--documents", few, "--out", model)
    inside = few.rename(tmp_path / "new/few.jsonl")
    with pytest.raises(ConfigError, match="few.jsonl is in it and would be removed"):
        run_command(index_command, "--documents", inside, "--out", tmp_path / "new")
    assert inside.exists()


@pytest.fixture
def results(tmp_path: Path, retriever: Path, model: Path) -> tuple[Path, dict]:
    """What a run on one's own corpus leaves: collection, task, index, vectors; and a choice without deploy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pretrieve.retrieval.embeddings import EmbeddingWriter
    from pretrieve.tasks.collection_tables import SCHEMAS

    rows = documents(40)
    empty = {name: SCHEMAS[name].empty_table() for name in ("queries", "qrels")}
    tables = empty | {"collection": pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMAS["collection"])}
    (tmp_path / "collections/mine").mkdir(parents=True)
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"collections/mine/{name}.parquet")
    (tmp_path / "collections/mine/stats.json").write_text("{}")
    (tmp_path / "tasks/mine").mkdir(parents=True)
    pq.write_table(pa.table({"doc_id": [doc_id for doc_id, _, _ in rows]}), tmp_path / "tasks/mine/corpus.parquet")
    bm25.build_index(
        [(i, with_title(title, text)) for i, title, text in rows], tmp_path / "indexes/bm25/mine", language="de"
    )
    writer = EmbeddingWriter(tmp_path / "embeddings/a.b-full/mine/seed1", "corpus", 40, 16, "key", Shards(16))
    vectors = pretrieve.load(model).encode_passages([with_title(title, text) for _, title, text in rows])
    for shard, start, stop in writer.pending():
        writer.write(shard, vectors[start:stop])
    writer.finish()
    metrics = {"run": "runs/x", "n_queries": 3, "n_candidates": 40, "metrics": {"ndcg@10": 0.5}}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "metrics/hybrid-a.b-full/mine").mkdir(parents=True)
    fused = metrics | {"run": "runs/fused", "metrics": {"ndcg@10": 0.625}}
    (tmp_path / "metrics/hybrid-a.b-full/mine/seed1.json").write_text(json.dumps(fused))
    (tmp_path / "base").mkdir()
    card = "---\nlicense: apache-2.0\ndatasets:\n- s2orc\n- ms_marco\n---\n\n# small-base\n"
    (tmp_path / "base/README.md").write_text(card)
    choice = {"retriever": str(retriever), "metrics": str(tmp_path / "metrics.json"), "seed": 1}
    choice["use"] = "hybrid-a.b-full"
    return tmp_path, choice | {"query_length": 9, "passage_length": 21}


def deploy(root: Path, choice: dict, tokenizer: Path) -> Path:
    (root / "choice.json").write_text(json.dumps(choice))
    places = ["--choice", root / "choice.json", "--tokenizer", tokenizer, "--out", root / "retriever"]
    request = {"root": str(root), "dataset": "mine", "index": f"{root}/indexes/bm25/mine"}
    request |= {"depth": 20, "k1": 0.9, "b": 0.4}
    run_command(my_corpus_export, *places, "--request", json.dumps(request), "--base", f"dir:base={root / 'base'}")
    return root / "retriever"


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
def test_the_choice_is_deployed(results, wordpiece: Path, kind: str) -> None:
    root, choice = results
    weights = {"bm25": 0.3, "dense": 0.7} if kind == "hybrid" else None
    out = deploy(root, choice | {"deploy": {"kind": kind, "dense": "a.b-full", "weights": weights}}, wordpiece)
    parts = {path.name for path in out.iterdir()} & {"bm25", "dense", "modules.json", "documents.parquet", "README.md"}
    assert parts == {"documents.parquet", "README.md"} | {
        *(["bm25"] if kind != "dense" else []),
        *(["dense", "modules.json"] if kind != "bm25" else []),
    }
    index = pretrieve.load_index(out)
    assert index.settings == SearchSettings(kind, weights, 20) and len(index) == 40
    if kind != "dense":
        assert json.loads((out / "bm25/language.json").read_text()) == "de", "the index that was measured"
    if kind != "bm25":
        encoder = pretrieve.load(out)
        stored = encoder.encode_passages([with_title(title, text) for _, title, text in documents(40)])
        query = encoder.encode_queries(QUESTIONS)
        expected = pretrieve.search(query, stored, [doc_id for doc_id, _, _ in documents(40)], 20)
        same(index._dense(QUESTIONS, ["0", "1", "2"], 20), expected)
        card = (out / "README.md").read_text()
        for line in (
            "license: apache-2.0",
            "small-base (`dir:base`), licence apache-2.0",
            "`s2orc`, `ms_marco`",
            "ndcg@10",
        ):
            assert line in card, line
        assert ("| ndcg@10 | 0.6250 |" in card) == (kind == "hybrid")
        assert "pretrieve search --index" in card and "**Pre-training here**: none" in card
    assert index.search(QUESTIONS[:1], 5)[0][0].rank == 1


def test_a_choice_or_files_that_do_not_fit(results, wordpiece: Path) -> None:
    root, choice = results
    with pytest.raises(DataError, match="has no 'deploy'"):
        deploy(root, choice, wordpiece)
    with pytest.raises(ConfigError, match="kind 'rerank' is not allowed"):
        deploy(root, choice | {"deploy": {"kind": "rerank"}}, wordpiece)
    for wrong in (None, {"bm25": 1.0}, {"bm25": 0.0, "dense": 0}, {"bm25": -1, "dense": 2}):
        with pytest.raises(ConfigError, match="weights"):
            SearchSettings("hybrid", wrong)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"doc_id": [doc_id for doc_id, _, _ in documents(40)][::-1]}), root / "tasks/mine/corpus.parquet"
    )
    with pytest.raises(DataError, match="another order"):
        deploy(root, choice | {"deploy": {"kind": "bm25"}}, wordpiece)
    assert not (root / "retriever").exists()


def test_parts_of_other_documents_are_no_index(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"dense has 3, .*|documents.parquet has 2, dense has 3"),
        deploying(tmp_path / "out", SearchSettings("dense")) as out,
    ):
        write_documents(out, [("a", "", "x"), ("b", "", "y")])
        write_vectors(out, [np.ones((3, 4), np.float32)])
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(DataError, match="bm25/ids.arrow: missing"),
        deploying(tmp_path / "out", SearchSettings("bm25")) as out,
    ):
        write_documents(out, [("a", "", "x")])
    assert list(tmp_path.iterdir()) == []


def test_directories_that_are_none(tmp_path: Path, model: Path) -> None:
    with pytest.raises(DataError, match="expected a directory that `make my-corpus` or `pretrieve index` made"):
        pretrieve.load_index(tmp_path)
    with pytest.raises(DataError, match="it is a model: pretrieve index --model"):
        pretrieve.load_index(model)
    for text, said in (
        ("{", "damaged"),
        ('{"format": 9}', "format 9"),
        ('{"format": 1, "kind": "x", "depth": 1}', "kind 'x'"),
    ):
        (tmp_path / "search.json").write_text(text)
        with pytest.raises(DataError, match=f"search.json: .*{said}"):
            pretrieve.load_index(tmp_path)


def test_the_facts_of_a_base_are_for_those_that_began_with_it(retriever: Path, wordpiece: Path, tmp_path: Path) -> None:
    from pretrieve.retrieval.model_card import BaseModel, read_base

    base = BaseModel("hub:owner/name@main", "", "Some licence\nnobody: knows", ())
    export(retriever, wordpiece, tmp_path / "out", Reading(9, 21), CardFacts(base=base))
    card = (tmp_path / "out/README.md").read_text()
    assert "license: other\nbase_model: owner/name\n---" in card and "does not say which" in card
    (tmp_path / "README.md").write_text("---\nlicense: [\n---\n")
    assert read_base(tmp_path, "dir:x") == BaseModel("dir:x", "", "", ())


def test_the_search_program(hybrid: Path, tmp_path: Path, capsys) -> None:
    """One question is printed; a file of questions becomes a run or JSON lines with the same hits."""
    found = pretrieve.load_index(hybrid).search(QUESTIONS, 3)
    run_command(search_command, "--index", hybrid, QUESTIONS[0], "--top", 3)
    printed = capsys.readouterr().out
    places = [printed.index(f"{hit.rank:>3}  {hit.score:.4f}  {hit.doc_id}  {hit.title}".rstrip()) for hit in found[0]]
    assert places == sorted(places) and printed.count("\n") >= 6

    (tmp_path / "questions.txt").write_text(f"{QUESTIONS[0]}\n\n{QUESTIONS[1]}\n")
    run_command(search_command, index=hybrid, file=tmp_path / "questions.txt", top=3, out=tmp_path / "a.trec")
    run = pretrieve.read_trec(tmp_path / "a.trec")
    assert run.query_ids == ["1", "3"] and run.doc_ids == [[hit.doc_id for hit in hits] for hits in found[:2]]
    (tmp_path / "old.txt").write_bytes((tmp_path / "questions.txt").read_bytes().replace(b"\n", b"\r"))  # of an old Mac
    run_command(search_command, index=hybrid, file=tmp_path / "old.txt", top=3, out=tmp_path / "old.trec")
    assert (tmp_path / "old.trec").read_bytes() == (tmp_path / "a.trec").read_bytes()

    lines = [json.dumps({"_id": f"q{number}", "text": text}) for number, text in enumerate(QUESTIONS)]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    run_command(search_command, index=hybrid, file=tmp_path / "questions.jsonl", top=3, out=tmp_path / "a.jsonl")
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["query_id"] for record in records] == ["q0", "q1", "q2"]
    assert records[2]["hits"] == [hit._asdict() for hit in found[2]] and records[2]["text"] == QUESTIONS[2]
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    run_command(search_command, index=hybrid, file=tmp_path / "packed.jsonl.gz", top=3, out=tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    table = tmp_path / "questions.TSV"
    table.write_text("qid\tQuery\n" + "".join(f"q{number}\t{text}\n" for number, text in enumerate(QUESTIONS)))
    run_command(search_command, "--index", hybrid, "--file", table, "--top", 3, "--out", tmp_path / "c.jsonl")
    assert (tmp_path / "c.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    assert "header, not searched for: 1, the first: " in capsys.readouterr().err
    table.with_name("ids.txt").write_bytes(table.read_bytes())

    for words, said in [
        ([], "give one question, or a file"),
        (["x", "--file", tmp_path / "questions.txt"], "give one question, or a file"),
        (["--file", tmp_path / "questions.csv"], "questions.csv: expected lines of one question each in a .txt"),
        (["--file", tmp_path / "ids.txt"], "ids.txt: expected lines of one question each in a .txt"),
        (["x", "--out", tmp_path / "a.csv"], r"ends in .trec, .trec.gz or .jsonl"),
        (["x", "--top", "0"], "--top=0; expected 1 or more"),
    ]:
        with pytest.raises(ConfigError, match=said):
            run_command(search_command, "--index", hybrid, *words)
    (tmp_path / "twice.jsonl").write_text("\n".join([*lines, "", lines[1]]))
    for words in ([], ["--out", tmp_path / "c.jsonl"], ["--out", tmp_path / "c.trec"]):
        with pytest.raises(
            DataError, match=r"twice.jsonl: line 5: _id 'q1' was used before, in line 2; expected every id once"
        ):
            run_command(search_command, "--index", hybrid, "--file", tmp_path / "twice.jsonl", *words)


def test_what_a_terminal_is_shown() -> None:
    long = "The sea is deep. " * 30 + "An anchor\x1b[2J holds the boat to the bed. " + "It is dark there. " * 30
    shown = snippet(long, "What holds the ANCHOR of a boat?", 120)
    assert (
        "anchor [2J holds the boat" in shown and shown.startswith("… ") and shown.endswith(" …") and len(shown) <= 124
    )
    assert snippet(long, "zebra", 40) == "The sea is deep. The sea is deep. The …"
    assert snippet("short", "zebra") == "short" and snippet("", "zebra") == ""
    # Without blanks, or with one that is far from where a text is cut.
    assert snippet("锚 " + "海" * 300, "锚", 80) == "锚 " + "海" * 78 + " …"
    assert snippet("锚 " + "海" * 300 + "。anchor。" + "海" * 300, "anchor", 80) == (
        "… " + "海" * 9 + "。anchor。" + "海" * 63 + " …"
    )
    for text in ("می\u200cروم", "👩\u200d🚀"):
        assert snippet(text, "") == text
