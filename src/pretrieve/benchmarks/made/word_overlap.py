"""How many words a question shares with the sentence that answers it.

A question set whose questions repeat the words of the answer's sentence measures string matching and flatters
BM25 (SQuAD is known for it: paper ``pretraining_tasks`` §4.2). The share of questions without any common content
word is therefore a statistic of the project's own question set.

Definition: a *content word* is a token of letters or digits that is not a stop word (gensim's list of 337), compared
by its Porter stem. A *name* is a word that is written with a capital letter wherever it stands in the passage
(at least once inside a sentence, where a capital is not owed to its first place); names are omitted, because a
question must name what it asks about. Words of the answer itself count like any other.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gensim.parsing.porter import PorterStemmer
from gensim.parsing.preprocessing import STOPWORDS

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]['\"”’)]*\s+|[\"“(]\s*)$")
_stemmer = PorterStemmer()


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Porter stem of the lower-cased word without a possessive ending."""
    return _stemmer.stem(re.sub(r"['’]s?$", "", word.lower()))


def names_in(passage: str) -> set[str]:
    """Stems of the words that are names in this passage: never lower case, and capitalised inside a sentence."""
    capital, lower = set(), set()
    for match in _WORD.finditer(passage):
        word = match.group()
        if word[0].islower():
            lower.add(stem(word))
        elif word[0].isupper() and not _SENTENCE_START.search(passage[max(0, match.start() - 8) : match.start()]):
            capital.add(stem(word))
    return capital - lower


def content_words(text: str) -> set[str]:
    """Stems of the words that are not stop words."""
    return {stem(word) for word in _WORD.findall(text) if word.lower() not in STOPWORDS and len(word) > 1}


def shared_content_words(question: str, sentence: str, passage: str) -> set[str]:
    """Content words that the question and the answer's sentence have in common, names omitted.

    A name is found in the passage, or in the question where a word is capitalised after the first place.

    >>> shared_content_words("Who painted the ceiling?", "The ceiling was decorated by Pietro.", "")
    {'ceil'}
    """
    names = names_in(passage) | names_in("x " + question[:1].lower() + question[1:])
    return (content_words(question) & content_words(sentence)) - names
