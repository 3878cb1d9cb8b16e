"""Tiny made-up inputs in the real formats, shared by the tests of the tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from linked_corpus import corpus_of, write_corpus
from tokenizers import Tokenizer

from pretrieve.text.vocabulary import train_wordpiece

#: title → (lead, description); the page of the first stands in the dump below.
LEADS = {
    "Aardvark": ("The aardvark digs burrows. It eats ants.", "Burrowing African mammal"),
    "Abacus": ("An abacus is a counting frame. It has beads.", "Calculating tool"),
    "Abbey": ("An abbey houses monks. Some house nuns.", "Religious building"),
    "Acid": ("An acid donates protons. It turns litmus red.", "Proton donor"),
    "Adobe": ("Adobe is made of earth and straw.", "Building material"),
    "Alga": ("Algae live in water. Many are green.", "Water-dwelling organism"),
    "Amber": ("Amber is fossil resin. It is yellow.", "Fossil resin"),
    "Anvil": ("An anvil is a block of iron.", "Forging tool"),
    "Apple": ("An apple grows on a tree.", "Edible fruit"),
    "Arrow": ("An arrow is shot from a bow.", "Projectile"),
    "atlas": ("An atlas is a book of maps.", "Collection of maps"),
    "Aspen": ("An aspen is a tree.", "  building MATERIAL "),  # the same as Adobe's when folded
    "Attic": ("An attic is under the roof.", ""),
}

PAGE = """The aardvark is a nocturnal mammal that lives in Africa, south of the great desert. It sleeps by day.

== Diet ==
The aardvark eats ants and termites, which it digs out of their mounds with sharp claws. It drinks little water.
"""
NO_LEAD = "The azimuth is an angle on the horizon, measured from the north by an observer. Sailors use it."
NO_INTRODUCTION = """== Hue ==
Azure is the colour of a clear sky at noon, between blue and cyan, and is known from heraldry.
"""


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    texts = [f"{lead} {description}" for lead, description in LEADS.values()] + [PAGE, NO_LEAD, NO_INTRODUCTION]
    return train_wordpiece(texts * 2, size=300)


@pytest.fixture(scope="session")
def leads() -> dict[str, tuple[str, str]]:
    """Title → (lead, description) of the articles in ``corpus`` that have a lead."""
    return LEADS


@pytest.fixture(scope="session")
def azimuth() -> str:
    """The only passage of the article Azimuth, the one without a lead."""
    return NO_LEAD


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """13 leads, a page for one of them (Aardvark), a page without a lead (Azimuth), one without an intro (Azure)."""
    pages = {"Aardvark": PAGE, "Azimuth": NO_LEAD, "Azure": NO_INTRODUCTION}
    return corpus_of(tmp_path_factory.mktemp("corpus"), pages, LEADS)


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages that link to leads: :mod:`linked_corpus`."""
    return write_corpus(tmp_path_factory.mktemp("linked"))


@pytest.fixture
def squad_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a SQuAD file: ``squad_file("train", {title: {context: [(id, question, answer), …]}})``."""

    def write(name: str, articles: dict[str, dict[str, list[tuple[str, str, str]]]]) -> Path:
        data = [
            {
                "title": title,
                "paragraphs": [
                    {
                        "context": context,
                        "qas": [
                            {"id": key, "question": text, "answers": [{"text": a, "answer_start": context.index(a)}]}
                            for key, text, a in questions
                        ],
                    }
                    for context, questions in paragraphs.items()
                ],
            }
            for title, paragraphs in articles.items()
        ]
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"version": "1.1", "data": data}))
        return path

    return write
