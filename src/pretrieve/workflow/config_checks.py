"""What a configuration's values may be, beyond their shape in the schema: checked before any job, with errors of one sentence.

Size first: YAML's aliases make exponentially many values of a few lines, and whatever walks over them, Snakemake and this
project alike, would not come back. Standard library, yaml and jsonschema only: the workflow reads it in every job.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators

from pretrieve.base.errors import ConfigError
from pretrieve.references.yaml_files import Loader
from pretrieve.workflow.scales import chosen_scale, raw_files_of

#: The project's own configuration has about 7,000 values in ten levels.
MOST_VALUES, MOST_LEVELS, MOST_DIGITS = 200_000, 40, 400
#: How many of them Snakemake can plan depends on what is asked for (pretrieve/operations/estimate/jobs.py).
MOST_SEEDS = 1000
#: What every whole number may be at most: JSON, and the libraries behind it, keep these exactly.
LARGEST = 2**53
#: And every other number: float32 has it with room to compute.
LARGEST_NUMBER = 1e15
#: Key, wherever it stands → the smallest and the largest number.
BOUNDS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**31 - 1),
    "k1": (0, 1000),
    "hidden": (1, 1 << 16),
    "feed_forward": (1, 1 << 18),
    "heads": (1, 1 << 10),
    "head_size": (1, 1 << 12),
    "max_positions": (3, 1 << 20),
    "vocabulary_size": (100, 1 << 24),
    "std": (0, 100),
    "word_std": (0, 100),
    "position_std": (0, 100),
    "layer_norm_eps": (1e-12, 1),
    "temperature": (1e-3, 100),
    "batch": (1, 1 << 20),
    "steps": (1, 1 << 30),
    "epochs": (1e-3, 1e6),
    "learning_rate": (1e-12, 10),
    "weight_decay": (0, 1),
    "clip": (0, 1e6),
    "checkpoint_seconds": (0, 1e9),
}
#: Sections whose every number has one bound: seeds, layers and dimensions by name.
_SECTIONS = {"seeds": (0, 2**31 - 1), "layers": (1, 1 << 10), "dims": (1, 1 << 16)}
#: Sections whose options say themselves what they may be.
_FREE = {"finetuning", "options"}
#: The schema's draft, without its 3.0 as a whole number, which the programs here do not take.
Validator = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda checker, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def check_file(path: Path | str) -> None:
    """:func:`check_size` of a YAML file that is still to be read. What is no YAML, or is not there, is left to its reader."""
    sizes: dict[str, tuple[int, int]] = {}  # anchor → values behind it, levels
    open_parts: list[tuple[str | None, int, int]] = []
    try:
        with open(path, "rb") as stream:
            for event in yaml.parse(stream, Loader=Loader):
                done = None
                if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                    open_parts.append((event.anchor, 1, 1))
                elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                    anchor, values, levels = open_parts.pop()
                    done = values, levels + 1
                    if anchor:
                        sizes[anchor] = done
                elif isinstance(event, yaml.AliasEvent):
                    done = sizes.get(event.anchor, (MOST_VALUES, 1))  # of itself: without end
                elif isinstance(event, yaml.ScalarEvent):
                    _refuse_digits(f"{path}: line {event.start_mark.line + 1}", event.value)
                    done = 1, 1
                if done and open_parts:
                    anchor, values, levels = open_parts[-1]
                    open_parts[-1] = anchor, values + done[0], max(levels, done[1])
                _, values, levels = open_parts[-1] if open_parts else (None, 1, 1)
                _refuse_size(f"{path}: line {event.start_mark.line + 1}", values, max(len(open_parts), levels))
    except (OSError, yaml.YAMLError):
        return


def check_size(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for more than :data:`MOST_VALUES` values or :data:`MOST_LEVELS` levels, each counted wherever an alias
    repeats it, or a configuration that holds itself."""
    for key, value in config.items():
        _refuse_size(f"config: {key}", *_measured(f"config: {key}", value, {}, 1))


