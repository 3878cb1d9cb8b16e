"""The list of readers of official files, the program and the configuration that use it, and what it costs to import.

Seen to fail when: a reader's function is renamed; the kind of a reader has no metric or recipe; a file
that the reader does not have passes the configuration; `--files` takes a name twice; the list imports pyarrow.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from pkgutil import resolve_name

import pytest
from official_files import put
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.readers import READERS
from pretrieve.evaluation.example_metrics import METRICS
from pretrieve.finetuning.recipes import KIND_OF
from pretrieve.tasks.example_task import KINDS
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.configuration import check_config
from pretrieve.workflow.job_options import EXAMPLE_READERS, fits

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def configuration() -> dict:
    return read_config(ROOT / "config.yaml")


def with_dataset(configuration: dict, **dataset: object) -> dict:
    config = copy.deepcopy(configuration)
    config["datasets"]["official"] = {"metrics": ["accuracy"], "sizes": {"full": "all"}} | dataset
    return config


def check(config: dict) -> None:
    tables = [f"{file.parent.name}/{file.stem}" for file in (ROOT / "references").glob("*/*.csv")]
    check_config(config, tables)


@pytest.mark.parametrize("name", READERS)
def test_every_reader_is_there(name: str) -> None:
    reader = READERS[name]
    assert callable(resolve_name(reader.read))
    named = {*reader.optional, *reader.counts, *reader.sources, reader.negatives, reader.alone}
    assert named - {""} <= set(reader.files)


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if reader.counts])
def test_every_reader_of_official_examples_can_be_used(name: str, configuration: dict) -> None:
    reader = READERS[name]
    assert reader.kind in KINDS and reader.kind in METRICS and reader.kind in KIND_OF.values()
    assert reader.licence and reader.url.startswith("http")
    assert set(reader.counts) <= set(reader.files) and set(reader.optional) <= set(reader.files)
    assert {key for key in reader.files if key not in reader.optional} <= set(reader.counts), "all have counts"
    files, metrics = {key: f"data/{key}" for key in reader.files}, list(METRICS[reader.kind])
    config = with_dataset(configuration, reader=name, files=files, counts="any", metrics=metrics)
    check(config)
    recipes = [recipe for recipe in config["recipes"] if fits(config, recipe, "official")]
    assert {KIND_OF[recipe] for recipe in recipes} == {reader.kind} == {EXAMPLE_READERS[name]}


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            {"reader": "sst-2"},
            r"datasets\.official: sst-2: it needs the files train \(train\.tsv\), dev \(dev\.tsv\); found none",
        ),
        ({"reader": "sst-2", "files": {"trian": "a", "dev": "b"}}, r"no file 'trian'.*did you mean 'train'"),
        (
            {"reader": "qqp", "files": {"train": "a", "dev": "b", "test": "c"}},
            r"qqp: no file 'test'; it has train, dev",
        ),
        ({"reader": "qqp", "files": {"train": "a", "dev": "a"}}, r"'train' and 'dev' are one file, a"),
        ({"reader": "sst2", "files": {"train": "a", "dev": "b"}}, r"'sst2' is not allowed.*did you mean 'sst-2'"),
        ({"reader": "qqp", "files": {"train": "a", "dev": "b"}, "reader_options": {"share": 1}}, r"no option 'share'"),
        ({"reader": "qqp", "files": {"train": "a", "dev": "b"}, "counts": "no"}, r"counts: 'no' is not allowed"),
    ],
)
def test_mistakes_of_the_configuration(dataset: dict, message: str, configuration: dict) -> None:
    with pytest.raises(ConfigError, match=message):
        check(with_dataset(configuration, **dataset))


def test_program(tmp_path: Path, tokenizer: Tokenizer, program) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    rows = "sentence\tlabel\n" + "".join(f"film {i}\t{i % 2}\n" for i in range(30))
    files = put(tmp_path, train=rows, dev=rows)
    named = [f"{name}={path}" for name, path in files.items()]
    command = ["workflow_scripts/task.py", "sst-2", "--tokenizer", tmp_path / "tokenizer.json", "--sizes", "full=all"]
    command += ["--out", tmp_path / "out", "--files", *named]
    ended = program(*command, "--options", '{"counts": "any", "held_out_share": 0.2}')
    assert ended.returncode == 0, ended.stderr
    statistics = json.loads(ended.stdout.splitlines()[-1])
    assert statistics["examples"] == 60 and statistics["about"]["licence"] == "not stated"
    assert statistics["splits"]["full"]["test"] == 30
    ended = program(*command)
    assert ended.returncode != 0 and "30 records in the file 'train'; expected 67,349" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_list_is_light(program) -> None:
    """The workflow reads it at every start."""
    module = "pretrieve.benchmarks.readers"
    code = f"import sys, {module}; print({{'pyarrow', 'numpy', 'tokenizers'}} & set(sys.modules))"
    assert program("-c", code).stdout.strip() == "set()"
