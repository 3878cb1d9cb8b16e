"""What a folder is found to have, and what is said of one that cannot be used.

Seen to fail when: judgements are not compared with ids; a byte order mark stays in the first line; a fixed number of
documents with sections is asked for in place of a share; ``with_my_corpus`` changes the configuration it is given.
"""

from __future__ import annotations

import bz2
import copy
import json
import shutil
from pathlib import Path

import pytest
import yaml

from pretrieve import my_corpus
from pretrieve.configuration import check_config, encoder_options
from pretrieve.errors import ConfigError, DataError, PretrieveError

PROJECT = Path(__file__).resolve().parents[1]
SCHEMA = PROJECT / "schemas/config.schema.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    with open(folder / "corpus.jsonl", "w", encoding="utf-8-sig") as stream:
        for number in range(30):
            text = (
                f"A sentence about {number}. Another one.\\n\\n## Part\\n\\nMore of it."
                if number < 3
                else f"Word {number}. End."
            )
            stream.write(f'{{"_id": "d{number}", "text": "{text}"}}\r\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "one?"}\n{"_id": 2, "text": "two?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\r\nq1\td0\t1\r\n2\td29\t0\r\n")
    return folder


@pytest.fixture
def config() -> dict:
    return yaml.safe_load((PROJECT / "config.yaml").read_text())


def test_a_folder_is_looked_at(folder: Path) -> None:
    found = my_corpus.look_at(folder)
    assert set(found.files) == {"corpus", "queries", "test"} and not found.has_train
    assert found.has_sections and found.has_sentences, "three of thirty have sections: above five percent"
    packed = bz2.compress((folder / "corpus.jsonl").read_bytes())
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl.bz2").write_bytes(packed)
    assert my_corpus.look_at(folder).files["corpus"].endswith(".bz2")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: shutil.rmtree(f), "is no directory; expected one with corpus.jsonl"),
        (lambda f: (f / "corpus.jsonl").unlink(), "corpus.jsonl: no such file .*/make_corpus.py"),
        (lambda f: (f / "corpus.jsonl").write_text(""), "corpus.jsonl: has no document"),
        (
            lambda f: (f / "corpus.jsonl").write_text('{"_id": "a", "text": "b"}\n{"_id"'),
            "corpus.jsonl: line 2: not JSON",
        ),
        (
            lambda f: (f / "corpus.jsonl").write_text('{"id": "a", "text": "b"}\n'),
            "line 1: found id, text; expected .* _id",
        ),
        (lambda f: (f / "queries.jsonl").unlink(), "queries.jsonl: no such file, but there is qrels/test.tsv"),
        (lambda f: (f / "qrels/test.tsv").rename(f / "qrels/train.tsv"), "test.tsv: no such file, and no dev.tsv"),
        (
            lambda f: (f / "qrels/test.tsv").write_text("q1\td0\t1\nq1\tx9\t1\n"),
            "line 2: 'x9' is no _id of .*corpus.jsonl",
        ),
        (lambda f: (f / "qrels/test.tsv").write_text("q7\td0\t1\n"), "line 1: 'q7' is no _id of .*queries.jsonl"),
        (lambda f: (f / "qrels/test.tsv").write_text("q1 d0 1\n"), "line 1: 1 columns; expected query-id, corpus-id"),
        (lambda f: (f / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n"), "no judgement above 0"),
        (lambda f: (f / "qrels/train.tsv").write_text(""), "train.tsv: no judgement above 0.*leave an empty split out"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(folder: Path, change, words: str) -> None:
    change(folder)
    with pytest.raises(DataError, match=words) as raised:
        my_corpus.look_at(folder)
    assert "\n" not in str(raised.value)


def test_the_configuration_is_the_folders(folder: Path, config: dict) -> None:
    before = copy.deepcopy(config)
    assert my_corpus.with_my_corpus(config, ["tables"], SCHEMA) is config, "without a folder nothing changes"
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)}, [my_corpus.TARGET], SCHEMA)
    assert config == before
    check_config(made, SCHEMA, made["tables"])
    assert made["datasets"]["my-corpus"]["trained_on"] == "my-corpus-ict" and "bert" in made["encoders"]
    options = made["my_corpus_options"]
    assert encoder_options(made, "retromae")["budget"] == options["budgets"]["continued"]
    assert encoder_options(made, "retromae")["objective"]["length"] == options["passage_length"]
    assert encoder_options(made, "retromae")["start"] == "base" and "start" not in encoder_options(made, "none")
    request = my_corpus.table_request(made, "results/demo/my_corpus")
    assert [row["label"] for row in request["rows"]][:3] == ["BM25", "no pre-training", "BERT (masked words)"]
    assert request["lengths"] == {"query_length": 32, "passage_length": options["passage_length"]}
    rows, seeds = len(request["rows"]) - 1, len(options["seeds"])
    assert len(my_corpus.table_inputs(request)) == 1 + rows * seeds + 2
    (folder / "qrels/train.tsv").write_text("q1\td1\t1\n")
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)}, [], SCHEMA)
    assert set(made["datasets"]) == {"my-corpus"} and "trained_on" not in made["datasets"]["my-corpus"]


def test_a_recipe_brings_what_it_goes_on_from(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["recipe"] = "dpr-hard"
    assert set(my_corpus.with_my_corpus(config, [], SCHEMA)["recipes"]) == {"dpr-hard", "dpr-bm25"}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("recipe", "dpr-bm52", "my_corpus_options.recipe: 'dpr-bm52' is not allowed"),
        ("objectives", ["berd"], "my_corpus_options.objectives.0: 'berd'"),
        ("passage_length", 4096, "passage_length: 4096 is more than the body's 128"),
    ],
)
def test_a_wrong_option_is_refused(folder: Path, config: dict, key: str, value: object, words: str) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"][key] = value
    with pytest.raises(ConfigError, match=words):
        my_corpus.with_my_corpus(config, [], SCHEMA)


def test_texts_of_single_sentences_cannot_train_without_questions(folder: Path, config: dict) -> None:
    with open(folder / "corpus.jsonl", "w") as stream:
        for number in range(30):
            stream.write(json.dumps({"_id": f"d{number}", "text": f"Only {number}"}) + "\n")
    with pytest.raises(PretrieveError, match="nothing to make training pairs of; give qrels/train.tsv"):
        my_corpus.with_my_corpus(config | {"my_corpus": str(folder)}, [my_corpus.TARGET], SCHEMA)
