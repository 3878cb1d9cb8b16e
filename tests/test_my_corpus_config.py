"""The configuration that is made for a folder of one's own.

Seen to fail when: ``with_my_corpus`` changes the configuration it is given; a recipe's own start is left behind.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError, PretrieveError
from pretrieve.workflow import my_corpus
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.configuration import check_config
from pretrieve.workflow.job_options import encoder_options

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": f"d{n}", "text": f"A sentence about {n}. Another one."}) for n in range(30)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "one?"}\n{"_id": 2, "text": "two?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n2\td29\t0\n")
    return folder


@pytest.fixture
def config() -> dict:
    return read_config(PROJECT / "config.yaml")


def test_the_configuration_is_the_folders(folder: Path, config: dict) -> None:
    before = copy.deepcopy(config)
    assert my_corpus.with_my_corpus(config) is config, "without a folder nothing changes"
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert config == before
    check_config(made, made["tables"])
    assert made["datasets"]["my-corpus"]["trained_on"] == "my-corpus-ict" and "bert" in made["encoders"]
    options = made["my_corpus_options"]
    assert encoder_options(made, "retromae").budget.to_dict() == options["budgets"]["continued"]
    assert encoder_options(made, "retromae").objective["length"] == options["passage_length"]
    assert encoder_options(made, "retromae").start == "base" and encoder_options(made, "none").start is None
    request = my_corpus.table_request(made, "results/demo/my_corpus")
    assert [row["label"] for row in request["rows"]][:3] == ["BM25", "no pre-training", "BERT (masked words)"]
    assert request["lengths"] == {"query_length": 32, "passage_length": options["passage_length"]}
    rows, seeds = len(request["rows"]) - 1, len(options["seeds"])
    assert len(my_corpus.table_inputs(request)) == 1 + rows * seeds + 2
    with open(folder / "queries.jsonl", "a") as stream:
        stream.writelines(f'{{"_id": "t{n}", "text": "what?"}}\n' for n in range(4))
    (folder / "qrels/train.tsv").write_text("".join(f"t{n}\td1\t1\n" for n in range(4)))
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert set(made["datasets"]) == {"my-corpus"} and "trained_on" not in made["datasets"]["my-corpus"]


def test_a_recipe_brings_what_it_goes_on_from(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["recipe"] = "dpr-hard"
    assert set(my_corpus.with_my_corpus(config)["recipes"]) == {"dpr-hard", "dpr-bm25"}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("recipe", "dpr-bm52", "my_corpus_options.recipe: 'dpr-bm52' is not allowed"),
        ("objectives", ["berd"], "my_corpus_options.objectives: 'berd'.*did you mean 'bert'"),
        ("passage_length", 4096, "passage_length: 4096 is more than the body's 128"),
    ],
)
def test_a_wrong_option_is_refused(folder: Path, config: dict, key: str, value: object, words: str) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"][key] = value
    with pytest.raises(ConfigError, match=words):
        my_corpus.with_my_corpus(config)


def test_texts_of_single_sentences_cannot_train_without_questions(folder: Path, config: dict) -> None:
    with open(folder / "corpus.jsonl", "w") as stream:
        for number in range(30):
            stream.write(json.dumps({"_id": f"d{number}", "text": f"Only {number}"}) + "\n")
    with pytest.raises(PretrieveError, match="nothing to make training pairs of; give qrels/train.tsv"):
        my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})


def test_fewer_pairs_than_make_a_training_set_are_refused(folder: Path, config: dict) -> None:
    with open(folder / "corpus.jsonl", "w") as stream:
        for number in range(30):
            text = f"A sentence about {number}. Another one." if number < 9 else "One. Two."
            stream.write(json.dumps({"_id": f"d{number}", "text": text}) + "\n")
    with pytest.raises(
        PretrieveError, match=r"corpus.jsonl: too few documents have two sentences.*give qrels/train.tsv"
    ):
        my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
