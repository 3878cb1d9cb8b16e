"""Words that a question shares with its answer's sentence.

Seen to fail when: words are compared without stemming; stop words count; names count.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from pretrieve.benchmarks.made.question_entailment import content_words, stem

CHECK = runpy.run_path(str(Path(__file__).parents[2] / "resources/questions/check.py"))
names_in, shared_content_words = CHECK["names_in"], CHECK["shared_content_words"]


@pytest.mark.parametrize(
    ("question", "sentence", "passage", "shared"),
    [
        ("Who painted the ceiling?", "The ceiling was decorated by Pietro.", "", {"ceil"}),
        ("Which boats carried stones?", "A boat carries a stone.", "", {"boat", "carri", "stone"}),
        ("Where is it from?", "It is from there.", "", set()),
        ("When was Apollo launched?", "Apollo left in 1968.", "The mission of Apollo began.", set()),
        ("When was the anchor's chain made?", "The anchor is old.", "", {"anchor"}),
        ("Did Anna sail in 1968?", "The ship left in 1968.", "", {"1968"}),
    ],
)
def test_by_hand(question: str, sentence: str, passage: str, shared: set[str]) -> None:
    assert shared_content_words(question, sentence, passage) == shared


def test_names() -> None:
    """A capital at a sentence's start says nothing; a word that is also written small is no name."""
    passage = "Boats came. The Rose sank, and a rose was thrown. Then Einstein spoke of Boston’s harbour."
    assert names_in(passage) == {stem("Einstein"), stem("Boston")}
    assert content_words("The of a I boat's") == {"boat"}
