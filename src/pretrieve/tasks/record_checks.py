"""What every query and judgement must be, whoever reads it: the writer of a collection, and the look at a folder before a run.

``where()`` gives the beginning of a message, the file and line; it is called for a message only.
"""

from __future__ import annotations

from collections.abc import Callable

from pretrieve.base.errors import DataError


def check_query(where: Callable[[], str], query_id: str, text: str) -> None:
    """Raise DataError for a query without an id, or without a word."""
    if not query_id or not text.strip():
        raise DataError(
            f"{where()}query {query_id!r} has the text {text!r}; expected an id and words to search for: "
            "correct it or leave the query out."
        )


def is_new_judgement(
    where: Callable[[], str], known: dict[int, int], query_id: str, doc_id: str, relevance: int
) -> bool:
    """Whether a pair was not judged before. ``known`` takes it in, as a hash in place of two ids.

    Raises
    ------
    DataError
        for a relevance below zero, or another one than the pair had.
    """
    if relevance < 0:
        raise DataError(
            f"{where()}relevance {relevance} of document {doc_id!r} for query {query_id!r} is below zero; "
            "expected 0 (judged, not relevant), 1 or more."
        )
    pair = hash((query_id, doc_id))
    before = known.get(pair)
    if before is None:
        known[pair] = relevance
        return True
    if before != relevance:
        raise DataError(
            f"{where()}document {doc_id!r} has relevance {relevance} for query {query_id!r}, and had {before} "
            "before; expected one judgement: remove the wrong one."
        )
    return False
