"""The language of a corpus, told from its texts: it decides how BM25 cuts and stems words.

py3langid (a naive Bayes classifier over byte n-grams, after Lui & Baldwin 2012, https://aclanthology.org/P12-3005) judges blocks
of texts: a single title is too short for it. The languages that count are those that Anserini has an analyser for (its
``AnalyzerMap``, and English; without Thai, whose words the Java runtime in the lock cannot tell apart). A corpus in another one
gets :data:`NONE`: words are cut as Unicode says, in lower case, and neither stemmed nor omitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

#: Languages with an analyser of their own.
ANALYSED = ("ar", "bn", "da", "de", "en", "es", "fa", "fi", "fr", "hi", "hu", "id", "it", "ja", "ko", "nl", "no", "pl", "pt",
            "ru", "sv", "te", "tr", "uk", "zh")  # fmt: skip
#: Of a language without one.
NONE = "none"
LANGUAGES = (*ANALYSED, NONE)
#: What the classifier tells apart and the analysers do not.
_SAME = {"nn": "no", "arz": "ar", "ary": "ar", "wuu": "zh", "yue": "zh"}
#: Its word for "no language": numbers, codes.
_NO_WORDS = "zxx"
#: Characters of texts that are judged together.
_BLOCK = 2000


class Language(NamedTuple):
    """code: one of :data:`LANGUAGES`; found: what the classifier calls it ('' for texts without words); share: of the blocks that
    are in it, 0 to 1."""

    code: str
    found: str
    share: float


def language_of(texts: Iterable[str]) -> Language:
    """The language of most blocks of texts; English for texts without words, whose numbers and codes need no stems.

    >>> language_of(["Es regnete. Wir blieben im Haus."])
    Language(code='de', found='de', share=1.0)
    """
    identifier = _identifier()
    votes = Counter[str]()
    for block in _blocks(texts):
        name = identifier.classify(block)[0]
        votes[_SAME.get(name, name)] += 1
    votes.pop(_NO_WORDS, None)
    if not votes:
        return Language("en", "", 1.0)
    found, count = min(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    return Language(found if found in ANALYSED else NONE, found, count / votes.total())


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _blocks(texts: Iterable[str]) -> Iterable[str]:
    block = ""
    for text in texts:
        if not any(map(str.isalpha, text)):
            continue
        block += f" {text[:_BLOCK]}"
        if len(block) >= _BLOCK:
            yield block
            block = ""
    if block.strip():
        yield block
