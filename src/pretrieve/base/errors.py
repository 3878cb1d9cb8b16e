"""The two errors that end a command with one readable line instead of a traceback, and help for their messages."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager


class PretrieveError(Exception):
    """Base class: something the user can fix; the message says what, where and how."""


class DataError(PretrieveError):
    """A file is missing, damaged or not in the expected format."""


class ConfigError(PretrieveError):
    """A configuration key, name or value is not allowed."""


def nearest(name: object, allowed: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the allowed name nearest to ``name``, or ''.

    >>> nearest("tabel3", ["table3", "claims"])
    "; did you mean 'table3'?"
    """
    match = difflib.get_close_matches(str(name), list(allowed), n=1, cutoff=0.5)
    return f"; did you mean '{match[0]}'?" if match else ""


def check_choice(what: str, value: object, allowed: Iterable[str]) -> None:
    """Raise :class:`ConfigError` for a value that is not allowed; ``what`` names it in the message."""
    allowed = list(allowed)
    if value not in allowed:
        raise ConfigError(f"{what} {value!r} is not allowed; choose from {allowed}{nearest(value, allowed) or '.'}")


def not_allowed(key: str, value: object, allowed: Iterable[str]) -> ConfigError:
    """The error of a name that is none of the allowed ones, or missing (None), with the nearest of them."""
    allowed = sorted(allowed)
    found = f"is missing; expected one of {', '.join(allowed)}"
    if value is not None:
        found = f"{value!r} is not allowed; allowed: {', '.join(allowed)}{nearest(value, allowed)}"
    return ConfigError(f"config: {key}: {found}")


def check_names(key: str, names: Iterable[object], allowed: Collection[str]) -> None:
    """Raise :func:`not_allowed` for the first of the ``names`` that is none of the ``allowed`` ones."""
    for name in names:
        if name not in allowed:
            raise not_allowed(key, name, allowed)


@contextmanager
def of_workflow(what: str) -> Iterator[None]:
    """For ``what`` needs packages that ``pip install pretrieve`` alone does not bring: ConfigError where one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what} needs {error.name}, which is not installed: pip install 'pretrieve[workflow]'."
        ) from None
