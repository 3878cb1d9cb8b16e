"""What the configuration says of one encoder or one recipe: the options of the jobs that train it, and what it starts from.

They hold no seed, no label and no table, so that adding one of these trains nothing again. The names in them are checked by
:mod:`pretrieve.workflow.configuration`.
"""

from collections.abc import Mapping
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.readers import READERS
from pretrieve.finetuning.recipes import KIND_OF, RETRIEVAL_KINDS, resolve_recipe
from pretrieve.pretraining.encoder_options import Budget, EncoderOptions
from pretrieve.pretraining.presets import OPTIONS, resolve
from pretrieve.workflow.scales import chosen_scale, corpus_of, vocabulary_of

#: Readers of tasks of examples → the kind of recipe that they are for; all other readers make retrieval tasks.
EXAMPLE_READERS = {name: reader.kind for name, reader in READERS.items() if reader.kind != "ranking"}
#: The source of negatives that a data set's publisher ships.
PUBLISHED = "published"


def encoder_options(config: Mapping[str, Any], encoder: str) -> EncoderOptions:
    """Everything that decides what one encoder is (without the seed), as it follows from preset, scale and encoder."""
    scale, entry = chosen_scale(config), config["encoders"][encoder]
    body = {"kind": entry["body"], "vocabulary_size": vocabulary_of(config, corpus_of(config, encoder)).size}
    if entry["body"] == "transformer":
        body |= scale["body"] | ({"layers": scale["layers"][entry["layers"]]} if "layers" in entry else {})
    elif entry["body"] == "t5":
        shape = scale["t5"][entry["layers"]] if "layers" in entry else {}
        body |= {"max_positions": scale["body"]["max_positions"]} | shape
    else:
        body |= scale["bow_mlp"] | {"heads": 1}
    if "layers_of_start" in entry and entry["body"] != "transformer":
        raise ConfigError(
            f"config: encoders.{encoder}.layers_of_start: the body is a {entry['body']}; expected transformer"
        )
    if "layer_norm_eps" in entry:
        body |= {"layer_norm_eps": entry["layer_norm_eps"]}
    tasks = None if isinstance(entry["objective"], str) else list(entry["objective"])
    objective = {"name": "pairs" if tasks else entry["objective"]} | objective_options(config, encoder)
    if tasks:
        objective |= {"tasks": tasks} | {key: scale[key] for key in ("query_length", "passage_length")}
    elif objective["name"] != "none":
        objective["length"] = entry.get("length", scale["passage_length"])
    return EncoderOptions(
        body=body,
        objective=objective,
        pooling="mean" if entry["body"] == "t5" else scale["pooling"],
        dim=scale["dims"][entry.get("dim", "full")],
        similarity=objective.get("similarity", scale["similarity"]),
        head=objective.get("head", "linear"),
        start=entry.get("start"),
        layers_of_start=entry.get("layers_of_start"),
        budget=Budget(**scale["pretraining"]["budgets"][entry["budget"]]) if "budget" in entry else None,
    )


