"""What a scale has of its own: entries laid over the general ones, corpora of single encoders, vocabularies, roles of a paper.

The papers differ in corpora, vocabularies and encoders. So a scale may have

* ``corpora``, ``datasets``, ``encoders`` and ``recipes``: each entry is laid over the general entry of its name, key by key;
  ``null`` removes a key or a whole entry. A scale with ``datasets`` has those, and of the general ones only what has a role
  there or trains retrievers for one, and what a user added, for every job reads a rule for each data set.
* ``roles`` of one paper, ``PAPER/ROLE: DATASET``, which go before the role's own: SEED-Encoder reads MS MARCO's passages
  without titles, Condenser with them, and scores on the two are not to be compared.
* ``seeds`` and ``figures``, unless the configuration itself (``--config``) has others.
* ``means``, ``NAME: [DATASET, …]``, which have roles as data sets do: the score on one is the mean of the scores on its parts,
  each with equal weight, as BEIR counts CQADupStack's twelve forums. A part may be another mean.

An encoder is pre-trained on its ``corpus``, and so is a data set made of, or searched in, its ``corpus``. A corpus has its own
vocabulary; a data set's texts are tokenised with that of the corpus which its key ``vocabulary`` names, and an encoder can only
read what is made with its vocabulary. By default all are the scale's. Standard library only, for the workflow reads it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pretrieve.base.errors import ConfigError, check_names
from pretrieve.benchmarks.readers import READERS

#: The sections that a scale may lay its own entries over.
OWN = ("corpora", "datasets", "encoders", "recipes")
#: Readers that make a data set of a corpus.
OF_CORPUS = tuple(name for name, reader in READERS.items() if reader.tables)


class Vocabulary(NamedTuple):
    """``size``: entries at most; ``file``: where it is taken from, '' when it is trained on the corpus; ``name``: what tells
    it from others."""

    size: int
    file: str
    name: str


def at_scale(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the entries of its scale laid over the general ones, and the scale's seeds and figures where it
    names none; itself when the scale has none of these. Raises ConfigError for a section or an entry that is no mapping."""
    scales, name = config.get("scales"), config.get("scale")
    scale = scales.get(name) if isinstance(scales, Mapping) and isinstance(name, str) else None
    if isinstance(scale, Mapping) and (given := {key: scale[key] for key in ("seeds", "figures") if key in scale}):
        config = {**given, **config}
    own = {section: scale[section] for section in OWN if section in scale} if isinstance(scale, Mapping) else {}
    if not own or not all(isinstance(config.get(section), Mapping) for section in own):
        return config  # the schema's check reports what else is wrong
    merged = dict(config)
    for section, entries in own.items():
        where = f"config: scales.{name}.{section}"
        _mapping(where, entries)
        merged[section] = dict(config[section])
        for key, entry in entries.items():
            if entry is None:
                merged[section].pop(key, None)
            else:
                general = config[section].get(key, {})
                _mapping(f"{where}.{key}", entry)
                _mapping(f"config: {section}.{key}", general)
                merged[section][key] = {part: one for part, one in {**general, **entry}.items() if one is not None}
    left = {key: value for key, value in scale.items() if key not in OWN}
    merged["scales"] = {**scales, name: left}
    if "datasets" in own:
        named = [*own["datasets"], *_names(left.get("roles")), *_names(left.get("means"))]
        merged["datasets"] = _needed(merged["datasets"], named)
    return merged


