"""What ``import pretrieve`` shows: docs/python-api.md runs as it stands, and nothing is imported before it is used.

Seen to fail when: a name of the list is not in its module; ``import pretrieve`` imports torch; an example of the page is wrong.
"""

from __future__ import annotations

import doctest
from pathlib import Path

import pretrieve

PAGE = Path(__file__).resolve().parents[1] / "docs/python-api.md"
LIGHT = """
import sys
before = set(sys.modules)
import pretrieve
new = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
assert new == {"pretrieve"}, new
assert set(pretrieve.__all__) <= set(dir(pretrieve))
"""


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.failed == 0 and result.attempted > 25


def test_every_public_name_is_there_and_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in pretrieve.__all__:
        assert getattr(pretrieve, name).__doc__, name
    shown = {name for name in pretrieve.__all__ if f"pretrieve.{name}" in page}
    assert set(pretrieve.__all__) - shown == {
        "__version__",
        "Retriever",
        "Run",
        "read_trec",
        "ObjectiveModule",
        "DeployedIndex",
        "Hit",
    }


def test_the_package_is_light(program) -> None:
    done = program("-c", LIGHT)
    assert done.returncode == 0, done.stderr
