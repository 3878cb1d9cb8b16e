"""What a published encoder says of itself: name, licence and data, from the card next to its weights.

Of ``README.md`` the front matter is read (YAML, https://huggingface.co/docs/hub/model-cards), and the first heading.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError

#: Characters of a card that are read; the front matter is at its beginning.
_LONGEST = 1 << 16


@dataclass(frozen=True)
class BaseModel:
    """start: as the configuration names it; name, licence, datasets: as its card says, '' and () where it says nothing."""

    start: str
    name: str
    licence: str
    datasets: tuple[str, ...]

    @property
    def hub_id(self) -> str:
        """``OWNER/NAME`` of a model of the hub, '' for others."""
        return self.start.removeprefix("hub:").partition("@")[0] if self.start.startswith("hub:") else ""


def read_base(directory: Path, start: str) -> BaseModel:
    """What the card in ``directory`` says; a directory without one, or with one that cannot be read, says nothing."""
    import yaml

    card = Path(directory) / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace")[:_LONGEST] if card.is_file() else ""
    front, _, body = text[4:].partition("\n---") if text.startswith("---\n") else ("", "", text)
    try:
        said = yaml.safe_load(front)
    except yaml.YAMLError:
        said = None
    said = said if isinstance(said, dict) else {}
    title = next((line[2:].strip() for line in body.splitlines() if line.startswith("# ")), "")
    datasets = said.get("datasets")
    return BaseModel(
        start,
        _plain(title),
        _plain(said.get("license")),
        tuple(map(_plain, datasets or ())) if isinstance(datasets, list) else (),
    )


def base_of(given: str) -> BaseModel | None:
    """Of the option ``--base START=DIR``; None for ''."""
    start, equals, directory = given.rpartition("=")
    if given and not (start and equals):
        raise ConfigError(f"--base {given!r}: expected START=DIR, such as hub:OWNER/NAME=data/hub/OWNER--NAME.")
    return read_base(Path(directory), start) if given else None


def _plain(value: Any) -> str:
    """A short value on one line; '' for none."""
    return " ".join(str(value).split())[:200] if isinstance(value, str | int | float) else ""
