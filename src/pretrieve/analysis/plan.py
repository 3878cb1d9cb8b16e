"""Which analyses the configuration asks for, of which models; asked by the workflow, so there is no torch here.

``config.yaml``'s ``analyses`` has one entry for each scale, because lengths are a scale's. An analysis names
encoders; each is looked at with every seed, and where ``finetuned`` stands also after fine-tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pretrieve.base import paths
from pretrieve.base.errors import ConfigError, nearest

#: Analysis → what of its options is a length or a list of them.
LENGTHS = {"attention_entropy": "length", "pair_similarity": "lengths", "decoder_states": "length"}
#: Options that name models; the rest goes to the program as it is.
MODELS = ("encoders", "finetuned")
#: Objectives whose encoders keep a decoder that reads [CLS] alone.
WITH_DECODER = ("seed-encoder", "optimus")
#: Objectives that predict words with the help of [CLS] → the loss term that does.
CLS_TERM = {
    "condenser": "head",
    "retromae": "decoder",
    "dupmae": "decoder",
    "seed-encoder": "decoder",
    "optimus": "decoder",
}
#: The stage of an encoder that is not fine-tuned.
PRETRAINED = "pretrained"


class Model(NamedTuple):
    """An encoder (stage ``pretrained``) or retriever (stage ``{recipe}-{size}``) and where it is."""

    encoder: str
    seed: int
    stage: str
    directory: str


def analyses(config: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Analysis → its options, at the configured scale; {} when the scale has none."""
    return config.get("analyses", {}).get(config["scale"], {})


def program_options(config: Mapping[str, Any], analysis: str) -> dict[str, Any]:
    """What the program is told beside the models: numbers of texts, lengths, the seed of the texts."""
    return {key: value for key, value in analyses(config)[analysis].items() if key not in MODELS}


def models(config: Mapping[str, Any], analysis: str, root: str) -> list[Model]:
    """The models that an analysis looks at: encoder by encoder, seed by seed, before and after fine-tuning."""
    entry, found = analyses(config)[analysis], []
    for encoder in entry["encoders"]:
        for seed in config["seeds"]:
            found.append(Model(encoder, seed, PRETRAINED, paths.encoder_dir(root, encoder, seed)))
            if "finetuned" in entry:
                stage, trained_on = _finetuned(entry["finetuned"], config)
                directory = paths.retriever_dir(root, f"{encoder}.{stage}", trained_on, seed)
                found.append(Model(encoder, seed, stage, directory))
    return found


def _finetuned(entry: Mapping[str, str], config: Mapping[str, Any]) -> tuple[str, str]:
    """(recipe-size, data set that is trained on) of a ``finetuned`` entry."""
    dataset = entry["dataset"]
    return f"{entry['recipe']}-{entry['size']}", config["datasets"][dataset].get("trained_on", dataset)


def check_analyses(config: Mapping[str, Any]) -> None:
    """Check every name and length of ``analyses`` (its shape is the schema's business).

    Raises ConfigError for the first thing that is wrong, in one line.
    """
    for scale in config.get("analyses", {}):
        _known(f"analyses.{scale}", scale, config["scales"])
    for name, entry in analyses(config).items():
        where, scale = f"analyses.{config['scale']}.{name}", config["scales"][config["scale"]]
        room = scale["body"]["max_positions"]
        for encoder in entry["encoders"]:
            _known(f"{where}.encoders", encoder, config["encoders"])
            _check_encoder(name, where, encoder, config["encoders"])
        # cls_use has no length: its texts are as long as in training.
        lengths = entry.get(LENGTHS.get(name, ""), 0)
        longest = max(lengths) if isinstance(lengths, list) else lengths
        if longest > room:
            raise ConfigError(f"config: {where}.{LENGTHS[name]}: {longest} is more than body.max_positions={room}")
        if "finetuned" in entry:
            chosen = entry["finetuned"]
            _known(f"{where}.finetuned.recipe", chosen["recipe"], config["recipes"])
            _known(f"{where}.finetuned.dataset", chosen["dataset"], config["datasets"])
            sizes = config["datasets"][_finetuned(chosen, config)[1]]["sizes"]
            _known(f"{where}.finetuned.size", chosen["size"], sizes)


def _known(key: str, name: object, allowed: Any) -> None:
    if name not in allowed:
        raise ConfigError(
            f"config: {key}: {name!r} is not allowed; allowed: {', '.join(map(str, allowed))}{nearest(name, allowed)}"
        )


def _check_encoder(analysis: str, where: str, name: str, encoders: Mapping[str, Mapping[str, Any]]) -> None:
    if encoders[name]["body"] != "transformer":
        raise ConfigError(f"config: {where}.encoders: {name!r} is a {encoders[name]['body']}; it has no [CLS] state")
    wanted = {"decoder_states": WITH_DECODER, "cls_use": tuple(CLS_TERM)}.get(analysis)
    if wanted and encoders[name]["objective"] not in wanted:
        fitting = [other for other, entry in encoders.items() if entry["objective"] in wanted]
        raise ConfigError(f"config: {where}.encoders: {name!r} has no decoder; these have one: {', '.join(fitting)}")
