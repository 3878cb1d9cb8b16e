"""Your own corpus: the configuration that compares pre-training objectives on a folder in BEIR's layout.

``snakemake my_corpus_report --config my_corpus=DIR``. :func:`with_my_corpus` makes of the project's configuration one in which

* the corpus that is pre-trained on is ``corpus.jsonl``, and the only data set is the folder: ``my-corpus``;
* the scale has the vocabulary and the body of one published encoder, ``my_corpus_options.start``. The encoder ``published`` is
  that one; those of ``my_corpus_options.objectives`` are trained further from it on the folder's texts, with equal steps each;
* all are fine-tuned by one recipe (:mod:`pretrieve.workflow.my_corpus_recipes`) on the train split. Without one, the training
  set is ``my-corpus-pairs``, pairs made of the corpus (:mod:`pretrieve.benchmarks.made.corpus_pairs`), and ``my-corpus`` only
  tests; where no pairs can be made, nothing is trained;
* which rows the table has of them: :mod:`pretrieve.workflow.my_corpus_rows`;
* results are in ``results/{scale}/my_corpus``, so that the scale's own are not touched.

The folder is checked first (:mod:`pretrieve.benchmarks.official.beir_folder`).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pretrieve.base.code_folder import CODE
from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.base.progress import VARIABLE
from pretrieve.benchmarks.official.beir_sets import set_called
from pretrieve.pretraining.objectives import PAIR_TASKS
from pretrieve.pretraining.presets import OPTIONS
from pretrieve.workflow.config_files import read_part
from pretrieve.workflow.configuration import check_config
from pretrieve.workflow.my_corpus_recipes import (
    CROSS,
    check_recipe,
    finetuning_of,
    fresh_projection,
    recipes_beside,
    recipes_of,
)
from pretrieve.workflow.recipe_configuration import LEAST_TOKENS
from pretrieve.workflow.scales import at_scale
from pretrieve.workflow.stage_code import stage_code

if TYPE_CHECKING:
    from pretrieve.benchmarks.official.beir_folder import Folder

NAME, PAIRS = "my-corpus", "my-corpus-pairs"
TARGET = "my_corpus_report"
SIZE = "full"
METRICS = ["ndcg@10", "mrr@10", "recall@10", "recall@100"]
#: The encoder that is the start itself, and the one that begins with random weights.
PUBLISHED, SCRATCH = "published", "scratch"


def with_my_corpus(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration for the folder that ``my_corpus`` names; the same one where it names none. Raises ConfigError or
    DataError with one sentence, for an option, file, id or split that is wrong or missing."""
    if not config.get("my_corpus"):
        return config
    check_config(at_scale(config), config["tables"])
    if "my_corpus_options" not in config:
        raise ConfigError("config: my_corpus_options is missing; config.yaml of the project has it.")
    _check_options(config)
    return configured(config, looked_at(config))


def _check_options(config: Mapping[str, Any]) -> None:
    """Before the documents are looked at, by the keys that a user writes: raise ConfigError for the first option that is
    unknown, has a value that its recipe does not admit, or needs more hits than there are."""
    options = config["my_corpus_options"]
    depth, least = options["depth"], max(int(metric.partition("@")[2]) for metric in METRICS)
    if depth < least:
        raise ConfigError(
            f"config: my_corpus_options.depth: {depth} hits of a query are too few for the metrics; expected {least} or more"
        )
    if options["rerank"] > depth:
        raise ConfigError(
            f"config: my_corpus_options.rerank: {options['rerank']} is more than the {depth} hits of my_corpus_options.depth; "
            "lower it, or raise depth"
        )
    check_recipe(at_scale(config))
    room = options["scale"]["body"]["max_positions"]
    for where, given in (("", options), *((f"{name}.", options[name]) for name in ("finetuning", "reranker"))):
        for option, low in LEAST_TOKENS.items():
            if option in given and not low <= given[option] <= room:
                raise ConfigError(
                    f"config: my_corpus_options.{where}{option}: {given[option]} is not allowed; expected {low} to {room}, the "
                    "positions of the body"
                )


def looked_at(config: Mapping[str, Any]) -> Folder:
    """What the place has: a folder in BEIR's layout as it is, all others once their documents are in it. Raises ConfigError
    for options of other places, and what reading raises."""
    # They load Parquet's library, which other calls of Snakemake do without.
    from pretrieve.benchmarks.official.beir import packed_file
    from pretrieve.benchmarks.official.beir_folder import look_at
    from pretrieve.corpora.any_corpus import Wanted, converted, path_of

    options, place = config["my_corpus_options"], str(config["my_corpus"])
    folder, language = path_of(place), options.get("language", "auto")
    wanted = Wanted(**{key: options[key] for key in ("documents", "columns") if key in options})
    if folder.is_dir() and (corpus := packed_file(folder, "corpus.jsonl")):
        if wanted != Wanted():
            key = "columns" if wanted.columns else "documents"
            other = f", or name the file, a table: my_corpus={corpus}" if wanted.columns else ""
            raise ConfigError(
                f"config: my_corpus_options.{key}: {corpus} has BEIR's layout, which is read as it is; leave {key} out{other}"
            )
        return look_at(folder, language=language)
    made = Path(f"results/{config['scale']}/my_corpus/documents")
    corpus, notes = converted(place, made, wanted, stage_code("make_corpus.py"))
    beside = folder if folder.is_dir() else folder.parent if folder.is_file() else made
    try:
        found = look_at(beside, corpus, language)
    except DataError as error:  # the notes may say why an id is unknown: a table without a column of ids
        raise DataError(" ".join([str(error), *(f"Note on {corpus.name}: {note}." for note in notes)])) from None
    return replace(found, notes=(*notes, *found.notes))


