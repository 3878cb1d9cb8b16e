"""What a cell's value follows from, as far as the configuration says it: for telling a change of options from a change of code.

Two configurations with equal ingredients ask for the same computation. What only adds other computations (other metrics,
other training-set sizes, other encoders) does not belong to them.
"""

from collections.abc import Mapping
from typing import Any

from pretrieve.base.paths import parse_system
from pretrieve.references.tables import STATISTICS
from pretrieve.workflow.job_options import chain_of, encoder_options, lineage, recipe_options
from pretrieve.workflow.scales import corpus_of, means_of, vocabulary_corpus, vocabulary_of


def ingredients(config: Mapping[str, Any], system: str, dataset: str) -> dict[str, Any]:
    """Every option of one system on one data set or mean, or of counts of it (``statistics``). ``config``: of one scale
    (:func:`pretrieve.workflow.scales.at_scale`).

    Raises KeyError when the configuration lacks one of them, and ConfigError when an option is not allowed any more.
    """
    scale = config["scales"][config["scale"]]
    if dataset in config["corpora"]:  # of pairs
        options = scale["pretraining"]["options"].get("pairs")
        return {"pairs": _corpus(config, dataset), "words": list(vocabulary_of(config, dataset)), "options": options}
    if dataset in means_of(config):
        return {"mean": {part: ingredients(config, system, part) for part in means_of(config)[dataset]}}
    words = vocabulary_corpus(config, dataset)
    made: dict[str, Any] = {"words": [_corpus(config, words), list(vocabulary_of(config, words))]}
    if system == STATISTICS:
        return made | {"data": [_data(config, dataset, None)]}
    encoder, recipe, size = parse_system(system)
    task = config["datasets"][dataset].get("trained_on", dataset)
    made["data"] = [_data(config, name, size) for name in (dataset, task)]
    if encoder == "bm25":
        return made | {"bm25": config["datasets"][dataset].get("bm25", config["bm25"])}
    made |= {"search": scale.get("search"), "mining_depth": config["mining_depth"], "bm25": config["bm25"]}
    made["encoders"] = [
        [encoder_options(config, one).to_dict(), _corpus(config, corpus_of(config, one))]
        for one in lineage(config, encoder)
    ]
    waiting, made["recipes"] = [recipe], {}
    while waiting:
        name = waiting.pop()
        if name not in made["recipes"]:
            made["recipes"][name] = recipe_options(config, name, task)
            waiting += chain_of(made["recipes"][name])
    return made


def _corpus(config: Mapping[str, Any], name: str) -> list[Any]:
    """A corpus and its parts, without the counts that are only checked."""
    own = {key: value for key, value in config["corpora"][name].items() if key != "expect"}
    return [own, *(_corpus(config, part) for part in own.get("parts", ()))]


def _data(config: Mapping[str, Any], name: str, size: str | None) -> dict[str, Any]:
    """A data set, with one of its training-set sizes."""
    own = config["datasets"][name]
    return {key: value for key, value in own.items() if key not in ("metrics", "sizes")} | {
        "size": own["sizes"][size] if size else None
    }
