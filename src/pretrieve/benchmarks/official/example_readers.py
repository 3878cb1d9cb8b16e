"""Benchmarks without retrieval in their official files: which files, how many records, whose licence, what reads them.

One entry of :data:`READERS` for each. The list itself imports nothing heavy, for the workflow reads it when it starts;
:func:`build_official` imports the reader. Where the counts come from:

* STS-B: the benchmark's readme (8,628 pairs, 5,749 / 1,500 / 1,379).
* GLUE: Hugging Face's copy (huggingface/datasets, datasets/glue/README.md), read from the same files by rules that this
  project shares, of QQP without its broken records.
* MIND: paper ``seed_encoder``, table 7, for the large set; for the small one no publication states them, users of its
  files do, in agreement.
* Section triplets: Reimers & Gurevych 2019 §4.4 for the test set, the data set card of
  huggingface.co/datasets/sentence-transformers/wikipedia-sections for the others.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrieve.base.errors import ConfigError, nearest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from pretrieve.tasks.example_splits import Size


@dataclass(frozen=True)
class ExampleReader:
    """``kind``: of the task (:mod:`pretrieve.tasks.example_task`); ``files``: name → the publisher's file;
    ``optional``: those that can be left out; ``counts``: file → records; ``options``: name → value unless given;
    ``fixed``: options that are no user's choice; ``url``: of the publisher, or of the archive."""

    kind: str
    module: str
    files: Mapping[str, str]
    counts: Mapping[str, int]
    licence: str
    url: str
    optional: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_SHARE = {"held_out_share": 0.01}


def _glue(task: str, archive: str, counts: Mapping[str, int], licence: str, dev: str = "dev.tsv", **more: Any):
    files = {"train": "train.tsv", "dev": dev, **more.pop("files", {})}
    url, fixed = f"{_GLUE}/{archive}", {"task": task}
    return ExampleReader("classification", "glue", files, counts, licence, url, options=_SHARE, fixed=fixed, **more)


def _mind(size: str, counts: Mapping[str, int]) -> ExampleReader:
    files = {
        "train": f"MIND{size}_train/behaviors.tsv",
        "train_news": f"MIND{size}_train/news.tsv",
        "dev": f"MIND{size}_dev/behaviors.tsv",
        "dev_news": f"MIND{size}_dev/news.tsv",
    }
    licence = "Microsoft Research License Terms: research, not commercial"
    options = {"candidate": "title and abstract", **_SHARE}
    return ExampleReader("clicks", "mind", files, counts, licence, "https://msnews.github.io", options=options)


