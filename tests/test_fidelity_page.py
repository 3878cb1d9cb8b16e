"""docs/fidelity.md: every row of its tables names tests that exist, and what it says of the scales is so.

That no option whose presets differ is missing there: tests/pretraining/test_presets.py and tests/finetuning/test_recipes.py.

Seen to fail when: a row has no source; it names no test, a file or a test that does not exist, or a word that the list of
files lacks; the list of rows is empty; the demo trains with LAMB or with dropout; the scale paper has another budget for pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pretrieve.finetuning.recipes import RECIPES
from pretrieve.pretraining.presets import OPTIONS
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import encoder_options, recipe_options

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/fidelity.md").read_text(encoding="utf-8")
#: Word → file, from the page's last table.
FILES = dict(re.findall(r"^\| (\w+) \| `(tests/[\w/]+\.py)` \|$", PAGE, re.MULTILINE))


def rows(column: str = "test") -> Iterator[tuple[int, str]]:
    """Line number and the cell under ``column`` of every row of a table that has such a column."""
    header: list[str] = []
    for number, line in enumerate(PAGE.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("|") else []
        if not cells or not header:
            header = cells
        elif column in header and not line.startswith("|---"):
            assert len(cells) == len(header), f"line {number}: {len(cells)} cells, expected {len(header)}"
            yield number, cells[header.index(column)]


def named_in(cell: str) -> list[tuple[str, str]]:
    """(file, test or '') that a cell names: `file::test`, `file`, or *word: name of the test*."""
    found = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", cell)
    for word, name in re.findall(r"(\w+): ([^;]+)", re.sub("`[^`]*`", "", cell)):
        found.append((FILES[word], "test_" + re.sub(r"\W+", "_", name.strip())))
    return found + ([(FILES[cell], "")] if cell in FILES else [])


def test_every_difference_of_the_presets_has_its_source() -> None:
    """The last column of the two tables of options: where both values stand, as presets.py and recipes.py say."""
    sources = dict(re.findall(r"^\| `([a-z0-9-]+\.[a-z_]+)` \|.* \| ([^|]+) \|$", PAGE, re.MULTILINE))
    different = {
        f"{name}.{option}": entry.source
        for name, options in (OPTIONS | RECIPES).items()
        for option, entry in options.items()
        if entry.paper != entry.official_code
    }
    assert sources == different


def test_every_choice_has_its_place() -> None:
    """A row with something in the paper's or the code's column says where it stands."""
    place = re.compile(
        r"§\d|equation \d|tables? \d|\.py|README|roberta_base|tevatron|mask_decode_lm_para|finetune\.gin"
    )
    columns = ("ORQA", "released code", "source")
    said = {column: dict(rows(column)) for column in columns}
    assert len(said["source"]) > 80
    for number, source in said["source"].items():
        code = said["ORQA"].get(number, said["released code"].get(number, "–"))
        assert place.search(source) or (source == "–" and (code == "–" or code == "fairseq's defaults")), (
            f"line {number}"
        )


def test_every_row_names_a_test_that_exists() -> None:
    named = {number: named_in(cell) for number, cell in rows()}
    assert len(named) > 120
    for number, tests in named.items():
        assert tests, f"docs/fidelity.md, line {number}: names no test"
        for file, test in tests:
            assert (ROOT / file).is_file(), f"docs/fidelity.md, line {number}: {file} does not exist"
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {test}" in text, f"docs/fidelity.md, line {number}: {file} has no {test}"


@pytest.fixture(scope="module")
def config() -> dict:
    return read_config(ROOT / "config.yaml")


def test_the_demos_optimiser_and_dropout(config: dict) -> None:
    config = config | {"scale": "demo"}
    for name, entry in config["recipes"].items():
        wanted = "adafactor" if entry.get("recipe", name) == "dual-t5" else "adamw"
        assert recipe_options(config, name, "questions")["optimiser"] == wanted, name
    assert all(encoder_options(config, name).body.get("dropout", 0.0) == 0.0 for name in config["encoders"])


def test_the_papers_budget_of_pairs_and_heads(config: dict) -> None:
    paper = config["scales"]["paper"]
    pairs = paper["pretraining"]["budgets"]["pairs"]
    assert (pairs["batch"], pairs["steps"], pairs["learning_rate"]) == (8192, 100_000, 1e-4)  # pretraining_tasks §4.1
    assert paper["body"]["heads"] == 12  # SEED-Encoder's code; its paper prints eight
    assert paper["pretraining"]["options"] == {}  # presets decide
