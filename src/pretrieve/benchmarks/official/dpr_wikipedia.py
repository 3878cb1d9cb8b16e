"""``psgs_w100.tsv``: the 21,015,324 passages of English Wikipedia that DPR and all that follow it search.

Tab-separated with a header ``id text title`` (https://dl.fbaipublicfiles.com/dpr/wikipedia_split/psgs_w100.tsv.gz;
Karpukhin et al. 2020, §4.1: articles cut into disjoint blocks of 100 words). Fields are quoted by RFC 4180: a text stands
in quotes, and a quote in it is written twice; so does a title that has one. Read without unquoting, the file has the right
number of fields and stray quotes in every text: nothing would tell.

After unquoting, the official loader also takes all quotes off both ends of the text (facebookresearch/DPR@a31212d,
``dpr/data/retriever_data.py``, ``CsvCtxSrc``), so that a passage that begins with a quotation loses the opening quote.
That text is what DPR embeds and searches; ``strip_quotes=False`` keeps the text as the file has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.raw.raw_text import Form, Warnings, read_columns

#: Passages of the whole file (Karpukhin et al. 2020, §4.1).
OFFICIAL_COUNT = 21_015_324
COLUMNS = ("id", "text", "title")


class WikipediaPassage(NamedTuple):
    """A block of 100 words of an article."""

    id: str
    title: str
    text: str


def read_passages(
    path: Path | str, strip_quotes: bool = True, warnings: Warnings | None = None
) -> Iterator[tuple[int, WikipediaPassage]]:
    """Line number and content of the passages of ``psgs_w100.tsv`` (packed or not) or a file in its format, streaming.

    Raises
    ------
    DataError
        for another header, another number of fields, quotes that do not fit, an id that is blank, and what
        :func:`pretrieve.raw.raw_text.read_lines` raises; file and line are named.
    """
    for number, (passage_id, text, title) in read_columns(
        path, COLUMNS, Form(header=True, quoted=True), warnings=warnings
    ):
        if not passage_id.strip():
            raise DataError(f"{path}: line {number}: id {passage_id!r}; expected the number of a passage.")
        yield number, WikipediaPassage(passage_id, title, text.strip('"') if strip_quotes else text)