_MNLI = "of the sources of MultiNLI, mostly the OANC's; see the corpus"
READERS: dict[str, ExampleReader] = {
    "sts-b": ExampleReader(
        "regression",
        "stsb",
        {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test.csv"},
        {"train": 5_749, "dev": 1_500, "test": 1_379},
        "of its sources; see LICENSE.txt of the archive",
        "http://ixa2.si.ehu.eus/stswiki",
    ),
    "mnli-matched": _glue("mnli", "MNLI.zip", {"train": 392_702, "dev": 9_815}, _MNLI, "dev_matched.tsv"),
    "mnli-mismatched": _glue("mnli", "MNLI.zip", {"train": 392_702, "dev": 9_832}, _MNLI, "dev_mismatched.tsv"),
    "qqp": _glue("qqp", "QQP-clean.zip", {"train": 363_846, "dev": 40_430}, "Quora's terms: not commercial"),
    "qnli": _glue("qnli", "QNLIv2.zip", {"train": 104_743, "dev": 5_463}, "CC BY-SA 4.0, as SQuAD"),
    "sst-2": _glue(
        "sst-2",
        "SST-2.zip",
        {"train": 67_349, "dev": 872, "test": 1_821},
        "not stated",
        files={"test": "test-labeled.tsv"},
        optional=("test",),
    ),
    "mind-large": _mind("large", {"train": 2_232_748, "train_news": 101_527, "dev": 376_471, "dev_news": 72_023}),
    "mind-small": _mind("small", {"train": 156_965, "train_news": 51_282, "dev": 73_152, "dev_news": 42_416}),
    "wiki-sections": ExampleReader(
        "triplet",
        "wiki_sections",
        {"train": "train.csv", "validation": "validation.csv", "test": "test.csv"},
        {"train": 1_779_417, "validation": 220_400, "test": 222_957},
        "CC BY-SA 3.0, text of Wikipedia",
        "https://sbert.net/datasets/wikipedia-sections-triplets.zip",
    ),
}


def reader_named(name: str) -> ExampleReader:
    """An entry of the list.

    Raises
    ------
    ConfigError
        for a name that is not in it.
    """
    if name not in READERS:
        raise ConfigError(f"reader {name!r} is unknown; choose from {', '.join(READERS)}{nearest(name, READERS)}.")
    return READERS[name]


def check_request(name: str, files: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> None:
    """Check the names of files and options for a reader.

    Raises
    ------
    ConfigError
        for an unknown reader, a file or an option that it does not have, a file that is missing, or one given twice.
    """
    reader = reader_named(name)
    for what, given, known in (("file", files, reader.files), ("option", options or {}, reader.options)):
        for key in given:
            if key not in known:
                has = ", ".join(known) or "none"
                raise ConfigError(f"{name}: no {what} {key!r}; it has {has}{nearest(key, known)}.")
    missing = [key for key in reader.files if key not in files and key not in reader.optional]
    if missing:
        wanted = ", ".join(f"{key} ({file})" for key, file in reader.files.items() if key not in reader.optional)
        raise ConfigError(f"{name}: the file '{missing[0]}' is missing; it needs {wanted}.")
    home: dict[str, str] = {}
    for key, path in files.items():
        if home.setdefault(str(path), key) != key:
            raise ConfigError(f"{name}: '{home[str(path)]}' and '{key}' are one file, {path}; each has its own.")


def builder_of(reader: ExampleReader) -> Callable[..., dict[str, Any]]:
    """The function that reads these files: ``build(files, job, **options)``."""
    from pretrieve.benchmarks.official import glue, mind, stsb, wiki_sections

    return {
        "stsb": stsb.build_stsb,
        "glue": glue.build_glue,
        "mind": mind.build_mind,
        "wiki_sections": wiki_sections.build_wiki_sections,
    }[reader.module]


def build_official(
    name: str,
    files: Mapping[str, Path],
    tokenizer: Tokenizer,
    out: Path,
    sizes: Mapping[str, Size],
    seed: int = 1,
    counts: str = "official",
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the task of a reader of the list and return its statistics; what was odd is summed up on standard error.

    counts: ``official``, or ``any`` for a part of the files; options: those of the entry. When anything fails, the
    files of a task are removed from ``out``.

    Raises
    ------
    ConfigError
        for a name or value that is not allowed, or a size that cannot be drawn.
    DataError
        for a file that is damaged, in another format, or has another number of records.
    """
    from pretrieve.benchmarks.official.example_reading import Job

    check_request(name, files, options)
    if counts not in ("official", "any"):
        raise ConfigError(f"counts is {counts!r}; expected official or any.")
    reader, out = READERS[name], Path(out)
    about = {"task": name, "url": reader.url, "licence": reader.licence, "seed": seed, "counts": counts}
    job = Job(tokenizer, out, sizes, seed, reader.counts if counts == "official" else {}, about)
    try:
        statistics = builder_of(reader)(
            {key: Path(path) for key, path in files.items()},
            job,
            **{**reader.options, **(options or {}), **reader.fixed},
        )
    except BaseException:
        for made in ("stats.json", "texts.parquet", "examples.parquet", "splits.parquet"):
            (out / made).unlink(missing_ok=True)
        shutil.rmtree(out / "texts", ignore_errors=True)
        raise
    if job.warnings.counts:
        print(f"{name}: {job.warnings.summary()}", file=sys.stderr)
    return statistics
