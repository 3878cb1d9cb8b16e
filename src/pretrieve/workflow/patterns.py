"""Regular expressions of wildcards. They are short, for Snakemake compiles them for every output of every rule."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

#: A pattern of more names is written as a tree: it is compiled for every output of a rule.
MANY = 50


def alternation(names: Iterable[str]) -> str:
    """A regular expression that matches exactly these names; of many, common beginnings stand in it once."""
    unique = sorted(set(names), key=lambda name: (-len(name), name))
    return (_tree(unique) if len(unique) > MANY else "|".join(map(_literal, unique))) or "$^"


def _literal(name: str) -> str:
    """Hyphens mean nothing outside of ``[…]`` and stay as they are: escaped ones take Python a fifth longer."""
    return re.escape(name).replace(r"\-", "-")


def _tree(names: Iterable[str]) -> str:
    branches: dict[str, list[str]] = {}
    for name in names:
        branches.setdefault(name[:1], []).append(name)
    parts = []
    for first in sorted(branches, reverse=True):  # the end of a name is its last choice
        same = branches[first]
        parts.append(f"{_literal(first)}(?:{_tree(name[1:] for name in same)})" if same[1:] else _literal(same[0]))
    return "|".join(parts)


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
