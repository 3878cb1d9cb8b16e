"""Words by which a question is compared with sentences.

Seen to fail when: words are compared without stemming; stop words count.
"""

from __future__ import annotations

from pretrieve.benchmarks.made.word_overlap import content_words


def test_content_words() -> None:
    assert content_words("The of a I boat's") == {"boat"}
    assert (
        content_words("Which boats carried stones?")
        == content_words("A boat carries a stone.")
        == {"boat", "carri", "stone"}
    )
    assert content_words("Where is it from in 1968?") == {"1968"}
