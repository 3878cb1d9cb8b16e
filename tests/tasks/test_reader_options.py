"""Options of data sets are said to be wrong before the first job, and what is checked is what the readers take.

Seen to fail when: an option is left out of ``allowed`` of a reader, or its default is not allowed there; values are not looked at
(on the commit before: each case was refused by the first job that reads the data set).
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))

from config_cases import checked, project_config

from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.readers import READERS
from pretrieve.benchmarks.reading import build_task
from pretrieve.tasks.splits import Target


@pytest.mark.parametrize("name", READERS)
def test_what_is_checked_is_what_the_function_takes(name: str) -> None:
    reader = READERS[name]
    parameters = inspect.signature(resolve_name(reader.read)).parameters
    if reader.collection:
        assert set(list(parameters)[2:]) == set(reader.allowed)
    for key, allowed in reader.allowed.items():
        value = parameters[key].default
        assert value in (None, "") or allowed.admits(value), f"{key}: {value!r}"


ONE = {"test": "config.yaml"}
FILES = {"corpus": "config.yaml", "queries": "config.yaml", "test": "config.yaml"}


@pytest.mark.parametrize(
    ("reader", "files", "key", "value", "words"),
    [
        ("beir", FILES, "below_zero", "drop", "'drop' is not allowed; allowed: error, leave-out"),
        ("beir", FILES, "name", "scifct", "'scifct' is not allowed; .*did you mean 'scifact'"),
        ("dpr", ONE, "strip_quotes", "no", "'no' is not allowed; allowed: false, true"),
        ("corpus", ONE, "share", 2, "2 is not allowed; allowed: a number from 1e-06 to 1"),
        ("corpus", ONE, "words", 100.0, "100.0 is not allowed; allowed: a whole number"),
        ("corpus", ONE, "words", True, "True is not allowed; allowed: a whole number"),
        (
            "multireqa",
            {"candidates": "a", "texts": "b"},
            "role",
            "dev",
            "'dev' is not allowed; allowed: test, train, draw",
        ),
        ("corpus", ONE, "words", 0, "0 is not allowed; allowed: a whole number from 1"),
        ("link-clicks", None, "candidates", 2, "2 is not allowed"),
        ("link-clicks", None, "first", 0, "0 is not allowed"),
        ("link-clicks", None, "lead_words", 0, "0 is not allowed"),
        ("section-triplets", None, "per_article", 0, "0 is not allowed"),
    ],
)
def test_a_wrong_value_is_refused_before_any_job(
    reader: str, files: dict[str, str] | None, key: str, value: Any, words: str
) -> None:
    config = project_config()
    options = {key: value}
    config["datasets"]["mine"] = {"reader": reader, "sizes": {"full": "all"}, "reader_options": options}
    config["datasets"]["mine"] |= {"files": files} if files else {}
    with pytest.raises(ConfigError, match=rf"config: datasets\.mine: {reader}: reader_options\.{key}: {words}"):
        checked(config)


@pytest.mark.parametrize("whole", [True, "articles", "sentences"])
def test_an_open_task_needs_a_corpus(whole: bool | str, tokenizer, tmp_path: Path) -> None:
    target = Target(tokenizer, tmp_path / "task", {"full": "all"})
    with pytest.raises(ConfigError, match="squad: is made of a corpus or open to one, and none is given"):
        build_task("squad", {"file": tmp_path / "none.json"}, target, None, {"open": whole})


@pytest.mark.parametrize(
    ("reader", "key"),
    [("descriptions", "max_queries"), ("descriptions", "max_extra"), ("section-triplets", "max_examples")],
)
def test_a_limit_is_one_or_more(reader: str, key: str, tokenizer, tmp_path: Path) -> None:
    target = Target(tokenizer, tmp_path / "task", {"full": "all"})
    with pytest.raises(ConfigError, match=f"{reader}: {key} is 0; expected a whole number from 1"):
        build_task(reader, {}, target, tmp_path, {key: 0})


@pytest.mark.parametrize("reader", ["squad", "natural-questions"])
def test_a_corpus_opens_no_task_that_is_not_open(reader: str, tokenizer, tmp_path: Path) -> None:
    """The task was opened all the same."""
    target = Target(tokenizer, tmp_path / "task", {"full": "all"})
    with pytest.raises(ConfigError, match=f"{reader}: open is false, but a corpus is given"):
        build_task(reader, {"file": tmp_path / "none.json"}, target, tmp_path, {"open": False})