def objective_options(config: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """The options of an encoder's objective: preset, then the scale's, then the encoder's own."""
    scale, entry = chosen_scale(config), config["encoders"][encoder]
    name = entry["objective"] if isinstance(entry["objective"], str) else "pairs"
    more = dict(scale["pretraining"]["options"].get(name, {}))
    if "examples" in OPTIONS[name] and "examples" in scale["pretraining"]:
        more.setdefault("examples", scale["pretraining"]["examples"])
    if name == "pairs":
        more = {key: scale[key] for key in ("similarity", "temperature")} | more
    return resolve(name, entry.get("preset"), entry.get("options", {}), f"encoders.{encoder}", more)


def from_outside(start: str) -> bool:
    """Whether a ``start`` is a published checkpoint (``hub:``, ``package:``) or a local directory (``dir:PATH``)."""
    return start.startswith(("hub:", "dir:", "package:"))


def started_from(config: Mapping[str, Any], encoder: str) -> str | None:
    """The encoder of this configuration that an encoder starts from, or None."""
    start = config["encoders"][encoder].get("start")
    return None if start is None or from_outside(start) else start


def lineage(config: Mapping[str, Any], encoder: str) -> list[str]:
    """An encoder of the configuration and those that it starts from, one after the other; [] for any other name."""
    found = []
    while encoder in config["encoders"]:
        found.append(encoder)
        encoder = config["encoders"][encoder].get("start")
    return found


# Snapshots: encoders that are intermediate weights of another one's training. ``retromae: {…, snapshots: {at25: 0.25}}`` makes an
# encoder ``retromae-at25`` as well: the weights of the same training after a quarter of its steps, at the learning rate that its
# schedule has there. It is an encoder like any other; the job that trains ``retromae`` writes both (rules/pretrain.smk).


def with_snapshots(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with an entry for each snapshot: that of its encoder, with ``snapshot_of`` and ``at`` (its share of the
    steps) in place of ``snapshots``. Shapes that the schema refuses stay as they are.

    >>> config = {"encoders": {"bert": {"objective": "mlm", "snapshots": {"at25": 0.25}}}}
    >>> with_snapshots(config)["encoders"]["bert-at25"]
    {'objective': 'mlm', 'snapshot_of': 'bert', 'at': 0.25}

    Raises ConfigError when another encoder has a snapshot's name.
    """
    encoders = config.get("encoders")
    made: dict[str, Any] = {}
    for encoder, entry in encoders.items() if isinstance(encoders, Mapping) else ():
        snapshots = entry.get("snapshots") if isinstance(entry, Mapping) else None
        for name, share in snapshots.items() if isinstance(snapshots, Mapping) else ():
            own = {key: value for key, value in entry.items() if key != "snapshots"}
            made[f"{encoder}-{name}"] = own | {"snapshot_of": encoder, "at": share}
            there = encoders.get(f"{encoder}-{name}", {"snapshot_of": encoder})
            if not isinstance(there, Mapping) or there.get("snapshot_of") != encoder:
                raise ConfigError(
                    f"config: encoders.{encoder}.snapshots.{name}: there is an encoder {encoder}-{name} already; give the "
                    "snapshot another name"
                )
    return {**config, "encoders": {**encoders, **made}} if made else config


def without_snapshots(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same without these entries: what is wrong with one is wrong with its encoder, whose name a message should have."""
    encoders = config.get("encoders")
    if not isinstance(encoders, Mapping):
        return config
    own = {key: one for key, one in encoders.items() if not isinstance(one, Mapping) or "snapshot_of" not in one}
    return {**config, "encoders": own}


def check_snapshots(name: str, entry: Mapping[str, Any], encoders: Mapping[str, Any]) -> None:
    """Raise ConfigError where what is not trained has snapshots, or a snapshot's entry is none of those."""
    if "snapshots" in entry and "budget" not in entry:
        raise ConfigError(f"config: encoders.{name}.snapshots: it trains nothing, so it has no snapshots")
    parent = entry.get("snapshot_of")
    shares = (encoders.get(parent) or {}).get("snapshots", {})
    if parent is not None and shares.get(name.removeprefix(f"{parent}-")) != entry.get("at"):
        raise ConfigError(
            f"config: encoders.{name}.snapshot_of: {parent!r} has no such snapshot; write it there: snapshots: {{NAME: SHARE}}"
        )


def trained_by(encoders: Mapping[str, Any], encoder: str) -> str:
    """The encoder whose training makes an encoder: itself, or what it is a snapshot of."""
    return encoders[encoder].get("snapshot_of", encoder)


def by_snapshots(encoders: Mapping[str, Any]) -> dict[tuple[str, ...], list[str]]:
    """Names of snapshots → the encoders whose training makes exactly these: a rule each.

    >>> by_snapshots({"none": {}, "a": {"snapshots": {"at25": 0.25}}, "a-at25": {"snapshot_of": "a"}, "b": {}})
    {(): ['none', 'b'], ('at25',): ['a']}
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for name, entry in encoders.items():
        if "snapshot_of" not in entry:
            found.setdefault(tuple(entry.get("snapshots", ())), []).append(name)
    return found


def recipe_options(config: Mapping[str, Any], recipe: str, dataset: str) -> dict[str, Any]:
    """Everything that decides how an encoder is fine-tuned on a data set (without seed and training-set size); what only ANCE's
    refreshes depend on, only where there are some."""
    scale = chosen_scale(config)
    variant = config["datasets"][dataset].get("variant")
    options = resolve_recipe(recipe, config["recipes"][recipe], scale["finetuning"], variant)
    if options.get("refresh"):
        options["without_answers"] = without_answers(config, dataset)
    else:
        options.pop("sample", None)
    if "dim" in options:
        options["dim"] = scale["dims"].get(options["dim"], options["dim"])
    return options


def without_answers(config: Mapping[str, Any], dataset: str) -> bool:
    """Whether a hit that contains an answer of its query is no negative: in open QA (DPR's hard negatives; SEED-Encoder
    drivers/run_ann_data_gen_dpr.py:321-323), where the questions have answers."""
    entry = config["datasets"][dataset]
    return entry.get("variant") == "open-qa" and READERS[entry["reader"]].answers


def chain_of(options: Mapping[str, Any]) -> list[str]:
    """The recipes whose retrievers (of the same encoder, task, size and seed) a recipe needs."""
    given = ("bm25", PUBLISHED)
    mined = [source.removeprefix("mined:") for source in options.get("negatives", []) if source not in given]
    names = [options.get("start", "encoder"), options.get("teacher", ""), *mined]
    return [name for name in dict.fromkeys(names) if name not in ("", "encoder")]


def recipe_kind(config: Mapping[str, Any], recipe: str) -> str:
    """What a recipe of the configuration trains: ``kind`` of :class:`pretrieve.finetuning.recipe_parts.Recipe`."""
    return KIND_OF[config["recipes"][recipe].get("recipe", recipe)]


def fits(config: Mapping[str, Any], recipe: str, dataset: str) -> bool:
    """Whether a recipe can be trained on a data set, and its retriever scored there."""
    wanted, kind = EXAMPLE_READERS.get(config["datasets"][dataset]["reader"]), recipe_kind(config, recipe)
    return kind == wanted if wanted else kind in RETRIEVAL_KINDS
