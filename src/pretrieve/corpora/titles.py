"""Titles of articles as 64-bit hashes: which article a link leads to, and which titles were met before.

A full English Wikipedia has 7 million articles and 10 million redirects. Their titles as strings would fill gigabytes;
here a title or redirect takes 16 bytes.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left

import numpy as np

from pretrieve.corpora.wikitext import normalise_title


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

    def add_article(self, title: str, article_id: int) -> None:
        if title:
            self._titles.append(title_hash(normalise_title(title)))
            self._ids.append(article_id)

    def add_redirect(self, title: str, target: str) -> None:
        self._from.append(title_hash(normalise_title(title)))
        self._to.append(title_hash(normalise_title(target)))

    def freeze(self) -> None:
        """Sort the tables for look-up; call once, after the last title and before :meth:`resolve`."""
        titles, ids = np.array(self._titles, dtype=np.int64), np.array(self._ids, dtype=np.int64)
        order = np.argsort(titles, kind="stable")
        self._title_keys, self._title_ids = titles[order], ids[order]
        sources, targets = np.array(self._from, dtype=np.int64), np.array(self._to, dtype=np.int64)
        order = np.argsort(sources, kind="stable")
        self._redirect_keys, self._redirect_targets = sources[order], targets[order]

    @staticmethod
    def _look_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, default: np.ndarray) -> np.ndarray:
        if not len(keys):
            return default
        position = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[position] == wanted, values[position], default)

    def resolve(self, hashes: np.ndarray) -> np.ndarray:
        """Article ids (n,) for title hashes (n,); -1 for a title that is not in the corpus."""
        nowhere = np.full(len(hashes), -1, dtype=np.int64)
        direct = self._look_up(self._title_keys, self._title_ids, hashes, nowhere)
        target = self._look_up(self._redirect_keys, self._redirect_targets, hashes, hashes)
        return np.where(direct >= 0, direct, self._look_up(self._title_keys, self._title_ids, target, nowhere))


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
            self._new.append(title_hash(normalise_title(title)))

    def end_part(self) -> None:
        self._new.extend(self._sorted)
        self._sorted = array("q", np.sort(np.array(self._new, dtype=np.int64)).tobytes())
        self._new = array("q")

    def __contains__(self, title: str) -> bool:
        key = title_hash(normalise_title(title))
        place = bisect_left(self._sorted, key)
        return place < len(self._sorted) and self._sorted[place] == key