def refuse_report() -> NoReturn:
    raise ConfigError(
        f"{TARGET} needs a corpus: snakemake {TARGET} --config my_corpus=path/to/dir (docs/your-own-corpus.md)."
    )


def configured(config: Mapping[str, Any], folder: Folder) -> dict[str, Any]:
    """The same for a folder that was already checked."""
    options, given = config["my_corpus_options"], config
    config = at_scale(config)  # the scale's own entries go with the general ones
    made = copy.deepcopy(dict(config))
    scale = made["scales"][config["scale"]]
    scale |= copy.deepcopy(dict(options["scale"]))
    scale |= {"corpus": NAME, "roles": {}, "passage_length": options["passage_length"]}
    for key in ("means", "originals"):
        scale.pop(key, None)  # of data sets that are not there any more
    objectives = {"pairs": {"head": "none"}} | copy.deepcopy(dict(options["pretraining"]))
    for objective in ("retromae", "dupmae"):  # packed as all others, whose texts they are compared on
        objectives.setdefault(objective, {}).setdefault("packing", "whole")
    scale["pretraining"] |= {
        "budgets": dict(options["budgets"]),
        "examples": options["examples"],
        "options": objectives,
    }
    name, made["recipes"] = options["recipe"], recipes_of(config)
    recipe, lengths = made["recipes"][name], {key: scale[key] for key in ("query_length", "passage_length")}
    scale["finetuning"] = finetuning_of(recipe, lengths)
    encoders, trains = _encoders(options, folder), bool(folder.has_train or folder.pairs)
    left = [name for name in options["objectives"] if trains and name not in encoders]
    made |= {
        "seeds": list(options["seeds"]),
        "figures": [],
        "analyses": {},
        "corpora": {NAME: {"reader": "beir", "files": {"corpus": folder.files["corpus"]}}},
        "datasets": _datasets(folder, options) if folder.has_queries else {},
        "encoders": encoders,
        "bm25": {**config["bm25"], "language": folder.language},
        "my_corpus_found": {
            "language": folder.language,
            "contents": dict(folder.contents),
            # Also of files whose names are not UTF-8, for a page has them.
            "notes": [note.encode(errors="backslashreplace").decode() for note in folder.notes],
            "trains": trains,
            "skipped": {name: _lacks(name.split("-"), folder) for name in left},
            # A cross-encoder needs questions, and documents enough for negatives. Pairs that are made of the texts would teach it
            # only which text is the same.
            "reranks": bool(folder.has_train and folder.pairs),
            "start_reads_it": folder.language in options["start_languages"],
        },
    }
    if made["datasets"]:
        made["recipes"] |= recipes_beside(config)
        notes = made["my_corpus_found"]["notes"]
        notes += _without_effect(given, made)
        notes += fresh_projection(config, name, recipe) if trains else []
    return made


