"""Are a data set's files and options those that its format (:mod:`pretrieve.benchmarks.readers`) has?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.options import OneOf
from pretrieve.benchmarks.readers import Reader, reader_named


def check_files(name: str, reader: Reader, files: Mapping[str, Any]) -> None:
    """Check the names of a data set's files.

    Raises ConfigError for a file that the format does not have, one that is missing, and for examples one that is given twice.
    """
    for key in files:
        if key not in reader.files:
            has = ", ".join(reader.files) or "none"
            raise ConfigError(f"{name}: no file {key!r}; it has {has}{nearest(key, reader.files)}.")
    if reader.alone and set(files) == {reader.alone}:
        return
    missing = [key for key in reader.required if key not in files]
    if missing or reader.alone in files or (reader.files and not reader.sources and not files):
        needed = reader.required or list(reader.files)
        wanted = ", ".join(f"{key} ({reader.files[key]})" if reader.files[key] else key for key in needed)
        wanted += f", or {reader.alone} alone" if reader.alone and reader.required else ""
        raise ConfigError(f"{name}: it needs the files {wanted}; found {', '.join(files) or 'none'}.")
    home: dict[str, str] = {}
    for key, path in files.items():
        if reader.kind != "ranking" and home.setdefault(str(path), key) != key:
            raise ConfigError(f"{name}: '{home[str(path)]}' and '{key}' are one file, {path}; each has its own.")


def check_options(name: str, reader: Reader, options: Mapping[str, Any]) -> None:
    """Check the options of a reader. Raises ConfigError for one that it does not have, or a value that is not allowed."""
    for key, value in options.items():
        if key not in reader.allowed:
            has = ", ".join(reader.allowed) or "none"
            raise ConfigError(f"{name}: no option {key!r}; it has {has}{nearest(key, reader.allowed)}.")
        if not (allowed := reader.allowed[key]).admits(value):
            hint = nearest(value, map(str, allowed.values)) if isinstance(allowed, OneOf) else ""
            raise ConfigError(f"{name}: reader_options.{key}: {value!r} is not allowed; allowed: {allowed}{hint}")


def check_dataset(dataset: Mapping[str, Any]) -> None:
    """Check reader, files and reader options of a data set of the configuration.

    Raises ConfigError for one of these that is not allowed.
    """
    reader = reader_named(dataset["reader"])
    check_files(dataset["reader"], reader, dataset.get("files", {}))
    check_options(dataset["reader"], reader, dataset.get("reader_options") or {})
