"""The real number of training examples behind a size's name, and which data are the papers' own.

Seen to fail when: examples for validation are not counted; BM25 or a count is said to be trained; a role of stand-in data
counts as original.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.paths import task_dir
from pretrieve.reporting.tables.results import training_examples
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.scales import is_original, roles_of

ROOT = Path(__file__).parents[2]


def test_labels_for_training_and_validation_of_the_set_that_was_trained_on(tmp_path: Path) -> None:
    rows = [("1k", f"q{i}", split) for i, split in enumerate(["train"] * 90 + ["valid"] * 10 + ["test"] * 227)]
    folder = Path(task_dir(str(tmp_path), "squad"))
    folder.mkdir(parents=True)
    columns = dict(zip(("size", "query_id", "split"), zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / "splits.parquet")
    root = str(tmp_path)
    assert training_examples(root, "squad", "bert.dpr-bm25-1k") == 100
    assert training_examples(root, "squad", "bm25.dpr-bm25-1k") is None
    assert training_examples(root, "elsewhere", "bert.dpr-bm25-1k") is None
    assert training_examples(root, "squad", "statistics") is None


def test_originals_are_named_or_all() -> None:
    config = {"scale": "small", "scales": {"small": {"originals": ["stsb-test"]}, "demo": {}}}
    assert is_original(config, "stsb-test") and not is_original(config, "nq-open")
    assert not is_original(config | {"scale": "demo"}, "stsb-test")


@pytest.mark.parametrize("scale", ["demo", "small"])
def test_every_stand_in_is_described_in_words(scale: str) -> None:
    """Tables and figures name it: `questions` alone would say nothing."""
    config = read_config(ROOT / "config.yaml") | {"scale": scale}
    played = {name for role, name in roles_of(config, None).items() if not is_original(config, role)}
    assert played - set(config["descriptions"]) == set()
    assert not any(word in config["descriptions"][name] for name in played for word in ("MS MARCO", "MIND", "STS-B"))