def _measured(where: str, value: Any, known: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """(values, levels) of a part; ``known``: those of parts that were measured, by identity."""
    if isinstance(value, str):
        _refuse_digits(where, value)
        return 1, 1
    if not isinstance(value, (list, Mapping)):
        return 1, 1
    if id(value) in known:
        return known[id(value)]
    if level > MOST_LEVELS:
        _refuse_size(where, 1, level)
    parts = list(value.values() if isinstance(value, Mapping) else value)
    sizes = [_measured(where, part, known, level + 1) for part in parts]
    size = 1 + sum(values for values, _ in sizes), 1 + max((levels for _, levels in sizes), default=0)
    _refuse_size(where, *size)
    known[id(value)] = size
    return size


def _refuse_size(where: str, values: int, levels: int) -> None:
    if values > MOST_VALUES or levels > MOST_LEVELS:
        what = f"{values:,} values" if values > MOST_VALUES else f"{levels:,} levels of keys and lists"
        raise ConfigError(
            f"{where}: has {what}, counting aliases (*) each time they occur; expected at most {MOST_VALUES:,} values in "
            f"{MOST_LEVELS} levels: write out what is needed"
        )


def _refuse_digits(where: str, text: str) -> None:
    """Python makes no number of more than 4,300 digits, and ends with a traceback."""
    if len(text) > MOST_DIGITS and text.lstrip("+-").isdigit():
        raise ConfigError(f"{where}: {text[:20]}… has {len(text):,} digits; expected at most {MOST_DIGITS}")


def check_numbers(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for the first number that is not finite or not within its bounds, with its key, and for more seeds than
    :data:`MOST_SEEDS`."""
    for path, number in _numbers("", config):
        *above, key = path.split(".")
        section = next((part for part in (key, *reversed(above)) if part in _SECTIONS), None)
        if _FREE.intersection(above):
            low, high = -LARGEST, LARGEST
        elif key in BOUNDS:
            low, high = BOUNDS[key]
        elif section:
            low, high = _SECTIONS[section]
        else:
            low, high = -LARGEST_NUMBER, LARGEST if isinstance(number, int) else LARGEST_NUMBER
        if not math.isfinite(number) or not low <= number <= high:
            shown = f"{str(number)[:20]}…" if len(str(number)) > 24 else f"{number}"
            raise ConfigError(f"config: {path}: {shown} is not allowed; expected a number from {low:g} to {high:g}")
    for key, holder in (("seeds", config), ("my_corpus_options.seeds", config.get("my_corpus_options") or {})):
        if (count := len(holder.get("seeds", ()))) > MOST_SEEDS:
            raise ConfigError(f"config: {key}: {count:,} seeds in one run; expected at most {MOST_SEEDS:,}")


def _numbers(path: str, value: Any) -> Iterator[tuple[str, int | float]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _numbers(f"{path}.{key}" if path else str(key), part)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _numbers(f"{path}.{number}", part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def check_paths(config: Mapping[str, Any]) -> None:
    """Snakemake takes ``{word}`` in the path of an input for a wildcard, wherever the path comes from. What is not UTF-8 cannot
    stand in records and pages."""
    named: dict[str, Any] = {"my_corpus": config.get("my_corpus")}
    for name, corpus in config["corpora"].items():
        own = raw_files_of(corpus) | {key: corpus.get(key) for key in ("exclude", "vocabulary_file")}
        named |= {f"corpora.{name}.{key}": file for key, file in own.items()}
    for name, dataset in config["datasets"].items():
        named |= {f"datasets.{name}.files.{key}": file for key, file in dataset.get("files", {}).items()}
    for section, key in (("encoders", "start"), ("scales", "vocabulary_file")):
        named |= {f"{section}.{name}.{key}": entry.get(key) for name, entry in config[section].items()}
    for where, value in named.items():
        if re.search("[\ud800-\udfff]", value or ""):
            raise ConfigError(
                f"config: {where}: the path {value!r} is not UTF-8; expected one that is: rename it, or link to it"
            )
        if re.search("[{}]", value or ""):
            raise ConfigError(
                f"config: {where}: {value!r} has a brace, which Snakemake takes for a wildcard; expected a path without one: "
                "rename it, or link to it"
            )


def check_search(config: Mapping[str, Any]) -> None:
    """Raise ConfigError where the scale names an index of a kind that there is not, or with options that it lacks."""
    search = chosen_scale(config).get("search", {})
    if "index" not in search:
        return
    from pretrieve.retrieval.index import check_index  # it loads numpy, which other configurations do without

    try:
        check_index(search["index"])
    except ConfigError as error:
        raise ConfigError(f"config: scales.{config['scale']}.search.index: {error}") from None
