"""Regular expressions of wildcards. They are short, for Snakemake compiles them for every output of every rule."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache


def alternation(names: Iterable[str]) -> str:
    """A regular expression that matches exactly these names."""
    unique = sorted(set(names), key=lambda name: (-len(name), name))
    return "|".join(re.escape(name) for name in unique) or "$^"


@cache
def family_pattern(families: frozenset[str], sizes: str) -> str:
    """A regular expression that matches exactly these families in front of ``-SIZE/``, where ``sizes`` matches a SIZE: where most
    families are meant, the others are excluded."""
    encoders, recipes = ({name.split(".", 1)[place] for name in families} for place in (0, 1))
    others = {f"{encoder}.{recipe}" for encoder in encoders for recipe in recipes} - families
    exact = _by_recipe(families)
    if not others:
        return exact
    most = rf"(?!(?:{_by_recipe(others)})-(?:{sizes})/)(?:{alternation(encoders)})\.(?:{alternation(recipes)})"
    return min(exact, most, key=len)


def _by_recipe(families: Iterable[str]) -> str:
    """``(?:encoders)\\.(?:recipes)`` for each set of recipes that the same encoders have."""
    encoders: dict[str, set[str]] = {}
    for family in families:
        encoder, _, recipe = family.partition(".")
        encoders.setdefault(recipe, set()).add(encoder)
    recipes: dict[frozenset[str], list[str]] = {}
    for recipe, names in encoders.items():
        recipes.setdefault(frozenset(names), []).append(recipe)
    parts = [rf"(?:{alternation(names)})\.(?:{alternation(some)})" for names, some in recipes.items()]
    return "|".join(sorted(parts)) or "$^"
