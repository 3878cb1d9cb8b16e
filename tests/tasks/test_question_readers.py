"""The configuration of the readers of questions: which files each needs, and the rules that read them.

Seen to fail when: the files of these readers are not compared with what they need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).parents[2]


def load(**dataset: Any) -> Plan:
    config = read_config(ROOT / "config.yaml")
    config["datasets"]["own"] = {"sizes": {"80pct": 0.8}} | dataset
    return Plan.load(config, ROOT / "references", ROOT / "resources/sources.tsv")


@pytest.mark.parametrize(
    ("reader", "files"),
    [
        ("squad", {"file": "dev.json"}),
        ("squad", {"train": "train.json", "dev": "dev.json", "test": "test.json"}),
        ("natural-questions", {"file": "nq.jsonl.gz"}),
        ("multireqa", {"candidates": "candidates.json.gz", "texts": "texts.jsonl.gz"}),
    ],
)
def test_files(reader: str, files: dict[str, str]) -> None:
    plan = load(reader=reader, files=files)
    assert plan.raw_files([]) == []
    assert set(files.values()) <= {line.removeprefix("own: ") for line in plan.licences("own")}


@pytest.mark.parametrize(
    ("reader", "files", "part"),
    [
        (
            "squad",
            {"file": "a", "train": "b"},
            "squad: it needs the files train, test, or file alone; found file, train",
        ),
        ("question-entailment", {"file": "a"}, "question-entailment: no file 'file'; it has train, dev, test"),
        ("natural-questions", {"train": "a"}, "natural-questions: no file 'train'; it has file"),
        ("multireqa", {"texts": "a"}, "multireqa: it needs the files candidates, texts; found texts"),
    ],
)
def test_messages(reader: str, files: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(reader=reader, files=files)
    assert f"config: datasets.own: {part}" in str(caught.value)
