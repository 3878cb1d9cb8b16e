"""The little world of all made files: sixty buildings, a page about each, and questions.

Every made file is a view of it (:func:`to_lines`, :func:`to_json_lines`), so files that belong together fit: FanOutQA's made
pages are pages of the made dump. Everything follows from the number of a building. Words and scores mean nothing.
"""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

COUNT = 60
_FIRST = ["River", "Stone", "Harbour", "Winter", "Copper", "Garden", "Silver", "Timber", "Cotton", "Summer"]
_SECOND = ["Bridge", "Castle", "Mill", "Tower", "Church", "Market"]
_SYLLABLES, _WORDS = (
    text.split()
    for text in (
        "ba co du fe gi ho ka le mi no pu ra se ti vo wu xi ya ze lo",
        "signal engine valley island forest letter mirror window candle hammer ladder basket anchor sailor painter farmer "
        "teacher pepper wagon barrel lantern meadow orchard chimney kettle needle pillow saddle thread whistle",
    )
)
#: Sections of a page; the first has no heading.
SECTIONS = ("", "History", "Making", "Uses")
#: What is asked about a building, by the split that asks it.
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Building:
    """number: from 0; title: its name; maker, year: answers; sentences: of its passage, in which both stand."""

    number: int
    title: str
    maker: str
    year: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def url(self) -> str:
        return f"https://example.org/{self.number}"

    def question(self, split: str) -> str:
        """A question about it; each split asks in words of its own."""
        return {
            "train": f"Who was the maker of the {self.title}?",
            "dev": f"In which year was the {self.title} finished?",
            "test": f"Which person made the building called {self.title}?",
        }[split]

    def answer(self, split: str) -> str:
        """Stands in the passage."""
        return self.year if split == "dev" else self.maker


def sentence(rng: random.Random) -> str:
    """A sentence of eight to twelve words."""
    return f"The {' '.join(rng.choice(_WORDS) for _ in range(rng.randint(6, 10)))} stands."


def _building(number: int) -> Building:
    rng = random.Random(1000 + number)
    title = f"{_FIRST[number % len(_FIRST)]} {_SECOND[number // len(_FIRST)]}"
    maker = "".join(
        _SYLLABLES[place % len(_SYLLABLES)] for place in (number, number // 3 + 7, number * 7 + 3)
    ).capitalize()
    year = str(1700 + 3 * number)
    sentences = (
        f"The {title} is a building in the north of the valley.",
        f"It was made by {maker} for the people of the town.",
        sentence(rng),
        f"The work was finished in {year} after long years.",
        sentence(rng),
    )
    return Building(number, title, maker, year, sentences)


BUILDINGS = tuple(_building(number) for number in range(COUNT))


def asked(split: str) -> tuple[Building, ...]:
    """The buildings that a split asks about: all of them train; dev and test have a few each."""
    return {"train": BUILDINGS, "dev": BUILDINGS[:12], "test": BUILDINGS[20:36]}[split]


def others(building: Building, count: int) -> list[Building]:
    """Other buildings: the negatives."""
    return [BUILDINGS[(building.number + 7 * step + 5) % COUNT] for step in range(count)]


def paragraphs(building: Building, section: str) -> list[str]:
    """Three paragraphs of a section of its page, the first of the page being its passage."""
    rng = random.Random(f"{building.number} {section}")
    made = [" ".join(sentence(rng) for _ in range(4)) for _ in range(3)]
    return [building.text, *made[1:]] if not section else made


def words() -> list[str]:
    """Every word of the world in lower case, sorted."""
    texts = [building.text for building in BUILDINGS] + [b.question(split) for b in BUILDINGS for split in SPLITS]
    every = " ".join([*texts, *_WORDS, *SECTIONS, "the stands near and in"]).lower()
    return sorted(set("".join(c if c.isalnum() else " " for c in every).split()))


def to_lines(rows: Iterable[Iterable[object]], separator: str = "\t") -> bytes:
    """A file with a row a line."""
    return "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()


def to_json_lines(records: Iterable[Any]) -> bytes:
    """A file with a record a line, as JSON."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()
