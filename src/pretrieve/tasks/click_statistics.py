"""How large a data set of clicks is: Table 7 of paper ``seed_encoder``, counted while it is read.

=================  ==================================================================================
``users``          distinct users with at least one impression
``news``           articles of the part: lines of MIND's ``news.tsv``
``impressions``    all that were read, with those that a task omits since all or none was clicked
``title_length``   mean word pieces of a title, without special tokens
``clicks``         mean clicked candidates of an impression
``candidates``     mean candidates of an impression
``history_clicks`` mean titles in the history of an impression
=================  ==================================================================================

One entry for ``train`` and one for ``dev``. MIND's dev set is what tests; so ``dev`` is here what tests, whatever the split is
called. The paper does not say in what a title's length is counted; here it is what the encoders read, word pieces.

Memory: the ids of the users, 1 million in MIND-large; titles are tokenised in blocks and forgotten.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from tokenizers import Tokenizer

#: Titles that are tokenised together.
_BLOCK = 10_000


class ClickStatistics:
    """Takes the articles and impressions of parts in any order; a part is there from its first article or impression on."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._users: dict[str, set[str]] = defaultdict(set)
        self._titles: list[tuple[str, str]] = []

    def article(self, part: str, title: str) -> None:
        """One article of a part; '' for one without a title, which counts with a length of 0."""
        self._titles.append((part, title))
        if len(self._titles) >= _BLOCK:
            self._measure()

    def impression(self, part: str, user: str, clicks: int, candidates: int, history: int) -> None:
        """One impression: who saw it, how many of how many candidates were clicked, and how long the history is."""
        self._users[part].add(user)
        self._counts[part].update(impressions=1, clicks=clicks, candidates=candidates, history_clicks=history)

    def _measure(self) -> None:
        encoded = self._tokenizer.encode_batch([title for _, title in self._titles], add_special_tokens=False)
        for (part, _), words in zip(self._titles, encoded, strict=True):
            self._counts[part].update(news=1, title_length=len(words))
        self._titles.clear()

    def summary(self) -> dict[str, dict[str, float]]:
        """Part → the counts above; a mean has two decimals, and is 0 of nothing."""
        self._measure()
        means = {"title_length": "news"} | dict.fromkeys(("clicks", "candidates", "history_clicks"), "impressions")
        return {
            part: {"users": len(self._users[part]), "news": counts["news"], "impressions": counts["impressions"]}
            | {name: round(counts[name] / counts[of], 2) if counts[of] else 0.0 for name, of in means.items()}
            for part, counts in self._counts.items()
        }
