"""The recipes of a configuration, checked before any job starts: each alone, and with those that it starts from, mines from or
is taught by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretrieve.base.errors import ConfigError, check_names, nearest
from pretrieve.finetuning.recipe_checks import check_together
from pretrieve.finetuning.recipes import RECIPES, VARIANTS, resolve_recipe
from pretrieve.workflow.job_options import chain_of


def check_recipes(config: Mapping[str, Any]) -> None:
    """Check every recipe's options, and that its start, its teacher and the recipe of its negatives exist and come before it."""
    where, recipes = f"scales.{config['scale']}.finetuning", config["recipes"]
    for base, options in config["scales"][config["scale"]]["finetuning"].items():
        if base != "all":
            check_names(where, [base], RECIPES)
        known = {key for recipe in (RECIPES.values() if base == "all" else [RECIPES[base]]) for key in recipe}
        if unknown := sorted(set(options) - known):
            raise ConfigError(
                f"config: {where}.{base}.{unknown[0]}: unknown option; it has {', '.join(sorted(known))}"
                f"{nearest(unknown[0], known)}"
            )
    variants = {dataset.get("variant") for dataset in config["datasets"].values()} | {None}
    for name in recipes:
        for variant in variants:
            options, seen = _resolved(config, name, variant), [name]
            waiting = chain_of(options)
            while waiting:
                step = waiting.pop()
                check_names(f"recipes.{name}.options (start, negatives, teacher)", [step], recipes)
                if step == name:
                    raise ConfigError(
                        f"config: recipes.{name}: depends on itself{' through ' if seen[1:] else ''}{', '.join(seen[1:])}."
                    )
                if step not in seen:
                    seen.append(step)
                    waiting += chain_of(_resolved(config, step, variant))
            check_together(recipes[name].get("recipe", name), options, f"recipes.{name}.options")
            _check_shape(config, name, variant, options)
            _check_lengths(config, name, variant, options)
            _check_pools(config, name, variant, options)


def _resolved(config: Mapping[str, Any], recipe: str, variant: str | None) -> dict[str, Any]:
    return resolve_recipe(recipe, config["recipes"][recipe], config["scales"][config["scale"]]["finetuning"], variant)


def _check_shape(config: Mapping[str, Any], recipe: str, variant: str | None, asked: Mapping[str, Any]) -> None:
    """A retriever keeps its shape when another recipe starts from it; this is checked now and not after hours of training."""
    start = asked.get("start", "encoder")
    if start == "encoder":
        return
    has = _resolved(config, start, variant)
    for key in ("sharing", "representation", "similarity"):
        if asked.get(key) != has.get(key):
            where = f" (data sets of variant {variant})" if variant else ""
            raise ConfigError(
                f"config: recipes.{recipe}.options.{key}: {asked.get(key)!r}{where}, but its start {start!r} has "
                f"{has.get(key)!r}; a retriever keeps its shape: give both the same value, or set start: encoder"
            )


def _origin(config: Mapping[str, Any], recipe: str, variant: str | None, option: str) -> str:
    """The key of the configuration that an option of a recipe comes from."""
    entry, scale = config["recipes"][recipe], config["scales"][config["scale"]]["finetuning"]
    base, where = entry.get("recipe", recipe), f"scales.{config['scale']}.finetuning"
    if option in entry.get("options", {}):
        return f"recipes.{recipe}.options.{option}"
    for name in (base, "all"):
        if option in scale.get(name, {}):
            return f"{where}.{name}.{option}"
    of = f"variant {variant}" if option in VARIANTS.get(variant or "", {}).get(base, {}) else "the recipe's preset"
    return f"{where}.{base}.{option} (from {of})"


def _check_lengths(config: Mapping[str, Any], recipe: str, variant: str | None, options: Mapping[str, Any]) -> None:
    """No text may be longer than what a body reads; this is checked now and not in the first long batch."""
    room = config["scales"][config["scale"]]["body"]["max_positions"]
    for key in ("query_length", "passage_length"):
        if options.get(key, 0) > room:
            raise ConfigError(
                f"config: {_origin(config, recipe, variant, key)}: {options[key]} tokens, but scales.{config['scale']}"
                f".body.max_positions is {room}; expected at most {room}: set a shorter length, or more positions"
            )


def _check_pools(config: Mapping[str, Any], recipe: str, variant: str | None, options: Mapping[str, Any]) -> None:
    """Lists of negatives have ``mining_depth`` documents, and no recipe may ask for more."""
    sources = options.get("negatives", [])
    if not sources or options["group"] < 2:
        return
    depths = options["pool_from"]
    if isinstance(depths, list) and len(depths) != len(sources):
        raise ConfigError(
            f"config: {_origin(config, recipe, variant, 'pool_from')}: {depths} has {len(depths)} entries, but negatives "
            f"has {len(sources)}; expected one for each list, or a single one"
        )
    for depth in depths if isinstance(depths, list) else [depths]:
        key, needed = ("pool_from", depth) if isinstance(depth, int) else ("pool", options["pool"])
        if needed > config["mining_depth"]:
            raise ConfigError(
                f"config: {_origin(config, recipe, variant, key)}: {needed} documents of each list of negatives, but "
                f"mining_depth is {config['mining_depth']}; expected at most that many: lower it, or raise mining_depth"
            )
