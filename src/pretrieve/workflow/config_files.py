"""The whole configuration: a user's ``config.yaml`` laid over the files that come with the code.

``config/*.yaml``, ``config/scales/*.yaml`` and ``config.yaml`` of the code's folder are parts of one configuration. Over these
goes what Snakemake was given: ``config.yaml`` of the working directory, ``--configfile`` and ``--config``. So a user's file
says only what is new or different:

* keys are laid over keys at every depth, so ``encoders: {mine: {…}}`` adds an encoder, and ``scales: {demo: {dims: {full: 64}}}``
  changes one number; lists and single values are replaced as a whole;
* ``null`` removes what is under a key, be it an encoder or one of its options. In the entries that a scale lays over the
  general ones it is kept, for there it removes the general entry (:mod:`pretrieve.workflow.scales`).

A scale that has ``datasets`` takes of the general ones only what it needs, and all that a user adds.

An entry of ``datasets`` with ``each: {NAME: WORD, …}`` stands for as many entries as it has names, which differ in a word:
``{word}`` in any of its texts becomes the WORD, ``{file}`` the WORD with ``-`` for ``/``.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pretrieve.base.code_folder import CODE
from pretrieve.base.errors import ConfigError
from pretrieve.references.yaml_files import Loader
from pretrieve.workflow.config_checks import check_file
from pretrieve.workflow.scales import OWN


def complete(
    config: Mapping[str, Any], code_folder: Path = CODE, more: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """What a user says, and ``more`` of it, laid over the files of the code's folder. No two entries share an object, as YAML's
    merged ones do.

    Raises ConfigError for a file that is not YAML of keys and values, a key that is no text, and an ``each`` without names and
    words.
    """
    whole: dict[str, Any] = {}
    for file in [*sorted((code_folder / "config").rglob("*.yaml")), code_folder / "config.yaml"]:
        if file.is_file():
            whole = _laid_over(whole, _expanded(read_part(file)))
    of_code = set(whole.get("datasets", ()))
    for part in (config, *more):
        whole = with_numbers(_laid_over(whole, _expanded(with_numbers(part))))
    _check_keys("", whole)
    scales, datasets = whole.get("scales"), whole.get("datasets")
    for name, scale in scales.items() if isinstance(scales, Mapping) and isinstance(datasets, Mapping) else ():
        if isinstance(scale, Mapping) and isinstance(scale.get("datasets"), Mapping):
            added = {key: {} for key in datasets if key not in of_code}
            scales[name] = {**scale, "datasets": added | scale["datasets"]}
    return whole


def read_config(file: Path | None = None, words: Iterable[str] = (), code_folder: Path = CODE) -> dict[str, Any]:
    """The whole configuration of a run, for programs beside Snakemake. ``file``: the user's, by default ``config.yaml`` of the
    working directory where there is one; ``words``: ``KEY=VALUE``, as Snakemake's ``--config`` takes them.

    Raises ConfigError as :func:`complete`, for endless aliases, and for a word that is not KEY=VALUE.
    """
    if file is None and not (file := Path("config.yaml")).exists():
        file = code_folder / "config.yaml"
    check_file(file)
    parts = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"--config {word!r}: expected KEY=VALUE, such as seeds=[1,2].")
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError:
            read = value  # a text, as Snakemake takes it
        parts.append({key: read})
    return complete(read_part(file), code_folder, parts)


def read_part(file: Path) -> dict[str, Any]:
    """What one file says, without the others. Raises ConfigError when it cannot be read, or has no keys and values."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{file}: not readable as YAML: {error}") from None
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{file}: found {type(content).__name__}; expected keys and values, as config.yaml has them.")
    return content or {}


def _check_keys(path: str, value: object) -> None:
    """YAML reads a key such as 2024 or yes as a number or a truth value, and no name is one."""
    if isinstance(value, list):
        value = {str(place): part for place, part in enumerate(value)}
    for key, part in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(key, str):
            where = f"config: {path}" if path else "config"
            raise ConfigError(
                f"{where}: YAML reads the key {key!r} as {type(key).__name__}; expected a text: write it in quotes"
            )
        _check_keys(f"{path}.{key}" if path else key, part)


_CONSTANTS = {"true": True, "false": False, "null": None}
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?|true|false|null")
#: Keys whose values are names of the user's own, which may look like numbers: folders, and columns of a table.
_NAMES = {"my_corpus", "mirror", "columns"}


def with_numbers(value: Any) -> Any:
    """A configuration with numbers where ``--config`` left words: Snakemake reads ``seeds=[1,2]`` as ``['1', '2']``.

    >>> with_numbers({"seeds": ["1", "2"], "rate": "0.5", "open": "true", "name": "mlm"})
    {'seeds': [1, 2], 'rate': 0.5, 'open': True, 'name': 'mlm'}
    """
    if isinstance(value, str):  # first, for most values are texts
        if not _NUMBER.fullmatch(value):
            return value
        if value in _CONSTANTS:
            return _CONSTANTS[value]
        return int(value) if value.lstrip("+-").isdigit() else float(value)
    if isinstance(value, Mapping):
        return {key: part if key in _NAMES and part != "null" else with_numbers(part) for key, part in value.items()}
    return [with_numbers(part) for part in value] if isinstance(value, list) else value


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    merged = dict(below)
    of_scale = len(path) > 2 and path[0] == "scales" and path[2] in OWN
    for key, value in above.items():
        before = merged.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[key] = _laid_over(before, value, (*path, key))
        elif value is None and before is not None and not of_scale:
            del merged[key]
        else:
            merged[key] = value
    return merged


def _expanded(config: Mapping[str, Any]) -> dict[str, Any]:
    """With the entries that ``each`` stands for in its place, in ``datasets`` and those of every scale."""
    made = dict(config)
    if isinstance(config.get("datasets"), Mapping):
        made["datasets"] = _entries("datasets", config["datasets"])
    if isinstance(config.get("scales"), Mapping):
        made["scales"] = dict(config["scales"])
        for name, scale in config["scales"].items():
            if isinstance(scale, Mapping) and isinstance(scale.get("datasets"), Mapping):
                own = _entries(f"scales.{name}.datasets", scale["datasets"])
                made["scales"][name] = {**scale, "datasets": own}
    return made


def _entries(where: str, datasets: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, entry in datasets.items():
        if not isinstance(entry, Mapping) or "each" not in entry:
            made[name] = entry
            continue
        words = entry["each"]
        if not isinstance(words, Mapping) or not all(isinstance(word, str) for word in words.values()):
            raise ConfigError(
                f"config: {where}.{name}.each: {words!r} is not allowed; expected NAME: WORD for each data set"
            )
        pattern = {key: value for key, value in entry.items() if key != "each"}
        made |= {key: _filled(pattern, word) for key, word in words.items()}
    return made


def _filled(value: Any, word: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(part, word) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, word) for part in value]
    return value.replace("{word}", word).replace("{file}", word.replace("/", "-")) if isinstance(value, str) else value
