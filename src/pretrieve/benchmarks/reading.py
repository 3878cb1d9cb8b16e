"""Reading a data set: the function of its format is called with those of the following that it has parameters for.

* A task (:func:`build_task`): ``files`` (name → path), or each file by its name; ``corpus``, the directory of the corpus that it
  is made of or searched in; ``target`` (:class:`~pretrieve.tasks.splits.Target`); ``warnings``, which are printed at the end; the
  data set's keys and options; of official files ``job``, with all but the files
  (:class:`~pretrieve.benchmarks.official.example_reading.Job`). It writes ``out`` and returns its statistics.
* A collection (:func:`build_collection`): files and a :class:`~pretrieve.tasks.collection.CollectionWriter`, then its options. It
  says in ``writer.variant`` what it did to the texts, and in ``writer.expected`` which counts the publisher states.
"""

from __future__ import annotations

import inspect
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.example_reading import Job
from pretrieve.benchmarks.readers import COUNT, READERS, check_files, check_options, reader_named, task_reader
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_tables import Collection
from pretrieve.tasks.splits import Target


def build_task(
    name: str,
    files: Mapping[str, Path],
    target: Target,
    corpus: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the task of a reader of the list (or ``collection``) and return its statistics; what was odd is summed up on standard
    error. files: name in the format → path; options: :func:`~pretrieve.benchmarks.readers.options_of` the data set.

    Raises ConfigError for a name or value that is not allowed, or a size that cannot be drawn, and DataError for a file that
    is damaged, in another format, or has another number of records.
    """
    reader, options = task_reader(name), dict(options or {})
    keys = {key: options.pop(key) for key in reader.keys if key in options}
    check_files(name, reader, files)
    check_options(name, reader, options)
    if corpus is None and (reader.tables or keys.get("open")):
        raise ConfigError(
            f"{name}: is made of a corpus or open to one, and none is given; name its directory: --corpus DIR."
        )
    if corpus is not None and keys.get("open") is False and not reader.tables:
        raise ConfigError(f"{name}: open is false, but a corpus is given, which would open it; leave one of them out.")
    for key, value in keys.items():
        if key.startswith("max_") and value is not None and not COUNT.admits(value):
            raise ConfigError(f"{name}: {key} is {value!r}; expected {COUNT}.")
    files, warnings = {key: Path(path) for key, path in files.items()}, Warnings()
    counts = keys.pop("counts", "official")
    if counts not in ("official", "any"):
        raise ConfigError(f"counts is {counts!r}; expected official or any.")
    about = {"task": name, "url": reader.url, "licence": reader.licence, "seed": target.seed, "counts": counts}
    official = reader.counts if counts == "official" else {}
    job = Job(target.tokenizer, Path(target.out), target.sizes, target.seed, official, about, warnings)
    whole = keys.get("open")
    given = {
        **{"files": files, "corpus": corpus, "target": job, "job": job, "warnings": warnings, **files},
        **{"open_domain": bool(whole), "articles": whole == "articles", "sentences": whole == "sentences"},
        **{**options, **keys, **reader.fixed},
    }
    read = resolve_name(reader.read)
    known = [name for name in inspect.signature(read).parameters if name in given]
    try:
        statistics = read(**{name: given[name] for name in known})
    except BaseException:
        if "job" in known:
            _remove(job.out)
        raise
    if warnings.counts:
        print(f"{name}: {warnings.summary()}", file=sys.stderr)
    return statistics


def _remove(out: Path) -> None:
    """What was written of a task of official examples; the rest of ``out`` stays."""
    for made in ("stats.json", "texts.parquet", "examples.parquet", "splits.parquet"):
        (out / made).unlink(missing_ok=True)
    shutil.rmtree(out / "texts", ignore_errors=True)


def build_collection(
    name: str, files: Mapping[str, Path], directory: Path | str, options: Mapping[str, Any] | None = None
) -> Collection:
    """Read ``files`` (name in the layout → path) with the reader ``name`` into a collection directory.

    Raises ConfigError for an unknown reader, file name or option, or when a required file is not named, and DataError when a
    file is missing, damaged or not in the layout.
    """
    reader, options = reader_named(name), dict(options or {})
    if not reader.collection:
        layouts = ", ".join(key for key, one in READERS.items() if one.collection)
        raise ConfigError(
            f"reader {name!r} writes its task itself (task.py); those that make a collection are {layouts}."
        )
    check_files(name, reader, files)
    for table in reader.tables:
        if table not in files:
            raise ConfigError(f"{name}: it needs the files {', '.join(reader.tables)} of a corpus; {table} is missing.")
    for given, path in files.items():
        if not Path(path).is_file():
            raise DataError(f"{path}: no such file; reader '{name}' expects it as '{given}'.")
    check_options(name, reader, options)
    read = resolve_name(reader.read)
    with CollectionWriter(directory, name, reader.licence) as writer:
        read({given: Path(path) for given, path in files.items()}, writer, **options)
    return Collection(directory)
