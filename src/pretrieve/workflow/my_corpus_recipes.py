"""Your own corpus: the recipe that all rows are fine-tuned by, and those that it is made with.

``my_corpus_options.recipe`` names one; what it starts from, mines negatives with or is taught by comes along. Their options:

* ``my_corpus_options.finetuning`` holds for all that train a retriever, as far as it says what a retriever is, how long and with
  which texts it is trained (:data:`_SHARED`), and so a chain keeps one shape. ``group`` is for recipes with negatives. All other
  options are of the named recipe alone;
* ``my_corpus_options.reranker`` holds for every cross-encoder: a teacher, and the one of the row "BM25, reranked";
* the rest is each recipe's own, but for what is meant for 100,000 steps and millions of documents: :data:`_RUN`, a ``pool`` of
  more than ``mining_depth``, and ``refresh``, which is at most a third of ``steps``.

A joint representation is refused: neither faiss nor sentence-transformers holds one, and the start lacks its word head.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pretrieve.base.errors import ConfigError, check_names, nearest
from pretrieve.base.options import check_options
from pretrieve.finetuning.recipe_checks import check_together
from pretrieve.finetuning.recipe_parts import Model, Run
from pretrieve.finetuning.recipes import KIND_OF, RECIPES, RETRIEVAL_KINDS, resolve_recipe
from pretrieve.workflow.job_options import chain_of

#: Recipes of a run: the start without any training, and a cross-encoder that ranks BM25's hits again.
AS_IS, RERANKER = "as-it-is", "reranker"
#: The recipe whose options a reranker has.
CROSS = "dupmae-teacher"
#: For all recipes: the schedule ends with the training, which is too short for any other warm-up.
_RUN = {"optimiser": "adamw", "warmup": 0.1, "schedule_steps": 0}
_SHARED = {one.name for part in (Model, Run) for one in fields(part)} | {"group", "pool"}
_SHARED -= {"source", "start", "snapshots", "few_epochs"}


def recipes_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The named recipe, first, and all that it is made with, each with the options that it has in this run."""
    name, recipes = config["my_corpus_options"]["recipe"], config["recipes"]
    needed, waiting = dict[str, Any](), [name]
    while waiting:
        step = waiting.pop(0)
        if step not in recipes:
            raise ConfigError(
                f"config: my_corpus_options.finetuning: {step!r}, which {name} starts from or takes negatives of, is not a "
                f"recipe; allowed: {', '.join(recipes)}{nearest(step, recipes)}"
            )
        if step not in needed:
            needed[step] = _entry(config, recipes[step], step, named=step == name)
            waiting += chain_of(resolve_recipe(step, needed[step], {}))
    return needed


def recipes_beside(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those of rows that are not fine-tuned by the named recipe."""
    reranker = {"recipe": CROSS, "options": {"negatives": ["bm25"]}}
    return {RERANKER: _entry(config, reranker, RERANKER, named=False), AS_IS: {}}


def finetuning_of(recipe: Mapping[str, Any], lengths: Mapping[str, int]) -> dict[str, Any]:
    """``finetuning`` of the scale. All rows read as much of a text as the named recipe does; lengths: unless it says so."""
    return {"all": {key: recipe["options"].get(key, value) for key, value in lengths.items()} | _RUN}


def fresh_projection(config: Mapping[str, Any], name: str, recipe: Mapping[str, Any]) -> list[str]:
    """A line where the named recipe puts a layer with random weights behind the start, whose vectors are good without one."""
    if (head := resolve_recipe(name, recipe, {})["head"]) == "none":
        return []
    line = f"recipe {name}: a projection with random weights (head: {head}) is put behind the start"
    other = "; my_corpus_options={finetuning: {head: none, dim: hidden}} leaves it out"
    return [line + other * ("dim" not in config["recipes"][name].get("options", {}))]


def _entry(config: Mapping[str, Any], entry: Mapping[str, Any], name: str, named: bool) -> dict[str, Any]:
    base, options = entry.get("recipe", name), config["my_corpus_options"]
    if KIND_OF[base] not in RETRIEVAL_KINDS:
        return dict(entry)  # is refused with all that the configuration's recipes are checked for
    cross, own = KIND_OF[base] == "cross-encoder", resolve_recipe(name, entry, {})
    given = dict(options["reranker" if cross else "finetuning"])
    if not named and not cross:
        given = {key: value for key, value in given.items() if key in _SHARED}
    if not own["negatives"] and not given.get("negatives"):
        given.pop("group", None)
    given |= entry.get("options", {})
    made = {"pool": min(own["pool"], config["mining_depth"])}
    if own["refresh"]:
        made["refresh"] = min(own["refresh"], max(1, -(-given.get("steps", own["steps"]) // 3)))
    return {**entry, "options": made | given}


def check_recipe(config: Mapping[str, Any]) -> None:
    """By the keys that a user writes: raise ConfigError for a recipe that this run cannot have, an unknown option, a value that
    its recipe does not admit, or options that do not go together. config: with its scale's own recipes."""
    options, recipes = config["my_corpus_options"], config["recipes"]
    name, where = options["recipe"], "config: my_corpus_options.recipe"
    check_names("my_corpus_options.recipe", [name], recipes)
    base = recipes[name].get("recipe", name)
    if base == AS_IS or KIND_OF[base] != "ranking":
        raise ConfigError(f"{where}: {name!r} trains no retriever; expected one that does")
    for part, one in (("finetuning", base), ("reranker", CROSS)):
        check_options(one, RECIPES[one], options[part], f"my_corpus_options.{part}")
    for step, entry in (recipes_of(config) | recipes_beside(config)).items():
        resolved = resolve_recipe(step, entry, {"all": _RUN})
        if resolved.get("representation") == "joint":
            raise ConfigError(
                f"{where}: {step!r} has a joint representation, which retriever/ cannot hold; "
                "set my_corpus_options.finetuning.representation: dense"
            )
        width, dim = options["scale"]["body"]["hidden"], resolved.get("dim")
        other = "" if "dim" in recipes.get(step, {}).get("options", {}) else ", or dim: hidden"
        if resolved.get("head") == "none" and options["scale"]["dims"].get(dim, dim) not in ("hidden", width):
            raise ConfigError(
                f"config: my_corpus_options.finetuning.head: with none a vector is the body's {width} numbers, but {step} has "
                f"dim {dim}; expected another head{other}"
            )
        part = "reranker" if resolved["kind"] == "cross-encoder" else "finetuning"
        check_together(entry.get("recipe", step), resolved, f"my_corpus_options.{part}")
