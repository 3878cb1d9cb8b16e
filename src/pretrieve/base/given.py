"""Texts and whole numbers that a caller in Python gives, checked before tokenizers, Java, torch or faiss read them:
none of these says which argument is wrong, and torch and faiss do not take NumPy's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral

from pretrieve.base.errors import ConfigError, DataError


def given_number(value: object, name: str, least: int = 1, expected: str = "") -> int:
    """The number as Python's own; ``name``: what it is called in a message; ``expected``: what that says of it.

    Raises ConfigError where it is no whole number, or below ``least``.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r}; expected {expected or f'{least} or more, a whole number'}.")
    return int(value)


def given_texts(texts: Iterable[str], name: str) -> list[str]:
    """The texts as a list; ``name``: what they are called in a message.

    Raises ConfigError for one text, a dictionary or a table in place of a list (Python would take the keys, or the columns'
    names), and DataError where an entry is no text, or not UTF-8.
    """
    if isinstance(texts, str):
        raise ConfigError(f"one text, {texts[:40]!r}; expected a list of {name}.")
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping) or getattr(texts, "ndim", 1) != 1:
        raise ConfigError(f"{name}: found {type(texts).__name__}; expected a list of texts.")
    found = list(texts)
    for number, text in enumerate(found):
        try:
            str.encode(text)
        except (TypeError, UnicodeEncodeError):
            what = "not UTF-8" if isinstance(text, str) else type(text).__name__
            raise DataError(f"{name}[{number}]: {repr(text)[:60]} is {what}; expected a text.") from None
    return found
