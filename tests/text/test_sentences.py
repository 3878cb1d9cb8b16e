"""Sentence spans are character offsets, whatever the characters.

Seen to fail when: offsets are taken as bytes of UTF-8; sentences overlap.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.corpora.sentences import sentence_of, sentence_spans

BY_HAND = {
    "It rained. We stayed in.": ["It rained.", "We stayed in."],
    "Em — dash here. Next one 日本語です。 Emoji 😀 works! Yes.": [
        "Em — dash here.",
        "Next one 日本語です。",
        "Emoji 😀 works!",
        "Yes.",
    ],
    "日本語の文。次の文。": ["日本語の文。", "次の文。"],
    "Cafe\u0301 — naïve “façade”. Ünder.": ["Cafe\u0301 — naïve “façade”.", "Ünder."],
    "Dr. Smith met Mr. Jones at 3.5 km. He left.": ["Dr. Smith met Mr. Jones at 3.5 km.", "He left."],
    "no boundary": ["no boundary"],
    "": [],
    " \n\t ": [],
}


def visible(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("text", BY_HAND)
def test_by_hand(text: str) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == BY_HAND[text]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            ["A", "boat", "—", "日本", "😀", "e\u0301", ".", "!", "?", "。", " ", "  ", "”", "(", "Mr.", "3.5"]
        )
    )
)
def test_spans_cover_all_that_is_visible(pieces: list[str]) -> None:
    text = "".join(pieces)
    spans = sentence_spans(text)
    end = 0
    for start, stop in spans:
        assert end <= start < stop <= len(text)
        end = stop
    assert visible("".join(text[start:stop] for start, stop in spans)) == visible(text)


def test_sentence_of() -> None:
    spans = [(0, 10), (11, 24), (25, 30)]
    assert [sentence_of(spans, position) for position in (0, 9, 10, 11, 24, 25, 99)] == [0, 0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="no sentences"):
        sentence_of([], 3)
