"""What the rules say of sources, corpora, data sets and tables: files, and arguments as the programs take them.

Loaded by every call of Snakemake: standard library only.
"""

import shlex
from collections.abc import Iterable, Sequence

from pretrieve.base import paths
from pretrieve.base.code_folder import code_file
from pretrieve.benchmarks import readers as dataset_formats
from pretrieve.corpora import readers as corpus_formats
from pretrieve.pretraining.presets import resolve
from pretrieve.raw import hub
from pretrieve.workflow.job_options import without_answers
from pretrieve.workflow.plan import Plan, as_argument
from pretrieve.workflow.scales import articles_of, vocabulary_corpus, vocabulary_of, wants_corpus
from pretrieve.workflow.stage_code import stage_code

COLLECTION_FILES = ("collection.parquet", "queries.parquet", "qrels.parquet", "stats.json")
#: Rule → what it writes of a task.
TASK_KINDS = {
    "task": paths.TASK_FILES,
    "task_with_answers": (*paths.TASK_FILES, "answers.parquet"),
    "example_task": paths.EXAMPLE_FILES,
}


def _named(values: Iterable[tuple[str, object]]) -> str:
    """``NAME=VALUE …`` as shell words."""
    return shlex.join(f"{name}={value}" for name, value in values)


class DataRules:
    """Names are those of wildcards; a method with ``argument``, ``words`` or ``options`` in its name gives shell words."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.config, self.root = plan, plan.config, plan.root

    def source_name(self, file: str) -> str:
        return self.plan.source_at[f"{self.plan.source_folder}/{file}"]

    def source_checksum(self, file: str) -> str:
        return self.plan.sources[self.source_name(file)]["checksum"]

    def corpus_files(self, name: str, *tables: str) -> list[str]:
        return [f"{paths.corpus_dir(self.root, name)}/{table}.parquet" for table in tables]

    def corpus_raw_files(self, corpus: str) -> list[str]:
        parts = self.plan.corpus_parts(corpus)
        return list(dict.fromkeys(file for part in parts for file in part.files.values()))

    def corpus_arguments(self, corpus: str) -> str:
        """``--part NAME=READER FILE=PATH …`` for each part."""
        parts = self.plan.corpus_parts(corpus)
        return " ".join(f"--part {_named([(part.name, part.reader), *part.files.items()])}" for part in parts)

    def corpus_code(self, corpus: str) -> str:
        """The code that reads a corpus: that of its own readers only."""
        readers = [part.reader for part in self.plan.corpus_parts(corpus)]
        entries = repr([corpus_formats.READERS[reader] for reader in readers])
        entries += self.contents_of(self.corpus_raw_files(corpus))
        return stage_code("corpus.py", *corpus_formats.modules_of(readers), entries=entries)

    def exclude_argument(self, corpus: str) -> str:
        return "".join(f"--exclude {shlex.quote(file)}" for file in self.plan.excluded(corpus))

    def expected_counts(self, corpus: str) -> str:
        """``articles=4604``: counts that a corpus must have."""
        return _named(self.config["corpora"][corpus].get("expect", {}).items())

    def vocabulary_size(self, corpus: str) -> int:
        return vocabulary_of(self.config, corpus).size

    def given_argument(self, corpus: str) -> str:
        """The option of tokens.py that names the given vocabulary of a corpus, or nothing."""
        given = self.plan.given_vocabulary(corpus)
        return f"--given {shlex.quote(hub.vocabulary_place(given[0]))}" if given else ""

    def ict_keep(self) -> float:
        """How often ICT leaves its sentence in the block, where pairs are counted."""
        given = self.plan.scale["pretraining"]["options"].get("pairs")
        return resolve("pairs", None, {}, "scales", given)["ict_keep"]

    def reader_of(self, dataset: str) -> dataset_formats.Reader:
        return dataset_formats.READERS[self.config["datasets"][dataset]["reader"]]

    def ships_negatives(self, dataset: str) -> bool:
        return dataset_formats.ships_negatives(self.config["datasets"][dataset])

    def collection_inputs(self, dataset: str) -> list[str]:
        return list(self.plan.dataset_files(dataset).values())

    def collection_words(self, dataset: str) -> str:
        """How collection.py is called: ``beir --files train=… --options {…}``."""
        options = self.config["datasets"][dataset]
        given = as_argument(options.get("reader_options", {}))
        return f"{options['reader']} --files {self.named_files(dataset)} --options {given}"

    def named_files(self, dataset: str) -> str:
        """Name → path as an option: ``train=path dev=path``."""
        return _named(self.plan.dataset_files(dataset).items())

    def contents_of(self, files: Iterable[str]) -> str:
        """What tells the contents of files of one's own corpus from others at the same places, whatever their dates; '' of all
        other files."""
        contents = self.config.get("my_corpus_found", {}).get("contents", {})
        return "".join(contents.get(file, "") for file in files)

    def collection_code(self, dataset: str) -> str:
        """The code that reads a collection: that of its own format only."""
        reader = self.reader_of(dataset)
        entries = repr(reader) + self.contents_of(self.collection_inputs(dataset))
        return stage_code("collection.py", reader.module, entries=entries)

    def task_code(self, dataset: str) -> str:
        """The code that makes a task: that of its own format only."""
        reader = dataset_formats.task_reader(self.config["datasets"][dataset]["reader"])
        return stage_code("task.py", reader.module, entries=repr(reader))

    def task_kind(self, dataset: str) -> str:
        if self.plan.is_examples(dataset):
            return "example_task"
        return "task_with_answers" if self.reader_of(dataset).answers else "task"

    def task_inputs(self, dataset: str) -> list[str]:
        """The files that a task is made of: its own, or those of its collection."""
        if not self.reader_of(dataset).collection:
            return self.collection_inputs(dataset)
        return [f"{self.root}/collections/{dataset}/{name}" for name in COLLECTION_FILES]

    def task_words(self, dataset: str) -> str:
        """How task.py is called: ``squad --files train=… --options {…}``."""
        options = self.config["datasets"][dataset]
        if self.reader_of(dataset).collection:
            reader, files = "collection", f"collection={self.root}/collections/{dataset}"
        else:
            reader, files = options["reader"], self.named_files(dataset)
        words = [reader, *(["--files", files] if files else [])]
        given = dataset_formats.options_of(options)
        return " ".join(words + (["--options", as_argument(given)] if given else []))

    def corpus_of_task(self, dataset: str) -> list[str]:
        """Tables of the corpus that a task is made of, or that an open-domain task is searched in; none for another task."""
        reader, tables = self.reader_of(dataset), tuple[str, ...]()
        if not reader.collection and wants_corpus(self.config, dataset):
            tables = reader.tables or ("articles", "passages")
        return self.corpus_files(articles_of(self.config, dataset), *tables)

    def corpus_argument(self, dataset: str) -> str:
        """The same corpus as an option, or nothing."""
        folder = paths.corpus_dir(self.root, articles_of(self.config, dataset))
        return f"--corpus {shlex.quote(folder)}" if self.corpus_of_task(dataset) else ""

    def size_arguments(self, dataset: str) -> str:
        """``1pct=0.01 5pct=0.05``: the training-set sizes of a task."""
        return _named(self.config["datasets"][dataset]["sizes"].items())

    def task_files(self, dataset: str) -> list[str]:
        """What every later stage reads of a task."""
        directory = paths.task_dir(self.root, dataset)
        return [f"{directory}/{name}" for name in TASK_KINDS[self.task_kind(dataset)]]

    def tokenizer_of(self, dataset: str) -> str:
        return f"{paths.corpus_dir(self.root, vocabulary_corpus(self.config, dataset))}/tokenizer.json"

    def bm25_of(self, dataset: str, key: str) -> float | str:
        given = self.config["datasets"][dataset].get("bm25", self.config["bm25"])
        return given.get(key, "en") if key == "language" else given[key]

    def answers_argument(self, dataset: str) -> str:
        """The option that keeps answers out of a data set's negatives, or nothing."""
        return "--without-answers" if without_answers(self.config, dataset) else ""

    def candidate_runs(self, dataset: str, sizes: Sequence[str]) -> list[str]:
        """In the rerank setting, the BM25 runs whose hits are ranked; of another data set, none."""
        if not self.config["datasets"][dataset].get("rerank"):
            return []
        return [paths.run_file(self.root, f"bm25.reqa-{size}", dataset, 0) for size in sizes]

    def score_arguments(self, dataset: str, sizes: Sequence[str]) -> str:
        """What is searched and how it is scored, as options: task, sizes, depth, metrics, conventions."""
        options = self.config["datasets"][dataset]
        words = ["--task", paths.task_dir(self.root, dataset), "--sizes", *sizes]
        words += ["--depth", str(options.get("depth", 100)), "--metrics", *self.plan.metrics_of(dataset)]
        return shlex.join([*words, "--conventions", *options.get("conventions", [])])

    def metrics_of_parts(self, system: str, mean: str, seed: int | str) -> list[str]:
        return [paths.metrics_file(self.root, system, part, seed) for part in self.plan.means[mean]]

    def licences_of(self, dataset: str) -> str:
        return shlex.join(self.plan.licences(dataset))

    def figure_tables(self, paper: str, figure: str) -> list[str]:
        tables = self.plan.figures[f"{paper}/{figure}"].published_tables()
        return [str(code_file(f"references/{paper}/{table}.csv")) for table in tables]
