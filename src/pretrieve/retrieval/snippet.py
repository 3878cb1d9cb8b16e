"""The part of a document that a hit is shown by."""

from __future__ import annotations

import re

#: Shorter words are in every text.
_SHORTEST = 4


def on_one_line(text: str) -> str:
    """A text for a terminal: blanks replace line breaks and control characters.

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

    def different(start: int) -> int:
        return len({word for place, word in found if start <= place < start + length})

    best = max((start for start, _ in found), key=different, default=0)
    begin = max(0, min(best - length // 8, len(line) - length))
    begin = line.rfind(" ", 0, begin) + 1 if begin else 0
    shown = line[begin : begin + length]
    if begin + length < len(line):
        shown = shown.rpartition(" ")[0] + " …"
    return f"… {shown}" if begin else shown