def of_one_scale(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration :func:`at_scale`, without other scales' entries and what changes no result, for programs that read
    results. It says whether there is a mirror, for the commands that are shown."""
    name = config["scale"]
    kept = {key: value for key, value in config.items() if key not in ("mirror", "checkpoint_seconds")}
    kept |= {"mirror": "DIR"} if config.get("mirror") else {}
    for section in ("scales", "analyses"):
        kept[section] = {key: value for key, value in config.get(section, {}).items() if key == name}
    return kept


def _mapping(where: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {value!r} is not allowed; expected keys with values, or null to remove an entry.")


def _names(section: object) -> list[str]:
    """What roles are played by, or the parts of all means; of a shape that the schema refuses, whatever is a name."""
    values = section.values() if isinstance(section, Mapping) else ()
    parts = (part for value in values for part in (value if isinstance(value, list) else [value]))
    return [part for part in parts if isinstance(part, str)]


def _needed(datasets: Mapping[str, Any], named: Iterable[str]) -> dict[str, Any]:
    """The data sets of the scale's own list, those that have a role or are part of a mean (all of them ``named``), and those
    that one of these is trained on."""
    wanted, waiting = set[str](), list(named)
    while waiting:
        name = waiting.pop()
        if isinstance(name, str) and isinstance(datasets.get(name), Mapping) and name not in wanted:
            wanted.add(name)
            waiting.append(datasets[name].get("trained_on", name))
    return {name: options for name, options in datasets.items() if name in wanted}


def chosen_scale(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of the scale that a run has."""
    return config["scales"][config["scale"]]


def is_original(config: Mapping[str, Any], role: str) -> bool:
    """Whether a role's data set at this scale is what the papers have, and no substitute (``originals``: roles, or ``all``).

    >>> is_original({"scale": "paper", "scales": {"paper": {"originals": "all"}}}, "nq-open")
    True
    """
    named = chosen_scale(config).get("originals", ())
    return named == "all" or role in named


def roles_of(config: Mapping[str, Any], paper: str | None) -> dict[str, str]:
    """Role → data set, for the tables of one paper (``None``: without the roles of single papers).

    >>> config = {"scale": "paper", "scales": {"paper": {"roles": {"dev": "titled", "seed_encoder/dev": "untitled"}}}}
    >>> roles_of(config, "seed_encoder"), roles_of(config, "condenser")
    ({'dev': 'untitled'}, {'dev': 'titled'})
    """
    every = chosen_scale(config)["roles"]
    general = {role: name for role, name in every.items() if "/" not in role}
    special = {role.partition("/")[2]: name for role, name in every.items() if role.partition("/")[0] == paper}
    return general | {role: name for role, name in special.items() if role}


def means_of(config: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Mean → its parts, data sets or other means, in the order of the configuration."""
    return chosen_scale(config).get("means", {})


def datasets_behind(config: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The data sets behind what has a role: those of a mean and of the means in it, each once; else itself alone.

    >>> scale = {"means": {"all": ["a", "forums"], "forums": ["b", "c"]}}
    >>> config = {"scale": "paper", "scales": {"paper": scale}}
    >>> datasets_behind(config, "all"), datasets_behind(config, "a")
    (('a', 'b', 'c'), ('a',))
    """
    means = means_of(config)
    if name not in means:
        return (name,)
    return tuple(dict.fromkeys(leaf for part in means[name] for leaf in datasets_behind(config, part)))


def corpus_of(config: Mapping[str, Any], encoder: str) -> str:
    """The corpus that an encoder is pre-trained on."""
    return config["encoders"][encoder].get("corpus", chosen_scale(config)["corpus"])


def raw_files_of(corpus: Mapping[str, Any]) -> dict[str, str]:
    """Key of an entry of ``corpora`` → the raw file that it names: ``dump``, ``leads``, ``files.NAME``."""
    named = {key: corpus.get(key) for key in ("dump", "leads")}
    named |= {f"files.{name}": file for name, file in (corpus.get("files") or {}).items()}
    return {key: file for key, file in named.items() if file}


def vocabulary_of(config: Mapping[str, Any], corpus: str) -> Vocabulary:
    """The vocabulary of a corpus: its own ``vocabulary_size`` and ``vocabulary_file``, or the scale's."""
    own, scale = config["corpora"].get(corpus, {}), chosen_scale(config)
    holder = own if {"vocabulary_size", "vocabulary_file"} & own.keys() else scale
    file = holder.get("vocabulary_file") or ""
    return Vocabulary(holder.get("vocabulary_size", scale["vocabulary_size"]), file, file or f"trained on {corpus}")


def vocabulary_corpus(config: Mapping[str, Any], dataset: str) -> str:
    """The corpus with whose vocabulary the texts of a data set are tokenised."""
    return config["datasets"][dataset].get("vocabulary", chosen_scale(config)["corpus"])


def wants_corpus(config: Mapping[str, Any], dataset: str) -> bool:
    """Whether a data set is made of a corpus, or searched in one."""
    options = config["datasets"][dataset]
    return bool(options.get("open")) or options["reader"] in OF_CORPUS


def articles_of(config: Mapping[str, Any], dataset: str) -> str:
    """The corpus whose articles a data set is made of or searched in, if it :func:`wants_corpus`."""
    return config["datasets"][dataset].get("corpus", chosen_scale(config)["corpus"])


def reads(config: Mapping[str, Any], encoder: str, dataset: str) -> bool:
    """Whether an encoder can read a data set: both are made with one vocabulary."""
    corpora = corpus_of(config, encoder), vocabulary_corpus(config, dataset)
    return len({vocabulary_of(config, corpus).name for corpus in corpora}) == 1


def used_corpora(config: Mapping[str, Any]) -> list[str]:
    """The scale's corpus, and those that its encoders and data sets name besides."""
    named = [corpus_of(config, encoder) for encoder in config["encoders"]]
    named += [vocabulary_corpus(config, dataset) for dataset in config["datasets"]]
    return list(dict.fromkeys([chosen_scale(config)["corpus"], *named]))


def check_scale(config: Mapping[str, Any]) -> None:
    """Check the corpora that encoders and data sets name, that an encoder goes on with the vocabulary of its start, and that
    a data set is tokenised as what it is trained on. Raises ConfigError for the first thing that is wrong, in one line."""
    for section, key in (("encoders", "corpus"), ("datasets", "corpus"), ("datasets", "vocabulary")):
        for name, entry in config[section].items():
            check_names(f"{section}.{name}.{key}", [entry[key]] if key in entry else [], config["corpora"])
    for name, entry in config["datasets"].items():
        if "corpus" in entry and not wants_corpus(config, name):
            raise ConfigError(
                f"config: datasets.{name}.corpus: the reader {entry['reader']!r} takes nothing from a corpus; expected one of "
                f"{', '.join(OF_CORPUS)}, or open: true; remove corpus"
            )
    for name, entry in config["encoders"].items():
        start = entry.get("start")
        if start in config["encoders"]:
            mine, theirs = corpus_of(config, name), corpus_of(config, start)
            _same(config, f"encoders.{name}.corpus", mine, f"its start {start!r}", theirs)
    for name, entry in config["datasets"].items():
        other = entry.get("trained_on")
        if other in config["datasets"]:
            mine, theirs = vocabulary_corpus(config, name), vocabulary_corpus(config, other)
            _same(config, f"datasets.{name}.vocabulary", mine, f"{other!r}, which it is trained on,", theirs)


def _same(config: Mapping[str, Any], where: str, corpus: str, what: str, other: str) -> None:
    mine, theirs = (vocabulary_of(config, name).name for name in (corpus, other))
    if mine != theirs:
        raise ConfigError(
            f"config: {where}: {corpus!r} has the vocabulary {mine!r}, but {what} has {theirs!r} of {other!r}; give both a "
            "corpus with the same vocabulary."
        )