def _without_effect(given: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """What a user gave, other than the code's own ``config.yaml`` has, and a comparison does not use: a line each."""
    usual, options, found = read_part(CODE / "config.yaml"), given["my_corpus_options"], made["my_corpus_found"]
    trained = [encoder for encoder in made["encoders"].values() if encoder["objective"] != "none"]
    objectives = {"pairs" if isinstance(one["objective"], list) else one["objective"] for one in trained}
    unused = {"pretraining": dict.fromkeys(options["pretraining"].keys() - objectives, "no row has this objective")}
    if "timetable" not in options:  # a plan has written all of them
        others = options["budgets"].keys() - {one["budget"] for one in trained}
        unused["budgets"] = dict.fromkeys(others, "no row has it")
    taught = [name for name, entry in made["recipes"].items() if entry.get("recipe", name) == CROSS]
    for part, names in (("finetuning", [options["recipe"]]), ("reranker", taught)):
        has = [made["recipes"][name]["options"] for name in names]
        unused[part] = {
            key: f"the recipe has {has[-1][key]}" if key in has[-1] else "the recipe does not have it"
            for key, value in options[part].items()
            if all(one.get(key) != value for one in has)
        }
    lines = [
        f"{part}.{key} has no effect: {why}"
        for part, keys in unused.items()
        for key, why in sorted(keys.items())
        if options[part][key] != usual["my_corpus_options"].get(part, {}).get(key)
    ]
    if PAIRS not in made["datasets"] and options["pairs"] != usual["my_corpus_options"]["pairs"]:
        lines.append("pairs has no effect: none are made")
    lines = [f"my_corpus_options.{line}" for line in lines]
    if options["rerank"] and found["trains"] and not found["reranks"]:
        lines.append("no row with a cross-encoder (rerank): it needs training questions, and documents for negatives")
    if given.get("seeds", options["seeds"]) != options["seeds"]:
        lines.append(f"seeds has no effect: my_corpus_options.seeds is {options['seeds']}")
    if given["bm25"].get("language", found["language"]) != found["language"]:
        lines.append(f"bm25.language has no effect: my_corpus_options.language is {options.get('language', 'auto')}")
    if given["metrics"] != usual["metrics"]:
        lines.append(f"metrics has no effect: the table has {', '.join(METRICS)}")
    return lines + ["only has no effect: my_corpus_options.objectives decides the rows"] * ("only" in given)


def _datasets(folder: Folder, options: Mapping[str, Any]) -> dict[str, Any]:
    both = {"title": "prefix", "metrics": METRICS, "sizes": {SIZE: "all"}}
    own = both | {"reader": "beir", "files": dict(folder.files), "depth": options["depth"]}
    if set_called(Path(folder.files["queries"]).parent.resolve().name).own_ids:
        own |= {"conventions": ["drop-identical-ids"], "depth": options["depth"] + 1}
    if folder.test_share:
        own["reader_options"] = {"test_share": folder.test_share}
    if folder.has_train or not folder.pairs:
        return {NAME: own}
    pairs = {"reader": folder.pairs, "files": {"corpus": folder.files["corpus"]}}
    pairs |= both | {"reader_options": {"pairs": options["pairs"]}}
    return {NAME: own | {"trained_on": PAIRS}, PAIRS: pairs}


def _encoders(options: Mapping[str, Any], folder: Folder) -> dict[str, Any]:
    body = {"body": "transformer", "layers": "deep"}
    begun = body | {"start": options["start"]}
    encoders = {PUBLISHED: begun | {"objective": "none"}}
    words = ("bert", *(name for name in OPTIONS if name not in ("none", "mlm", "pairs")))
    for name in options["objectives"]:
        tasks = name.split("-")
        if name == SCRATCH:
            encoders[name] = body | {"objective": "mlm", "budget": "scratch"}
        elif name in words:
            encoders[name] = begun | {"objective": "mlm" if name == "bert" else name, "budget": "continued"}
        elif not set(tasks) <= set(PAIR_TASKS):
            raise ConfigError(
                f"config: my_corpus_options.objectives: {name!r} is not allowed; allowed: {', '.join(words)}, {SCRATCH}, and "
                f"pair tasks with - between them: {', '.join(PAIR_TASKS)}{nearest(name, [*words, SCRATCH, *PAIR_TASKS])}"
            )
        elif not _lacks(tasks, folder):
            encoders[name] = begun | {"objective": tasks, "dim": "full", "budget": "pairs"}
    return encoders if folder.has_train or folder.pairs else {PUBLISHED: encoders[PUBLISHED]}


def _lacks(tasks: list[str], folder: Folder) -> str:
    """Why no pairs of these tasks can be made of the documents; '' where they can."""
    if "wlp" in tasks:
        return "documents of a folder have no links"
    if not folder.has_sentences:
        return "hardly a document is cut into two sentences"
    return "" if folder.has_sections or tasks == ["ict"] else "no sections (lines '# …')"


def compares(config: Mapping[str, Any]) -> bool:
    """Whether this is a run on one's own corpus that has questions to compare on."""
    return bool(config.get("my_corpus")) and NAME in config["datasets"]


def files_of(config: Mapping[str, Any], root: str) -> list[str]:
    """What a run on one's own corpus makes: the comparison, or without questions an index; [] for any other run."""
    names = [*(["table.csv", "table.md", "table.html"] if compares(config) else []), "retriever"]
    return [f"{root}/{name}" for name in names] if config.get("my_corpus") else []


def timetable_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The variable that tells jobs of the run's timetable, where its plan has one."""
    timetable = config["my_corpus_options"].get("timetable") if config.get("my_corpus") else None
    return {VARIABLE: timetable} if timetable else {}


def remarks(config: Mapping[str, Any]) -> list[str]:
    """What the folder has or lacks, and each objective that its texts do not allow; for one line each."""
    lines = list(config["my_corpus_found"]["notes"])
    if not compares(config):
        return lines  # nothing is trained or fused
    if not config["my_corpus_found"]["start_reads_it"]:
        read = ", ".join(config["my_corpus_options"]["start_languages"])
        lines.append(
            f"the published encoder was trained in other languages ({read}): without development questions, hybrids give BM25 "
            "most of the weight"
        )
    if config["datasets"][NAME].get("conventions"):
        lines.append(
            "the folder is called as a BEIR set whose queries have ids of documents: a hit with that id is dropped"
        )
    return lines + [f"{name} is skipped: {lacks}" for name, lacks in config["my_corpus_found"]["skipped"].items()]


def print_remarks(config: Mapping[str, Any]) -> None:
    """On standard error, before the first job; nothing of any other run."""
    for line in remarks(config) if config.get("my_corpus") else ():
        print(f"my_corpus: {line}.", file=sys.stderr)
