"""docs/fidelity.md: every row of its tables names tests that exist, and what it says of the scales is so.

That no option whose presets differ is missing there: tests/pretraining/test_presets.py and tests/finetuning/test_recipes.py.

Seen to fail when: a cell says what a paper or a code does and not where; a row names no test, or a file or a test that does not
exist; the list of rows is empty; the demo trains with LAMB or with dropout; the scale paper has another budget for pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pretrieve.finetuning.recipes import RECIPES
from pretrieve.pretraining.presets import OPTIONS
from pretrieve.workflow.job_options import encoder_options, recipe_options

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/fidelity.md").read_text(encoding="utf-8")
LINES = PAGE.splitlines()
OPTION_ROW = re.compile(r"\| `[a-z0-9-]+\.[a-z_]+`")


def rows(column: str = "test") -> Iterator[tuple[int, str]]:
    """Line number and the cell under ``column`` of every row of a table that has such a column."""
    header: list[str] = []
    for number, line in enumerate(LINES, 1):
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("|") else []
        if not cells or not header:
            header = cells
        elif column in header and not line.startswith("|---"):
            assert len(cells) == len(header), f"line {number}: {len(cells)} cells, expected {len(header)}"
            yield number, cells[header.index(column)]


#: What says where something stands.
PLACE = re.compile(
    r"§\d|equations? \d|table \d|A\.\d|\.py|\.json|README|roberta_base|tevatron|mask_decode_lm_para|finetune\.gin"
)


def test_every_difference_of_the_presets_is_listed_and_has_its_source() -> None:
    """The page lists the options; presets.py and recipes.py, and so the report, say where both values stand."""
    different = {
        f"{name}.{option}": entry.source
        for name, options in (OPTIONS | RECIPES).items()
        for option, entry in options.items()
        if entry.paper != entry.official_code
    }
    listed = [line.split(" | ")[0] for line in LINES if OPTION_ROW.match(line)]
    assert {option for cell in listed for option in re.findall(r"`([a-z0-9-]+\.[a-z_]+)`", cell)} == set(different)
    for option, source in different.items():
        assert PLACE.search(source) or "no paper says" in source or "leaves it open" in source, option


def test_every_choice_has_its_place() -> None:
    """What a cell says of a paper or of a code is followed by its place."""
    for column in ("paper and ORQA", "paper", "released code"):
        said = {number: cell for number, cell in rows(column) if re.search("[a-z]", cell)}
        assert len(said) > 15
        for number, cell in said.items():
            assert OPTION_ROW.match(LINES[number - 1]) or PLACE.search(cell) or cell == "fairseq's defaults", (
                f"line {number}: {cell}"
            )


def test_every_row_names_a_test_that_exists() -> None:
    named = {number: re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", cell) for number, cell in rows()}
    assert len(named) > 95
    for number, tests in named.items():
        assert tests, f"docs/fidelity.md, line {number}: names no test"
        for file, test in tests:
            assert (ROOT / file).is_file(), f"docs/fidelity.md, line {number}: {file} does not exist"
            text = (ROOT / file).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in text, f"docs/fidelity.md, line {number}: {file} has no {test}"


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
