"""Which questions can be answered from a corpus: one pass over many passages for many questions at once.

The rule is that of hits@k (:mod:`pretrieve.tasks.answers`): an answer's words stand in the passage one after
another, or a regular expression is found in its text; titles are not looked at. Asking
:func:`pretrieve.tasks.answers.has_answer` for every pair would cost questions x passages. Instead

* each passage is cut into words once, and at every place the answers that begin with these two words (or are this one
  word) are looked up. An answer that was found once is dropped, so the work shrinks;
* a regular expression is searched in a block of passages at once, joined by an empty line, and only where it is found
  there in each half of the block, and so on; the last is a passage alone, which decides.

An answer without any word, which hits@k finds everywhere, is found nowhere here: a question with no other answer asks
nothing of a corpus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pretrieve.tasks.answers import Answers, Passages, answer_words, contains

#: Passages whose text is joined for the search of regular expressions.
BLOCK = 512


class AnswerSearch:
    """Look for the answers of many questions; :attr:`found` are the ids of those that have one in a text so far.

    Used as ``for text in texts: search.add(text)`` and then ``search.finish()``.
    """

    def __init__(self, answers: Mapping[str, Answers]) -> None:
        self.found: set[str] = set()
        self._patterns = {query_id: accepted for query_id, accepted in answers.items() if accepted.regular_expressions}
        self._block: list[str] = []
        owners: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for query_id, accepted in answers.items():
            if not accepted.regular_expressions:
                for text in accepted.texts:
                    if words := tuple(answer_words(text)):
                        owners[words].append(query_id)
        self._owners = dict(owners)
        self._needles: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
        for words in self._owners:
            self._needles[words[:2]].append(words)

    def add(self, text: str) -> None:
        """Search one passage."""
        if self._owners:
            self._search_words(answer_words(text))
        if self._patterns:
            self._block.append(text)
            if len(self._block) == BLOCK:
                self._search_patterns()

    def finish(self) -> set[str]:
        """Search what is left, and give the ids of the questions that have an answer."""
        if self._block:
            self._search_patterns()
        return self.found

    def _search_words(self, words: list[str]) -> None:
        needles = self._needles
        for place, word in enumerate(words):
            for begin in ((word,), tuple(words[place : place + 2])):
                if begin not in needles:
                    continue
                hits = [needle for needle in needles[begin] if tuple(words[place : place + len(needle)]) == needle]
                for needle in hits:
                    self.found.update(self._owners.pop(needle))
                    needles[begin].remove(needle)
                if not needles[begin]:
                    del needles[begin]

    def _search_patterns(self) -> None:
        joined = Passages({})
        for query_id, accepted in list(self._patterns.items()):
            if self._found_in(joined, 0, len(self._block), accepted):
                self.found.add(query_id)
                del self._patterns[query_id]
        self._block = []

    def _found_in(self, joined: Passages, start: int, end: int, accepted: Answers) -> bool:
        """Whether a passage from ``start`` to ``end`` - 1 matches: their joined text must, and then that of one half."""
        span = f"{start}:{end}"
        if span not in joined.texts:
            joined.texts[span] = "\n\n".join(self._block[start:end])
        if not contains(joined, span, accepted):
            return False
        middle = (start + end) // 2
        return middle == start or any(
            self._found_in(joined, *half, accepted) for half in ((start, middle), (middle, end))
        )
