"""The recipes of a configuration, checked before any job starts: each alone, and with those that it starts from, mines from or
is taught by."""

from collections.abc import Mapping
from typing import Any

from pretrieve.base.errors import ConfigError, check_names, nearest
from pretrieve.finetuning.recipe_checks import check_together
from pretrieve.finetuning.recipe_parts import NO_LIMIT
from pretrieve.finetuning.recipes import RECIPES, RETRIEVAL_KINDS, VARIANTS, resolve_recipe
from pretrieve.finetuning.trainers import trainer_of
from pretrieve.workflow.job_options import chain_of, recipe_kind
from pretrieve.workflow.scales import chosen_scale

#: What a retriever that another recipe starts from is compared in, by its parts (None: a dense one).
_SHAPE = {
    None: ("head", "pooling", "dim"),
    "cls": ("parts", "cls_dim", "zeroed"),
    "ot": ("parts", "top", "activation", "sep", "lexical_head", "zeroed"),
    "both": ("parts", "cls_dim", "top", "activation", "sep", "lexical_head", "zeroed"),
}
#: Tokens that a query and a candidate need: [CLS], a title that takes half, [SEP], a token of the text, [SEP].
LEAST_TOKENS = {"query_length": 3, "passage_length": 7}
_ONE_TOWER = {"sharing": "sde", "representation": "dense"}
#: Trainer, or kind of a recipe for examples → options that it ignores, or admits one value of.
_FIXED: dict[str, dict[str, Any]] = {
    "distillation": {"refresh": 0, "windows": 1, "curve": 0},
    "cross-encoder": {
        "start": "encoder",
        "loss": "softmax",
        "direction": "one",
        "in_batch": False,
        "refresh": 0,
        "windows": 1,
        "curve": 0,
        "snapshots": 0,
        "few_epochs": [],
    },
    "classification": {"start": "encoder"},
    "regression": _ONE_TOWER,
    "triplet": _ONE_TOWER,
}
#: Options with another value of which a job would end with an error; the others are ignored.
_REFUSED = {"few_epochs", "sharing", "representation", "pooling", "similarity"}


def check_recipes(config: Mapping[str, Any]) -> None:
    """Check every recipe's options, and that its start, its teacher and the recipe of its negatives exist and come before it."""
    where, recipes = f"scales.{config['scale']}.finetuning", config["recipes"]
    for base, options in chosen_scale(config)["finetuning"].items():
        if base != "all":
            check_names(where, [base], RECIPES)
        known = {key for recipe in (RECIPES.values() if base == "all" else [RECIPES[base]]) for key in recipe}
        if unknown := sorted(set(options) - known):
            raise ConfigError(
                f"config: {where}.{base}.{unknown[0]}: unknown option; it has {', '.join(sorted(known))}"
                f"{nearest(unknown[0], known)}"
            )
    # What is wrong without a variant is not to be said of one.
    variants = [None, *sorted({dataset["variant"] for dataset in config["datasets"].values() if "variant" in dataset})]
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
            _check_fixed(config, name, variant, options)
            _check_kinds(config, name, options)
            _check_schedule(config, name, variant, options)
            _check_shape(config, name, variant, options)
            _check_lengths(config, name, variant, options)
            _check_pools(config, name, variant, options)


def _resolved(config: Mapping[str, Any], recipe: str, variant: str | None) -> dict[str, Any]:
    return resolve_recipe(recipe, config["recipes"][recipe], chosen_scale(config)["finetuning"], variant)


def _check_kinds(config: Mapping[str, Any], recipe: str, options: Mapping[str, Any]) -> None:
    """A recipe's start has to be of its own kind, its teacher a cross-encoder, and what mines its negatives a retriever."""
    mined = [source.removeprefix("mined:") for source in options.get("negatives", []) if source.startswith("mined:")]
    others = [("start", options.get("start"), options["kind"]), ("teacher", options.get("teacher"), "cross-encoder")]
    for key, other, kind in [*others, *(("negatives", name, "ranking") for name in mined)]:
        if other in config["recipes"] and (found := recipe_kind(config, other)) != kind:
            raise ConfigError(
                f"config: {_key(config, recipe, key)}: {other!r} trains a model of kind {found}; expected a recipe of "
                f"kind {kind}"
            )


def _check_fixed(config: Mapping[str, Any], recipe: str, variant: str | None, options: Mapping[str, Any]) -> None:
    """Refuse options that the recipe's training would ignore or end with an error. What ``all`` of a scale sets may be ignored,
    as it is for other recipes too."""
    of_scale = f"scales.{config['scale']}.finetuning"
    trainer = trainer_of(options) if options["kind"] in RETRIEVAL_KINDS else options["kind"]
    fixed = {f"training of kind {trainer}": _FIXED.get(trainer, {})}
    if options.get("representation") == "joint" and "parts" in options:
        fixed["a joint representation"] = {"pooling": "cls", "similarity": "dot", "dim": "hidden"}
    elif "representation" in options and "parts" not in options:
        fixed[f"recipe {recipe!r}, which has no parts"] = {"representation": "dense"}
    if options.get("loss", "hinge") != "hinge":
        fixed[f"loss: {options['loss']}"] = {"margin": 1.0}
    for what, values in fixed.items():
        for key, only in values.items():
            where, base = _origin(config, recipe, variant, key), config["recipes"][recipe].get("recipe", recipe)
            of_all = where == f"{of_scale}.all.{key}"
            if options[key] != only and (key in _REFUSED or not of_all):
                expected = f"set {of_scale}.{base}.{key}: {only}" if of_all else f"expected {only!r}"
                raise ConfigError(f"config: {where}: {options[key]!r} does not go with {what}; {expected}")


