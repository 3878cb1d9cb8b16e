"""The words of a text that carry its content, to compare a question with sentences.

A *content word* is a token of letters or digits that is not a stop word (gensim's list of 337), compared by its Porter stem.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gensim.parsing.porter import PorterStemmer
from gensim.parsing.preprocessing import STOPWORDS

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_stemmer = PorterStemmer()


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Porter stem of the lower-cased word without a possessive ending."""
    return _stemmer.stem(re.sub(r"['’]s?$", "", word.lower()))


def content_words(text: str) -> set[str]:
    """Stems of the words that are not stop words."""
    return {stem(word) for word in _WORD.findall(text) if word.lower() not in STOPWORDS and len(word) > 1}
