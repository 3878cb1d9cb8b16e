"""Titles of articles as 64-bit hashes: which article a link leads to, and which titles were met before.

A full English Wikipedia has 7 million articles and 10 million redirects. Their titles as strings would fill gigabytes;
here a title or redirect takes 16 bytes.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from pretrieve.corpora.wikitext import article_title


def title_hash(title: str) -> int:
    """64-bit hash of a normalised title, the same in every process (Python's own hash is salted).

    The chance that any two of 20 million titles collide is 1e-5.
    """
    return int.from_bytes(hashlib.blake2b(title.encode(), digest_size=8).digest(), "little", signed=True)


class TitleTable:
    """Title hash → article id, through at most one redirect, as MediaWiki does. Of equal titles the first one counts;
    an article without a title is nowhere."""

    def __init__(self) -> None:
        self._titles, self._ids = array("q"), array("q")
        self._from, self._to = array("q"), array("q")
        self._names, self._name_ids = array("q"), array("q")

    def add_article(self, title: str, article_id: int) -> None:
        if title:
            self._titles.append(title_hash(article_title(title)))
            self._ids.append(article_id)

    def add_redirect(self, title: str, target: str) -> None:
        self._from.append(title_hash(article_title(title)))
        self._to.append(title_hash(article_title(target)))

    def add_name(self, name: str, article_id: int) -> None:
        """As a redirect, but to this article, whichever others have its title."""
        self._names.append(title_hash(article_title(name)))
        self._name_ids.append(article_id)

    def freeze(self) -> None:
        """Sort the tables for look-up; call once, after the last title and before :meth:`resolve`."""
        self._articles = _sorted(self._titles, self._ids)
        targets = _look_up(*self._articles, np.array(self._to, dtype=np.int64))
        self._others = _sorted(self._names + self._from, np.append(self._name_ids, targets))

    def resolve(self, hashes: np.ndarray) -> np.ndarray:
        """Article ids (n,) for title hashes (n,); -1 for a title that is not in the corpus."""
        direct = _look_up(*self._articles, hashes)
        return np.where(direct >= 0, direct, _look_up(*self._others, hashes))


def _sorted(keys: Sequence[int], ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    keys, ids = np.array(keys, dtype=np.int64), np.array(ids, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    return keys[order], ids[order]


def _look_up(keys: np.ndarray, ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[position] == wanted, ids[position], -1)


class EarlierTitles:
    """The titles of a corpus's earlier parts, 8 bytes each; what is added counts from the end of the part on.

    >>> seen = EarlierTitles()
    >>> seen.add("boat_house")
    >>> "Boat house" in seen
    False
    >>> seen.end_part()
    >>> "Boat house" in seen, "Boat" in seen
    (True, False)
    """

    def __init__(self) -> None:
        self._new, self._sorted = array("q"), array("q")

    def add(self, title: str) -> None:
        if title:
            self._new.append(title_hash(article_title(title)))

    def end_part(self) -> None:
        self._new.extend(self._sorted)
        self._sorted = array("q", np.sort(np.array(self._new, dtype=np.int64)).tobytes())
        self._new = array("q")

    def __contains__(self, title: str) -> bool:
        key = title_hash(article_title(title))
        place = bisect_left(self._sorted, key)
        return place < len(self._sorted) and self._sorted[place] == key
