"""What is wrong in a configuration or a checkpoint is said before the first job, in one sentence, and within a second or so.

Seen to fail on the commit before: each case of ``test_a_value`` passed, was a traceback of a job or ended after training; the
alias bombs had not come back after 60 s; each case of ``test_a_checkpoint`` was a TypeError, ZeroDivisionError, RecursionError or
did not come back; in a plain locale `config.yaml` with a letter beyond ASCII was a UnicodeDecodeError.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))

from config_cases import ROOT, checked, project_config
from miniature import Workflow, clone
from published_files import bert_lm, write

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import read_encoder, save_encoder
from pretrieve.models.published import read_start
from pretrieve.workflow import my_corpus
from pretrieve.workflow.config_checks import check_file, check_size
from pretrieve.workflow.plan import Plan

LINES = 9
BOMBS = {
    "lists": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, LINES)),
    "mappings": "a0: &a0 {x: 1, y: 2}\n"
    + "".join(f"a{n}: &a{n} {{{', '.join(f'{key}: *a{n - 1}' for key in 'abcdefghij')}}}\n" for n in range(1, LINES)),
    "merges": "a0: &a0 {x: 1}\n"
    + "".join(
        f"a{n}: &a{n} {{{', '.join(f'{key}: {{<<: *a{n - 1}}}' for key in 'abcdefghij')}}}\n" for n in range(1, LINES)
    ),
    "deep": f"a: {'[' * 3000}{']' * 3000}\n",
    "itself": "a: &a {b: *a}\n",
    "digits": f"a: {'9' * 5000}\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_nobody_could_walk_through(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.yaml").write_text(BOMBS[name])
    begin = time.monotonic()
    with pytest.raises(ConfigError, match=r"config.yaml: line \d+: .*expected at most"):
        check_file(tmp_path / "config.yaml")
    if name not in ("deep", "digits"):  # which no reader gets so far with
        with pytest.raises(ConfigError, match=r"config: a\d?: has .*expected at most"):
            check_size(yaml.safe_load(BOMBS[name]))
    assert time.monotonic() - begin < 5


def test_a_file_as_it_should_be(tmp_path: Path) -> None:
    check_file(ROOT / "config.yaml")
    check_size(project_config())
    (tmp_path / "none.yaml").write_text("a: [1\nb: }")
    check_file(tmp_path / "none.yaml")  # what is no YAML says Snakemake
    check_file(tmp_path / "missing.yaml")
    (tmp_path / "often.yaml").write_text("a: &a [1, 2]\nb: {c: *a, d: *a}\n")
    check_file(tmp_path / "often.yaml")


def test_snakemake_never_sees_a_bomb(untouched: Workflow, fault_folders: Path) -> None:
    workflow = clone(untouched, fault_folders / "bomb")
    with open(workflow.folder / "config.yaml", "a", encoding="utf-8") as stream:
        stream.write(BOMBS["mappings"])
    begin = time.monotonic()
    ended = workflow.run("-n")
    assert ended.code == 1 and "ConfigError: config.yaml: line" in ended.stderr and "Traceback" not in ended.text
    assert time.monotonic() - begin < 60


def test_files_of_the_command_line_are_checked_where_a_run_is_begun(untouched: Workflow, fault_folders: Path) -> None:
    """`make` and workflow/run.sh; plain `snakemake --configfile` reads them before any rule."""
    workflow = clone(untouched, fault_folders / "bombs")
    (workflow.folder / "bomb.yaml").write_text(BOMBS["mappings"])
    (workflow.folder / "fine.yaml").write_text("seeds: [1]\n")
    for words in (["--configfile", "fine.yaml", "bomb.yaml", "-n"], ["-n", "--configfile=bomb.yaml"]):
        ended = workflow.run(*words, program="workflow/run.sh")
        assert ended.code == 1 and "ConfigError: bomb.yaml: line" in ended.stderr, ended.stderr
        assert not (workflow.folder / ".snakemake").exists()
    ended = workflow.run("-n", "--quiet", "--configfile", "fine.yaml", program="workflow/run.sh")
    assert ended.code == 0, ended.text


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("seeds", [1.0], "seeds.0: 1.0 is not allowed; expected a whole number"),
        ("seeds", [10**30], "seeds.0: 10000000000000000000… is not allowed; expected a number from 0 to"),
        ("seeds", list(range(1001)), "seeds: 1,001 seeds in one run; expected at most 1,000"),
        ("scales.demo.body.hidden", 128.0, "body.hidden: 128.0 is not allowed; expected a whole number"),
        ("scales.demo.body.hidden", 10**12, "body.hidden: 1000000000000 is not allowed; expected a number from 1 to"),
        (
            "scales.demo.pretraining.budgets.pairs.steps",
            3.0,
            "budgets.pairs.steps: 3.0 is not allowed; expected a whole",
        ),
        (
            "scales.demo.pretraining.budgets.pairs.batch",
            4.0,
            "budgets.pairs.batch: 4.0 is not allowed; expected a whole",
        ),
        ("my_corpus_options.depth", 20.0, "my_corpus_options.depth: 20.0 is not allowed; expected a whole number"),
        ("scales.demo.search", {"index": {"kind": "nope"}}, "demo.search.index: index kind 'nope' is unknown"),
        (
            "scales.demo.search",
            {"index": {"kind": "IVF", "lists": 2.0}},
            "search.index: index IVF: lists=2.0, expected a whole",
        ),
        ("scales.demo.search", {"index": {}}, "demo.search.index: index kind 'None' is unknown"),
        ("bm25.k1", 1e300, "bm25.k1: 1e+300 is not allowed; expected a number from 0 to 1000"),
        ("bm25.b", float("nan"), "bm25.b: nan is not allowed; expected a number from"),
        ("bm25.k1", float("inf"), "bm25.k1: inf is not allowed"),
        ("checkpoint_seconds", float("inf"), "checkpoint_seconds: inf is not allowed"),
        ("mining_depth", 10**40, "mining_depth: 10000000000000000000… is not allowed"),
    ],
)
def test_a_value(path: str, value: Any, words: str) -> None:
    config = project_config()
    *above, last = path.split(".")
    place = config
    for key in above:
        place = place[key]
    place[last] = value
    with pytest.raises(ConfigError) as refused:
        checked(config)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("recipe", "options", "words"),
    [
        ("dpr-bm25", {"in_batch": False, "group": 1}, "group 1 without in_batch leaves a query no negative"),
        ("dpr-bm25", {"loss": "hinge", "in_batch": True}, "loss 'hinge' compares a query with its own negatives only"),
        ("seed-pairwise", {"direction": "both"}, "direction 'both' has the queries of the batch compete"),
        ("ance", {"refresh": 0}, "refresh 0 never searches for negatives"),
        ("ance", {"group": 1}, "group 1 leaves a query no negative"),
        ("dupmae-teacher", {"group": 1}, "group 1 leaves a query no negative"),
        ("dupmae-3stage", {"group": 1}, "group 1 leaves a query no negative"),
    ],
)
def test_options_that_do_not_go_together(recipe: str, options: dict[str, Any], words: str) -> None:
    config = copy.deepcopy(project_config())
    entry = config["recipes"][recipe]
    entry["options"] = {**entry.get("options", {}), **options}
    with pytest.raises(ConfigError, match=rf"^config: recipes\.{recipe}\.options: {words}"):
        checked(config)


WRONG_OPTIONS: list[dict[str, Any]] = [
    {"batch": 8.0},
    {"batch": "8"},
    {"batch": 0},
    {"group": True},
    {"group": 5000},
    {"steps": 2.5},
    {"steps": -1},
    {"epochs": None},
    {"pool": 0},
    {"pool": 10**9},
    {"learning_rate": -1},
    {"learning_rate": "1e-5"},
    {"warmup": 2},
    {"weight_decay": float("nan")},
    {"loss": "x"},
    {"negatives": "bm25"},
    {"optimiser": [1]},
    {"passage_length": 600},
    {"teacher": "x"},
]


@pytest.mark.parametrize("wrong", WRONG_OPTIONS, ids=str)
@pytest.mark.parametrize("of", ["finetuning", "reranker"])
def test_options_of_what_is_trained_on_ones_own_corpus(wrong: dict[str, Any], of: str) -> None:
    """By the key that was written, and before the documents are looked at, which can take minutes: there are none here."""
    config = project_config() | {"my_corpus": "no such folder"}
    config["my_corpus_options"] = copy.deepcopy(config["my_corpus_options"])
    config["my_corpus_options"][of] |= wrong
    with pytest.raises(ConfigError, match=rf"^config: my_corpus_options\.{of}\.{next(iter(wrong))}: ") as refused:
        checked(my_corpus.with_my_corpus(config))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("of", ["finetuning", "reranker"])
def test_options_that_do_not_go_together_on_ones_own_corpus(of: str) -> None:
    config = project_config() | {"my_corpus": "no such folder"}
    config["my_corpus_options"] = copy.deepcopy(config["my_corpus_options"])
    config["my_corpus_options"][of] |= {"group": 1, "in_batch": False}
    with pytest.raises(ConfigError, match=rf"^config: my_corpus_options\.{of}: group 1 .*leaves a query no negative"):
        checked(my_corpus.with_my_corpus(config))


def test_what_the_recipe_itself_says_goes_with_the_options_on_ones_own_corpus() -> None:
    config = project_config() | {"my_corpus": "no such folder"}
    given = {"group": 4, "pool": 3, "negatives": ["bm25"]}
    config["recipes"] = config["recipes"] | {"mine": {"recipe": "reqa", "options": given}}
    config["my_corpus_options"] = config["my_corpus_options"] | {"recipe": "mine", "finetuning": {"in_batch": False}}
    with pytest.raises((ConfigError, DataError), match="no such folder"):  # what comes after the options
        my_corpus.with_my_corpus(config)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"depth": 99}, "depth: 99 hits of a query are too few for the metrics; expected 100 or more"),
        ({"depth": 150, "rerank": 151}, "rerank: 151 is more than the 150 hits of my_corpus_options.depth; lower it"),
    ],
)
def test_hits_that_are_not_there_on_ones_own_corpus(wrong: dict[str, int], words: str) -> None:
    config = project_config() | {"my_corpus": "no such folder"}
    config["my_corpus_options"] = config["my_corpus_options"] | wrong
    with pytest.raises(ConfigError, match=rf"^config: my_corpus_options\.{words}"):
        my_corpus.with_my_corpus(config)


# Negatives of the reranker have no effect, which tests/test_my_corpus_config.py looks at.
@pytest.mark.parametrize(
    ("of", "wrong"),
    [
        ("finetuning", {"start": "nope"}),
        ("finetuning", {"negatives": ["mined:nope"]}),
        ("reranker", {"start": "nope"}),
    ],
    ids=str,
)
def test_recipes_that_there_are_not(tmp_path: Path, wrong: dict[str, Any], of: str) -> None:
    (tmp_path / "corpus.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "One {n}. Two."}}\n' for n in range(30)))
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "One"}\n')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    config = project_config() | {"my_corpus": str(tmp_path)}
    config["my_corpus_options"] = copy.deepcopy(config["my_corpus_options"])
    config["my_corpus_options"][of] |= wrong
    with pytest.raises(ConfigError, match="'nope'.*allowed: "):
        Plan.load(my_corpus.with_my_corpus(config), ROOT / "references", ROOT / "resources/sources.tsv")


def test_lengths_of_a_run_on_ones_own_corpus(tmp_path: Path) -> None:
    """Against the positions of the body, and what a title leaves, in both places that can say them."""
    (tmp_path / "corpus.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "One {n}. Two."}}\n' for n in range(30)))
    for place in ("finetuning", None):
        config = project_config() | {"my_corpus": str(tmp_path)}
        config["my_corpus_options"] = copy.deepcopy(config["my_corpus_options"])
        options = config["my_corpus_options"]
        for length in (600, 6):
            (options[place] if place else options)["passage_length"] = length
            with pytest.raises(ConfigError, match=rf"passage_length: {length} is not allowed; expected 7 to 512"):
                checked(my_corpus.with_my_corpus(config))


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": True},
        {"num_hidden_layers": "two"},
        {"num_hidden_layers": None},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": 2.0},
        {"hidden_size": -16},
        {"hidden_size": 10**12},
        {"vocab_size": "x"},
        {"vocab_size": [60]},
        {"max_position_embeddings": "22"},
        {"type_vocab_size": {}},
        {"hidden_dropout_prob": "much"},
        {"hidden_dropout_prob": 7},
        {"layer_norm_eps": None},
        {"initializer_range": float("nan")},
        {"model_type": ["bert"]},
        {"model_type": "roberta", "pad_token_id": "one"},
    ],
    ids=str,
)
def test_a_checkpoint(tmp_path: Path, change: dict[str, Any]) -> None:
    model = bert_lm()
    write(tmp_path, model.state_dict(), model.config.to_dict() | change)
    begin = time.monotonic()
    with pytest.raises(DataError) as refused:
        read_start(tmp_path)
    assert str(tmp_path) in str(refused.value) and "\n" not in str(refused.value)
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[]", "null", "{", '{"a": "\ud800"'.encode("utf-8", "replace").decode()]
)
def test_a_checkpoints_file_that_is_no_configuration(tmp_path: Path, text: str) -> None:
    model = bert_lm()
    write(tmp_path, model.state_dict(), {})
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DataError, match="config.json"):
        read_start(tmp_path)


def test_a_plain_locale(untouched: Workflow, fault_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = clone(untouched, fault_folders / "locale")
    config = yaml.safe_load((workflow.folder / "config.yaml").read_text(encoding="utf-8"))
    config["mirror"] = "größer/日本"
    (workflow.folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("miniature.environment", lambda: plain_environment())
    ended = workflow.run("-n", "--quiet", "rules")
    assert ended.code == 0 and "Traceback" not in ended.text, ended.text


def plain_environment() -> dict[str, str]:
    """With Python's own variables of this test, which :func:`miniature.environment` leaves out."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PRETRIEVE", "SNAKEMAKE", "MAKE", "MFLAGS"))
    }
    return kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_every_program_says_how_text_is_written() -> None:
    """open(), read_text() and write_text() without an encoding are the locale's: none in our code."""
    root = Path(__file__).resolve().parents[2]
    found = []
    for file in [*(root / "src").rglob("*.py"), *(root / "workflow_scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or any(keyword.arg in ("encoding", None) for keyword in node.keywords):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of_text = name in ("read_text", "write_text") and len(node.args) < (1 if name == "read_text" else 2)
            mode = ast.unparse(node.args[1]) if len(node.args) > 1 else "r"
            opened = isinstance(node.func, ast.Name) and name == "open" and "b" not in mode
            in_text = any(keyword.arg == "text" and ast.unparse(keyword.value) == "True" for keyword in node.keywords)
            if of_text or opened or in_text:
                found.append(f"{file.relative_to(root)}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert not found, "\n".join(found)


def test_a_file_of_settings_that_is_no_object(tmp_path: Path) -> None:
    """Of an encoder of this project: what another has changed there is no traceback either."""
    save_encoder(
        tmp_path, Encoder(BodyConfig(vocabulary_size=60, hidden=16, layers=1, heads=2, feed_forward=16), 8, "cls", 1)
    )
    about = json.loads((tmp_path / "pretrieve.json").read_text())
    for wrong in ([1], about | {"body": 3}, about | {"body": about["body"] | {"layers": 10**9}}, about | {"dim": "x"}):
        (tmp_path / "pretrieve.json").write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=r"pretrieve.json: "):
            read_encoder(tmp_path)
