"""The configuration, checked before any job starts.

A mistake ends with one line that names the key, the value, what is allowed and, where a name is nearly right, the name that
was probably meant. What single jobs get of it: :mod:`pretrieve.workflow.job_options`.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import yaml
from jsonschema.exceptions import ValidationError, best_match

from pretrieve.analysis.plan import check_analyses
from pretrieve.base.code_folder import package_file
from pretrieve.base.errors import ConfigError, check_names, nearest, not_allowed
from pretrieve.benchmarks.readers import COLLECTION, READERS, check_dataset, task_reader
from pretrieve.finetuning.recipe_parts import NO_LIMIT
from pretrieve.finetuning.recipes import VARIANTS
from pretrieve.pretraining.presets import OPTIONS
from pretrieve.references.yaml_files import Loader
from pretrieve.workflow.config_checks import Validator, check_numbers, check_paths, check_search
from pretrieve.workflow.encoder_configuration import check_encoder, refuse_objective
from pretrieve.workflow.job_options import EXAMPLE_READERS, without_snapshots
from pretrieve.workflow.recipe_configuration import check_recipes
from pretrieve.workflow.scales import check_scale, chosen_scale, datasets_behind, means_of

#: The largest share of a pool that its training part can give (README of resources/questions; benchmarks/made/descriptions.py).
MAX_TRAIN_SHARE = 0.805

#: Kind of a task of examples → its metrics: those of :mod:`pretrieve.evaluation.example_metrics`, which loads scipy.
METRICS = {
    "regression": ("spearman",),
    "triplet": ("accuracy",),
    "classification": ("accuracy",),
    "clicks": ("auc", "mrr", "ndcg@5", "ndcg@10"),
}
#: Readers with ``open: articles`` and ``open: sentences``.
WHOLE_ARTICLES = tuple(name for name, reader in READERS.items() if reader.answers and "open" in reader.keys)
#: Keys of a data set that only retrieval looks at, and those that only some readers look at.
SEARCH_KEYS = ("bm25", "conventions", "depth", "rerank")
READING_KEYS = sorted({key for reader in (COLLECTION, *READERS.values()) for key in reader.keys})
#: JSON Schema's types in words.
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "keys and values",
    "null": "nothing",
}


def _explain(error: ValidationError) -> ConfigError:
    """What the schema refuses, in the words of a user."""
    path = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        allowed = list(error.schema.get("properties", {}))
        unknown = sorted(set(map(str, error.instance)) - set(allowed))[0]
        key = f"{path}.{unknown}" if path else unknown
        return ConfigError(
            f"config: {key}: unknown key; allowed: {', '.join(sorted(allowed))}{nearest(unknown, allowed)}"
        )
    if error.validator == "required":
        return ConfigError(
            f"config: {path or 'top level'}: {error.message}; found only "
            f"{', '.join(map(str, error.instance)) or 'nothing'}. A key without a value removes the project's own"
        )
    parts = error.context or [error]
    if all(part.validator in ("const", "enum") for part in parts):
        allowed = [word for part in parts for word in (part.schema.get("enum") or [part.schema["const"]])]
        if error.instance is False and "no" in allowed:
            return ConfigError(f'config: {path}: YAML reads the word no as false; expected "no", in quotes')
        return not_allowed(path, error.instance, map(str, allowed))
    if "propertyNames" in error.absolute_schema_path:
        return ConfigError(
            f"config: {path}: the name {error.instance!r} is not allowed: names become parts of paths and commands; allowed are "
            "letters, digits and, after the first, '-', '_' and '.' (sizes: small letters and digits alone)"
        )
    if error.validator == "oneOf":
        return refuse_objective(path, error.instance)
    if error.validator == "type":
        types = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
        expected = " or ".join(_TYPES[name] for name in types)
        if "string" in types and isinstance(error.instance, (int, float)):
            expected += ": write it in quotes, and a path with ./ before it"
        return ConfigError(f"config: {path}: {error.instance!r} is not allowed; expected {expected}")
    return ConfigError(f"config: {path}: {error.instance!r} is not allowed: {error.message}")


@cache
def _rules() -> Validator:
    return Validator(yaml.load(package_file("schemas/config.schema.yaml").read_text(encoding="utf-8"), Loader))


def check_config(config: Mapping[str, Any], table_names: Collection[str]) -> None:
    """Check a configuration: its shape against the schema, and every name in it against what it refers to. Raises ConfigError
    for the first thing that is wrong, in one line."""
    errors = list(_rules().iter_errors(without_snapshots(config)))
    if errors:
        # An unknown key or a missing one explains other errors, so it goes first.
        first = [error for error in errors if error.validator in ("additionalProperties", "required")]
        raise _explain(first[0] if first else best_match(errors))
    check_numbers(config)
    check_names("scale", [config["scale"]], config["scales"])
    if "seeds" not in config and "seeds" not in chosen_scale(config):
        raise ConfigError(f"config: scales.{config['scale']}: no seeds; expected a list such as seeds: [1, 2, 3]")
    check_paths(config)
    check_names("tables", config["tables"], table_names)
    for name in config.get("only", ()):
        encoder, dot, recipe = name.partition(".")
        check_names("only", [encoder], ["bm25", *config["encoders"]])
        if dot:
            check_names("only", [recipe], config["recipes"])
    scale, where = chosen_scale(config), f"scales.{config['scale']}"
    check_names(f"{where}.corpus", [scale["corpus"]], config["corpora"])
    hidden, heads, room = (scale["body"][key] for key in ("hidden", "heads", "max_positions"))
    if hidden % heads:
        raise ConfigError(f"config: {where}.body.heads: {heads} does not divide hidden={hidden}")
    for key in ("query_length", "passage_length"):
        if scale[key] > room:
            raise ConfigError(f"config: {where}.{key}: {scale[key]} is more than body.max_positions={room}")
    _check_means(config)
    for role, name in scale["roles"].items():
        check_names(f"{where}.roles.{role}", [name], [*config["datasets"], *config["corpora"], *means_of(config)])
    originals = scale.get("originals", [])
    check_names(f"{where}.originals", [] if originals == "all" else originals, scale["roles"])
    for name, dataset in config["datasets"].items():
        check_names(f"datasets.{name}.reader", [dataset["reader"]], READERS)
    check_scale(config)
    check_search(config)
    check_names(f"{where}.pretraining.options", sorted(scale["pretraining"]["options"]), OPTIONS)
    budgets = "my_corpus_options" if "my_corpus_found" in config else f"{where}.pretraining"  # the keys of a user
    for name, budget in scale["pretraining"]["budgets"].items():
        here = f"config: {budgets}.budgets.{name}"
        if ("steps" in budget) == ("epochs" in budget):
            raise ConfigError(f"{here}: found {', '.join(budget)}; expected either steps or epochs")
        if not budget.get("heads_steps", 0) < budget.get("steps", NO_LIMIT):
            raise ConfigError(
                f"{here}.heads_steps: {budget['heads_steps']} of {budget['steps']} steps; expected fewer, for the body has to "
                "learn too"
            )
        if "heads_rate" in budget and "heads_steps" not in budget:
            raise ConfigError(
                f"{here}.heads_rate: {budget['heads_rate']} without heads_steps; expected both, or neither"
            )
    for name, encoder in config["encoders"].items():
        check_encoder(name, encoder, config)
    for name, dataset in config["datasets"].items():
        _check_dataset(name, dataset, config["datasets"])
        _check_metrics(name, dataset, config)
    check_recipes(config)
    check_analyses(config)


def _check_means(config: Mapping[str, Any]) -> None:
    """That the parts of every mean exist, and that their scores can be averaged: one system is one retriever on all of them, and
    is measured alike."""
    means = means_of(config)
    for name, parts in means.items():
        where = f"scales.{config['scale']}.means.{name}"
        for section in ("datasets", "corpora"):
            if name in config[section]:
                raise ConfigError(
                    f"config: {where}: {name!r} is in {section} too, so both would write to one path; expected "
                    "another name for the mean"
                )
        others = [part for part in parts if part != name]
        check_names(where, others, [*config["datasets"], *(other for other in means if other != name)])
        waiting, seen = list(parts), set[str]()
        while waiting:
            part = waiting.pop()
            if part == name:
                raise ConfigError(f"config: {where}: {name!r} is a part of itself; expected data sets or other means")
            if part not in seen:
                seen.add(part)
                waiting += means.get(part, ())
    for name in means:
        _check_parts(f"scales.{config['scale']}.means.{name}", datasets_behind(config, name), config)


def _check_parts(where: str, parts: tuple[str, ...], config: Mapping[str, Any]) -> None:
    """That data sets are ranked, and have in common what a mean of their scores needs."""
    first: dict[str, Any] = {}
    for part in parts:
        own = config["datasets"][part]
        if own["reader"] in EXAMPLE_READERS:
            raise ConfigError(
                f"config: {where}: {part!r} has the reader {own['reader']!r}, whose examples are not ranked; expected data sets "
                "with queries and documents"
            )
        shared = {
            "metrics": sorted(own.get("metrics", config["metrics"])),
            "sizes": sorted(own["sizes"]),
            "trained_on": own.get("trained_on", part),
            "conventions": sorted(own.get("conventions", ())),
        }
        for key, value in shared.items():
            if value != first.setdefault(key, value):
                raise ConfigError(
                    f"config: {where}: {part!r} has {key} {value!r}, {parts[0]!r} has {first[key]!r}; expected the same for all "
                    "parts of a mean"
                )


def _check_dataset(name: str, dataset: Mapping[str, Any], datasets: Mapping[str, Any]) -> None:
    try:
        check_dataset(dataset)
    except ConfigError as error:
        raise ConfigError(f"config: datasets.{name}: {error}") from None
    if (open_to := dataset.get("open")) in ("articles", "sentences") and dataset["reader"] not in WHOLE_ARTICLES:
        raise ConfigError(
            f"config: datasets.{name}.open: {open_to!r}, but the reader {dataset['reader']!r} has no articles with questions; "
            f"expected one of {', '.join(WHOLE_ARTICLES)}, or open: true"
        )
    taken = (*task_reader(dataset["reader"]).keys, *(() if dataset["reader"] in EXAMPLE_READERS else SEARCH_KEYS))
    for key in (*READING_KEYS, *SEARCH_KEYS):
        if key in dataset and key not in taken:
            raise ConfigError(
                f"config: datasets.{name}.{key}: the reader {dataset['reader']!r} would ignore {dataset[key]!r}; of such keys it "
                f"takes {', '.join(taken) or 'none'}: remove {key}"
            )
    trained_on = dataset.get("trained_on")
    if trained_on is not None:
        check_names(f"datasets.{name}.trained_on", [trained_on], datasets)
        check_names(f"datasets.{name}.sizes", dataset["sizes"], datasets[trained_on]["sizes"])
    check_names(f"datasets.{name}.valid_share", dataset.get("valid_share", ()), dataset["sizes"])
    if "variant" in dataset:
        check_names(f"datasets.{name}.variant", [dataset["variant"]], VARIANTS)
    for size, share in dataset["sizes"].items():
        if trained_on is None and isinstance(share, float) and MAX_TRAIN_SHARE < share < 1:
            raise ConfigError(
                f"config: datasets.{name}.sizes.{size}: {share} is an impossible split: the training part of the pool "
                f"holds {MAX_TRAIN_SHARE:.1%} of the questions; allowed: above 0, at most {MAX_TRAIN_SHARE}"
            )


def _check_metrics(name: str, dataset: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Each metric is one of the data set's kind, and looks no further than the hits that are kept of a query: recall@1000 of
    100 hits would be recall@100. A hit that is the query itself is dropped before the cut, so one more has to be kept."""
    depth, kind = dataset.get("depth", 100), EXAMPLE_READERS.get(dataset["reader"])
    dropped = int("drop-identical-ids" in dataset.get("conventions", ()))
    for metric in dataset.get("metrics", config["metrics"]):
        if kind:
            check_names(f"datasets.{name}.metrics", [metric], METRICS[kind])
        elif metric in ("accuracy", "spearman", "auc") or (
            metric.startswith("hits@") and not READERS[dataset["reader"]].answers
        ):
            what = "questions with answers to match" if metric.startswith("hits@") else "examples that are not ranked"
            raise ConfigError(
                f"config: datasets.{name}.metrics: {metric!r} needs {what}, which the reader {dataset['reader']!r} does not "
                "make; expected metrics of rankings, such as recall@10, mrr@10 and ndcg@10"
            )
        elif (cut := int(metric.partition("@")[2].partition("-")[0] or 0)) and cut + dropped > depth:
            raise ConfigError(
                f"config: datasets.{name}.depth: {depth} hits of a query are kept, too few for the metric {metric!r}; expected "
                f"at least {cut + dropped}: raise depth, or take the metric out of metrics"
            )


def config_hash(config: Mapping[str, Any]) -> str:
    """A short hash of the configuration, for manifests; where files come from, what data sets are called, which tables, rows,
    figures and analyses are asked for and how often training saves is no part of it."""
    practical = {"mirror", "seeds_per_job", "checkpoint_seconds", "descriptions", "my_corpus", "my_corpus_options"}
    practical |= {"tables", "only", "figures", "analyses"}
    science = {key: value for key, value in config.items() if key not in practical}
    scales = config["scales"].items()
    science["scales"] = {name: {key: scale[key] for key in scale if key != "figures"} for name, scale in scales}
    return hashlib.sha256(json.dumps(science, sort_keys=True).encode()).hexdigest()[:16]
