"""The part of a document that a hit is shown by."""

from __future__ import annotations

import re
from collections import Counter

#: Shorter words are in every text.
_SHORTEST = 4


def on_one_line(text: str) -> str:
    """A text for a terminal: blanks for line breaks and for what a terminal would obey.

    >>> on_one_line("a\\x1b[2Jboat\\nfloats")
    'a [2Jboat floats'
    """
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def snippet(text: str, question: str, length: int = 200) -> str:
    """The ``length`` characters with the most different words of the question; the beginning, where there is none.

    >>> snippet("The sea is deep. " * 9 + "An anchor holds a boat.", "what holds a boat?", 40)
    '… The sea is deep. An anchor holds a boat.'
    """
    line = on_one_line(text)
    if len(line) <= length:
        return line
    words = {word for word in re.findall(r"\w+", question.lower()) if len(word) >= _SHORTEST}
    found = [(match.start(), match[0].lower()) for match in re.finditer(r"\w+", line) if match[0].lower() in words]
    best, most, end = 0, 0, 0
    within = Counter[str]()  # of the words from a place on, over ``length`` characters
    for start, word in found:
        while end < len(found) and found[end][0] < start + length:
            within[found[end][1]] += 1
            end += 1
        if len(within) > most:
            best, most = start, len(within)
        within[word] -= 1
        if not within[word]:
            del within[word]
    begin = max(0, min(best - length // 8, len(line) - length))
    begin = line.rfind(" ", 0, begin) + 1 if begin else 0
    shown = line[begin : begin + length]
    if begin + length < len(line):
        shown = shown.rpartition(" ")[0] + " …"
    return f"… {shown}" if begin else shown
