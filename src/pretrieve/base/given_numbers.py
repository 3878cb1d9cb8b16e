"""Whole numbers that a caller in Python gives, checked before torch or faiss, which do not take NumPy's, read them."""

from __future__ import annotations

from numbers import Integral

from pretrieve.base.errors import ConfigError


def given_number(value: object, name: str, least: int = 1, expected: str = "") -> int:
    """The number as Python's own; ``name``: what it is called in a message; ``expected``: what that says of it.

    Raises ConfigError where it is no whole number, or below ``least``.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r}; expected {expected or f'{least} or more, a whole number'}.")
    return int(value)