def _check_schedule(config: Mapping[str, Any], recipe: str, variant: str | None, options: Mapping[str, Any]) -> None:
    steps, end = options["steps"], options["schedule_steps"]
    if 0 < end < steps:
        raise ConfigError(
            f"config: {_origin(config, recipe, variant, 'schedule_steps')}: {end}, but steps is "
            f"{'without a limit' if steps == NO_LIMIT else steps}; expected fewer steps, or schedule_steps: 0"
        )


def _check_shape(config: Mapping[str, Any], recipe: str, variant: str | None, asked: Mapping[str, Any]) -> None:
    """A retriever keeps its shape when another recipe starts from it; this is checked now and not after hours of training."""
    start = asked.get("start", "encoder")
    if start == "encoder":
        return
    has, dims = _resolved(config, start, variant), chosen_scale(config)["dims"]
    parts = asked.get("parts") if asked.get("representation") == "joint" else None
    for key in ("sharing", "representation", "similarity", *_SHAPE[parts]):
        mine, theirs = (dims.get(one[key], one[key]) if key == "dim" else one.get(key) for one in (asked, has))
        # Known of each encoder alone: how many numbers the body's states have, and which head it was pre-trained with.
        unknown = {"dim": "hidden", "lexical_head": ""}.get(key)
        if mine != theirs and (unknown is None or unknown not in (mine, theirs)):
            where = f" (data sets of variant {variant})" if variant else ""
            raise ConfigError(
                f"config: {_key(config, recipe, key)}: {mine!r}{where}, but its start {start!r} has {theirs!r}; a "
                "retriever keeps its shape: give both the same value, or set start: encoder"
            )


def _key(config: Mapping[str, Any], recipe: str, option: str) -> str:
    """The key to change where a recipe does not go with another."""
    return _of_user(config, recipe, option) or f"recipes.{recipe}.options.{option}"


def _of_user(config: Mapping[str, Any], recipe: str, option: str) -> str:
    """The key of ``my_corpus_options`` that an option was made of; '' where it was not, as in all other runs."""
    if "my_corpus_found" not in config:
        return ""
    part = "reranker" if recipe_kind(config, recipe) == "cross-encoder" else "finetuning"
    given, own = config["my_corpus_options"][part], config["recipes"][recipe].get("options", {})
    return f"my_corpus_options.{part}.{option}" if option in given and own.get(option) == given[option] else ""


def _origin(config: Mapping[str, Any], recipe: str, variant: str | None, option: str) -> str:
    """The key of the configuration that an option of a recipe comes from."""
    entry, scale = config["recipes"][recipe], chosen_scale(config)["finetuning"]
    base, where = entry.get("recipe", recipe), f"scales.{config['scale']}.finetuning"
    if key := _of_user(config, recipe, option):
        return key
    if option in entry.get("options", {}):
        return f"recipes.{recipe}.options.{option}"
    for name in (base, "all"):
        if option in scale.get(name, {}):
            return f"{where}.{name}.{option}"
    of = f"variant {variant}" if option in VARIANTS.get(variant or "", {}).get(base, {}) else "the recipe's preset"
    return f"{where}.{base}.{option} (from {of})"


def _check_lengths(config: Mapping[str, Any], recipe: str, variant: str | None, options: Mapping[str, Any]) -> None:
    """No text may be longer than what a body reads, nor so short that only a title is left; this is checked now and not in the
    first batch."""
    room = chosen_scale(config)["body"]["max_positions"]
    for key, low in LEAST_TOKENS.items():
        if options.get(key, 0) > room:
            raise ConfigError(
                f"config: {_origin(config, recipe, variant, key)}: {options[key]} tokens, but scales.{config['scale']}"
                f".body.max_positions is {room}; expected at most {room}: set a shorter length, or more positions"
            )
        if options["kind"] in RETRIEVAL_KINDS and options[key] < low:
            raise ConfigError(
                f"config: {_origin(config, recipe, variant, key)}: {options[key]} tokens; expected {low} or more, [CLS] and "
                "[SEP] included"
            )


def _check_pools(config: Mapping[str, Any], recipe: str, variant: str | None, options: Mapping[str, Any]) -> None:
    """Negatives have a place in the groups, and each comes once. Their lists have ``mining_depth`` documents, and no recipe may
    ask for more."""
    sources, places = options.get("negatives", []), options.get("group", 1) - 1
    if not options["steps"]:
        return
    if sources and not places and "negatives" in config["recipes"][recipe].get("options", {}):
        raise ConfigError(
            f"config: {_origin(config, recipe, variant, 'negatives')}: {sources}, but group is 1, a place for the relevant "
            "document alone; set group: 2 or more"
        )
    if "pool" in options and options["pool"] * max(1, len(sources) if options["sources"] == "union" else 1) < places:
        of = "of each list" if sources else "at random, as negatives is []"
        raise ConfigError(
            f"config: {_origin(config, recipe, variant, 'pool')}: {options['pool']} for a query, {of}, but a group has {places} "
            "negatives, so one would come twice; expected a larger pool, or a smaller group"
        )
    if not sources or not places:
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
