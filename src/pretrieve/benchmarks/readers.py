"""Every format of data sets: what reads it, which files and options it has, how many records, whose licence.

A format is one module, and one entry of :data:`READERS`; the module is imported when a data set is read
(:mod:`pretrieve.benchmarks.reading`). Standard library only, for every call of Snakemake reads this file. Where counts come from:

* STS-B: the benchmark's readme.
* GLUE: Hugging Face's copy (huggingface/datasets, datasets/glue/README.md), of QQP without its broken records.
* MIND: paper ``seed_encoder``, table 7, for the large set; for the small one, which no publication counts, its users in
  agreement.
* Section triplets: Reimers & Gurevych 2019 §4.4 for the test set, the data set card of
  huggingface.co/datasets/sentence-transformers/wikipedia-sections for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.options import FLAG, Between, OneOf
from pretrieve.benchmarks.official.beir_sets import SETS


@dataclass(frozen=True)
class Reader:
    """A format of data sets.

    read: the function, ``module:name`` (what it is called with: :mod:`pretrieve.benchmarks.reading`). kind: of the recipes that
    its tasks are for. collection: whether it reads into a collection, from which a task is made, or writes the task itself.
    answers: whether its questions have answers to match.

    files: name → the publisher's file, or ''. optional: those that can be omitted; alone: a file that stands in place of all
    others. sources: name → the raw file of ``resources/sources.tsv`` where a data set names none. tables: of the corpus that a
    data set is made of; a collection gets them as files. negatives: the file without which a collection has none.

    keys: of the data set in ``config.yaml`` that reading depends on. allowed: what each of its ``reader_options`` may be (unless
    given, its value is the default of the function); fixed: options that are no user's choice.
    counts: file → records that the publisher states; licence; url: of the publisher, or of the archive.
    """

    read: str
    kind: str = "ranking"
    collection: bool = False
    answers: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    alone: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    negatives: str = ""
    keys: tuple[str, ...] = ()
    allowed: Mapping[str, OneOf | Between] = field(default_factory=dict, repr=False)  # decides no result
    fixed: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    licence: str = ""
    url: str = ""

    @property
    def module(self) -> str:
        return self.read.partition(":")[0]

    @property
    def required(self) -> list[str]:
        """Names of the files that a data set must name."""
        given = (*self.optional, *self.sources, *(self.tables if self.collection else ()), self.alone)
        return [name for name in self.files if name not in given]


_OFFICIAL, _MADE = "pretrieve.benchmarks.official", "pretrieve.benchmarks.made"
_SPLITS = ("train", "dev", "test")
_TABLES = ("articles", "sections", "passages")
_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_MSMARCO = "https://microsoft.github.io/msmarco"
#: So much is held out twice, and something must be left to train on.
_SHARES = {"held_out_share": Between(1e-6, 0.49)}
COUNT = Between(1, 10**9, whole=True)


def _names(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "")


def _glue(
    task: str, archive: str, counts: Mapping[str, int], licence: str, dev: str = "dev.tsv", **more: Any
) -> Reader:
    files = {"train": "train.tsv", "dev": dev, **more.pop("files", {})}
    about = {"files": files, "fixed": {"task": task}, "counts": counts, "licence": licence, "url": f"{_GLUE}/{archive}"}
    return Reader(f"{_OFFICIAL}.glue:build_glue", "classification", keys=("counts",), allowed=_SHARES, **about, **more)


def _mind(size: str, counts: Mapping[str, int]) -> Reader:
    kinds = (("", "behaviors"), ("_news", "news"))
    files = {f"{name}{end}": f"MIND{size}_{name}/{kind}.tsv" for name in ("train", "dev") for end, kind in kinds}
    return Reader(
        f"{_OFFICIAL}.mind:build_mind",
        "clicks",
        files=files,
        keys=("counts",),
        # what a candidate is described by: the paper's choice, and that of the released command
        allowed={"candidate": OneOf(("title and abstract", "title")), **_SHARES},
        counts=counts,
        licence="Microsoft Research License Terms: research, not commercial",
        url="https://msnews.github.io",
    )


def _msmarco(read: str, first: str, *more: str, **allowed: OneOf | Between) -> Reader:
    """The topics of TREC Deep Learning are read with these two as well: as test_queries and test_qrels."""
    optional = (*more, *(f"{split}_{what}" for split in _SPLITS for what in ("queries", "qrels")), "negatives")
    return Reader(
        f"{_OFFICIAL}.msmarco:{read}",
        collection=True,
        files=_names(first, *optional),
        optional=optional,
        negatives="negatives",
        allowed={"official": FLAG, **allowed},
        licence=f"non-commercial research ({_MSMARCO})",
        url=f"{_MSMARCO}/Datasets.html",
    )


def _pairs(read: str, **allowed: Between) -> Reader:
    """Training pairs of a corpus without training questions: sentences and their documents, or two crops of one document."""
    allowed = {"pairs": Between(10, 10**9, whole=True), **allowed, "seed": Between(0, 2**31 - 1, whole=True)}
    licence = "of the corpus: see its source"
    read = f"{_MADE}.corpus_pairs:{read}"
    return Reader(read, collection=True, files=_names("corpus"), allowed=allowed, licence=licence)


def _examples(kind: str, read: str, **least: int) -> Reader:
    """Examples that are made of the corpus; least: the options, which are numbers, and the smallest of each."""
    allowed = {name: Between(number, 10**6, whole=True) for name, number in least.items()}
    return Reader(f"{_MADE}.{read}", kind, tables=(*_TABLES, "links"), keys=("max_examples",), allowed=allowed)


_MNLI = "of the sources of MultiNLI, mostly the OANC's; see the corpus"
_WITH_TEST = {"files": {"test": "test-labeled.tsv"}, "optional": ("test",)}
READERS: dict[str, Reader] = {
    # Questions and passages
    "squad": Reader(
        f"{_OFFICIAL}.squad_reqa:build_squad",
        answers=True,
        files=_names(*_SPLITS, "file"),
        optional=("dev",),
        alone="file",
        keys=("open", "max_extra"),
    ),
    "natural-questions": Reader(
        f"{_OFFICIAL}.natural_questions:build_natural_questions",
        answers=True,
        files=_names("file"),
        alone="file",
        keys=("open", "max_extra"),
    ),
    "multireqa": Reader(
        f"{_OFFICIAL}.multireqa:build_multireqa",
        answers=True,
        files=_names("candidates", "texts"),
        allowed={"role": OneOf(("test", "train", "draw")), "context": FLAG},
    ),
    "descriptions": Reader(
        f"{_MADE}.descriptions:build_descriptions", tables=_TABLES, keys=("open", "max_queries", "max_extra")
    ),
    "fanoutqa": Reader(
        f"{_OFFICIAL}.fanoutqa:build_fanoutqa",
        files=_names("questions"),
        sources={"questions": "fanoutqa-dev"},
        tables=_TABLES,
    ),
    # Collections in official layouts
    "beir": Reader(
        f"{_OFFICIAL}.beir:read_beir",
        collection=True,
        files=_names("corpus", "queries", *_SPLITS),
        optional=_SPLITS,
        allowed={"name": OneOf(tuple(SETS)), "below_zero": OneOf(("error", "leave-out")), "test_share": Between(0, 1)},
        licence="of each set: see its publisher",
        url="https://github.com/beir-cellar/beir",
    ),
    "msmarco-passage": _msmarco("read_msmarco_passages", "collection", "titles"),
    "msmarco-document": _msmarco("read_msmarco_documents", "docs", url=FLAG, max_chars=COUNT),
    # Each split is a training file (biencoder-*.json) or questions with answers (*.qa.csv, JSON lines).
    "dpr": Reader(
        f"{_OFFICIAL}.dpr_collection:read_dpr",
        collection=True,
        answers=True,
        files=_names("passages", *_SPLITS),
        optional=("passages", *_SPLITS),
        negatives="train",
        allowed={"negatives": OneOf(("hard", "all", "none"))}
        | dict.fromkeys(("strip_quotes", "regular_expressions", "official"), FLAG),
        licence="passages CC BY-SA 3.0 (Wikipedia); questions: of each set, see its publisher",
        url="https://github.com/facebookresearch/DPR",
    ),
    # Passages of 100 words of an own corpus, and the questions that have an answer in them.
    "corpus": Reader(
        f"{_MADE}.corpus_collection:read_corpus",
        collection=True,
        answers=True,
        files=_names("articles", "passages", *_SPLITS),
        optional=_SPLITS,
        tables=("articles", "passages"),
        allowed={"words": COUNT, "regular_expressions": FLAG, "share": Between(1e-6, 1)},
        licence="of the corpus and of the questions: see their sources",
    ),
    "inverse-cloze": _pairs("read_inverse_cloze", keep=Between(0, 1)),
    "random-crops": _pairs("read_random_crops"),
    # Examples, made of a corpus or of questions
    "structure-sts": _examples("regression", "structure_sts:build_structure_sts"),
    "section-triplets": _examples("triplet", "section_triplets:build_section_triplets", per_article=1),
    "link-clicks": _examples("clicks", "link_clicks:build_link_clicks", candidates=3, first=1, lead_words=1),
    "question-entailment": Reader(
        f"{_MADE}.question_entailment:build_question_entailment", "classification", files=_names(*_SPLITS)
    ),
    # Examples in official files
    "sts-b": Reader(
        f"{_OFFICIAL}.stsb:build_stsb",
        "regression",
        files={"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test.csv"},
        keys=("counts",),
        counts={"train": 5_749, "dev": 1_500, "test": 1_379},
        licence="of its sources; see LICENSE.txt of the archive",
        url="http://ixa2.si.ehu.eus/stswiki",
    ),
    "mnli-matched": _glue("mnli", "MNLI.zip", {"train": 392_702, "dev": 9_815}, _MNLI, "dev_matched.tsv"),
    "mnli-mismatched": _glue("mnli", "MNLI.zip", {"train": 392_702, "dev": 9_832}, _MNLI, "dev_mismatched.tsv"),
    "qqp": _glue("qqp", "QQP-clean.zip", {"train": 363_846, "dev": 40_430}, "Quora's terms: not commercial"),
    "qnli": _glue("qnli", "QNLIv2.zip", {"train": 104_743, "dev": 5_463}, "CC BY-SA 4.0, as SQuAD"),
    "sst-2": _glue("sst-2", "SST-2.zip", {"train": 67_349, "dev": 872, "test": 1_821}, "not stated", **_WITH_TEST),
    "mind-large": _mind("large", {"train": 2_232_748, "train_news": 101_527, "dev": 376_471, "dev_news": 72_023}),
    "mind-small": _mind("small", {"train": 156_965, "train_news": 51_282, "dev": 73_152, "dev_news": 42_416}),
    "wiki-sections": Reader(
        f"{_OFFICIAL}.wiki_sections:build_wiki_sections",
        "triplet",
        files={"train": "train.csv", "validation": "validation.csv", "test": "test.csv"},
        keys=("counts",),
        counts={"train": 1_779_417, "validation": 220_400, "test": 222_957},
        licence="CC BY-SA 3.0, text of Wikipedia",
        url="https://sbert.net/datasets/wikipedia-sections-triplets.zip",
    ),
}
#: What makes a task of a collection, whichever its format.
COLLECTION = Reader(
    "pretrieve.tasks.collection_task:build_collection_task",
    files={"collection": "a directory that collection.py wrote"},
    keys=("title", "max_documents", "test", "valid_share", "dev_share"),
)


def reader_named(name: str) -> Reader:
    """An entry of the list. Raises ConfigError for a name that is not in it."""
    if name not in READERS:
        raise ConfigError(
            f"reader {name!r} is unknown; choose from {', '.join(READERS)}{nearest(name, READERS) or '.'}"
        )
    return READERS[name]


def task_reader(name: str) -> Reader:
    """What writes the task of a data set: its own reader, or for a collection :data:`COLLECTION`."""
    return COLLECTION if name == "collection" or reader_named(name).collection else READERS[name]


def options_of(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """What the task of a data set of the configuration is made with, beside its files and sizes."""
    reader = task_reader(dataset["reader"])
    own = {} if reader is COLLECTION else dataset.get("reader_options") or {}
    return {key: dataset[key] for key in reader.keys if key in dataset} | own


def ships_negatives(dataset: Mapping[str, Any]) -> bool:
    """Whether a data set of the configuration comes with negatives of its publisher: MS MARCO's triples where they are named,
    and DPR's hard negatives unless they are omitted.

    >>> ships_negatives({"reader": "dpr", "files": {"train": "biencoder-nq-train.json"}})
    True
    """
    named = reader_named(dataset["reader"]).negatives
    left_out = (dataset.get("reader_options") or {}).get("negatives") == "none"
    return bool(named) and named in dataset.get("files", {}) and not left_out


def check_files(name: str, reader: Reader, files: Mapping[str, Any]) -> None:
    """Raise ConfigError for a file that the format lacks, one that is missing, and of examples one that is given twice."""
    for key in files:
        if key not in reader.files:
            has = ", ".join(reader.files) or "none"
            raise ConfigError(f"{name}: no file {key!r}; it has {has}{nearest(key, reader.files) or '.'}")
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
    """Raise ConfigError for an option that the reader does not have, or a value that is not allowed."""
    for key, value in options.items():
        if key not in reader.allowed:
            names = reader.keys if reader is COLLECTION else reader.allowed
            raise ConfigError(
                f"{name}: no option {key!r}; it has {', '.join(names) or 'none'}{nearest(key, names) or '.'}"
            )
        if not (allowed := reader.allowed[key]).admits(value):
            hint = nearest(value, map(str, allowed.values)) if isinstance(allowed, OneOf) else ""
            raise ConfigError(f"{name}: reader_options.{key}: {value!r} is not allowed; allowed: {allowed}{hint}")


def check_dataset(dataset: Mapping[str, Any]) -> None:
    """Raise ConfigError for a reader, file or reader option of a data set of the configuration that is not allowed."""
    reader = reader_named(dataset["reader"])
    check_files(dataset["reader"], reader, dataset.get("files", {}))
    check_options(dataset["reader"], reader, dataset.get("reader_options") or {})
