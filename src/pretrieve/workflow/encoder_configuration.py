"""The encoders of a configuration, checked before any job starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, check_names, nearest
from pretrieve.models.published_configs import BERT_SIZES
from pretrieve.pretraining.objectives import PAIR_TASKS
from pretrieve.pretraining.presets import OPTIONS
from pretrieve.raw.hub import place_of
from pretrieve.raw.json_file import read_json
from pretrieve.workflow.job_options import check_snapshots, encoder_options, from_outside, objective_options
from pretrieve.workflow.scales import chosen_scale

#: Objectives that are named by a word; a list of pair tasks is the objective ``pairs``.
OBJECTIVES = tuple(name for name in OPTIONS if name != "pairs")


def refuse_objective(key: str, value: object) -> ConfigError:
    """What to say of an objective that there is not, with those that there are."""
    words, known = value if isinstance(value, list) else [value], [*OBJECTIVES, *PAIR_TASKS]
    hint = nearest(next((word for word in words if word not in known), ""), known)
    allowed = f"{', '.join(OBJECTIVES)}, or a list of {', '.join(PAIR_TASKS)}"
    return ConfigError(f"config: {key}: {value!r} is not allowed; allowed: {allowed}{hint}")


def check_encoder(name: str, encoder: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raise ConfigError for what is wrong with an encoder by itself, with its scale, or with its start."""
    where, objective = f"config: encoders.{name}", encoder["objective"]
    if name == "bm25":
        raise ConfigError(f"{where}: rows of this name are BM25's; expected another name")
    check_snapshots(name, encoder, config["encoders"])
    contrastive = not isinstance(objective, str)
    scale = chosen_scale(config)
    if encoder["body"] == "t5":
        if "start" not in encoder:
            check_names(f"encoders.{name}.layers", [encoder.get("layers")], scale.get("t5", {}))
    else:
        check_names(f"encoders.{name}.layers", [encoder.get("layers", "deep")], scale["layers"])
    if not set(objective) <= set(PAIR_TASKS) if contrastive else objective not in OBJECTIVES:
        raise refuse_objective(f"encoders.{name}.objective", objective)
    if "." in name or (encoder["body"] == "transformer" and "layers" not in encoder and "start" not in encoder):
        raise ConfigError(
            f"{where}: a transformer needs layers (deep, shallow) or a start with them; names must have no dot"
        )
    if contrastive != ("dim" in encoder):
        raise ConfigError(f"{where}.dim: required for pair objectives, not allowed for others")
    _check_sizes(name, encoder, config)
    if encoder["body"] != "transformer" and not contrastive and objective != "none":
        raise ConfigError(
            f"{where}.objective: {objective} predicts words of a transformer, and body is {encoder['body']}"
        )
    budgets = scale["pretraining"]["budgets"]
    if objective == "none":
        if "budget" in encoder:
            raise ConfigError(f"{where}.budget: objective none trains nothing and has no budget")
    else:
        check_names(f"encoders.{name}.budget", [encoder.get("budget")], budgets)
        if contrastive and "epochs" in budgets[encoder["budget"]]:
            raise ConfigError(
                f"{where}.budget: {encoder['budget']} has epochs, but pairs are drawn without end; expected a budget with steps"
            )
    outside = _check_start(name, config["encoders"], scale)
    try:
        made = encoder_options(config, name)
    except ConfigError as error:
        raise error if str(error).startswith("config: ") else ConfigError(f"{where}: {error}") from None
    # A start from outside has a shape of its own.
    if contrastive and outside is None and made.head == "none" and made.dim != made.body["hidden"]:
        raise ConfigError(
            f"{where}.dim: {encoder['dim']} is {made.dim}, but with head none a vector is the body's {made.body['hidden']} "
            "numbers; expected as many, or another head"
        )


def _check_sizes(name: str, encoder: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """That texts fit into the body, and its layers are as many as the objective reads."""
    where, objective, scale = f"config: encoders.{name}", encoder["objective"], chosen_scale(config)
    room, of_scale = scale["body"]["max_positions"], f"scales.{config['scale']}"
    contrastive = not isinstance(objective, str)
    options = {} if contrastive else objective_options(config, name)
    if (span := options.get("span_length", 0)) > room:
        raise ConfigError(
            f"{where}: span_length of {objective} is {span}, but {of_scale}.body.max_positions is {room}; expected at most "
            f"{room}: set {of_scale}.pretraining.options.{objective}.span_length"
        )
    deep = encoder["body"] == "transformer" and "layers" in encoder
    if deep and (skip := options.get("skip_layer", 0)) >= (count := scale["layers"][encoder["layers"]]):
        raise ConfigError(
            f"{where}: skip_layer of {objective} is {skip}, but {of_scale}.layers.{encoder['layers']} is {count}; expected less "
            f"than {count}: set {of_scale}.pretraining.options.{objective}.skip_layer, or the encoder's own"
        )
    if "length" in encoder and (contrastive or objective in ("none", "cocondenser") or encoder["length"] > room):
        raise ConfigError(
            f"{where}.length: {encoder['length']}; for single-text objectives only, at most body.max_positions={room}"
            f"{'; cocondenser has its option span_length' if objective == 'cocondenser' else ''}"
        )


def _check_start(name: str, encoders: Mapping[str, Any], scale: Mapping[str, Any]) -> str | None:
    """That an encoder's starts are there, end, and have its shape and the layers that are asked for. Returns the one from
    outside, where there is one."""
    encoder, seen, start = encoders[name], [name], encoders[name].get("start")
    while start is not None and not from_outside(start):
        check_names(f"encoders.{seen[-1]}.start", [start], [*encoders, "hub:OWNER/NAME", "package:NAME", "dir:PATH"])
        where = f"config: encoders.{name}"
        if start in seen:
            raise ConfigError(f"{where}.start: {' → '.join([*seen, start])} is a cycle; one of them must have no start")
        for key in ("body", "layers"):
            if (theirs := encoders[start].get(key)) != encoder.get(key):
                raise ConfigError(f"{where}.{key}: {encoder.get(key)!r}, but its start {start!r} has {theirs!r}")
        seen.append(start)
        start = encoders[start].get("start")
    if not any("layers_of_start" in encoders[one] for one in seen):
        return start
    layers = scale["layers"].get(encoder.get("layers")) if start is None else _layers_of(start)
    for one in reversed(seen if start else seen[:-1]):
        every = encoders[one].get("layers_of_start", 1)
        if layers is not None and layers < every:
            raise ConfigError(
                f"config: encoders.{one}.layers_of_start: {every}, but its start has {layers} layers; expected at most {layers}"
            )
        layers = layers and layers // every
    return start


def _layers_of(start: str) -> int | None:
    """The layers of a published checkpoint; None where its ``config.json`` is still to be fetched, or does not say."""
    try:
        file = Path(place_of(start)) / "config.json"
    except ConfigError:
        return None  # a name that is none is refused with its key where starts are looked for
    shown = read_json(file, "the settings of a model of transformers") if file.is_file() else {}
    layers = shown.get(BERT_SIZES["layers"]) if isinstance(shown, Mapping) else None
    return layers if isinstance(layers, int) else None
