# Functions on corpora, data sets and tasks, shared by all stages: their files, and their options as the programs take them.


def of(function, *names):
    """An input or a parameter of a rule: ``function`` of the values that its wildcards ``names`` have."""
    return lambda wildcards: function(*(getattr(wildcards, name) for name in names))


def as_text(function, *names):
    """The same, as one shell word of JSON; of no wildcard where Snakemake would look for some between the braces."""
    return lambda wildcards: as_argument(
        function(*(getattr(wildcards, name) for name in names))
    )


def source_name(file):
    """The source that a raw file is."""
    return PLAN.source_at[f"{PLAN.source_folder}/{file}"]


def source_checksum(file):
    """What the list says; older lists have a column sha256."""
    source = PLAN.sources[source_name(file)]
    return source.get("checksum") or source["sha256"]


def corpus_files(name, *tables):
    """Parquet tables of a corpus."""
    return [f"{paths.corpus_dir(ROOT, name)}/{table}.parquet" for table in tables]


def corpus_raw_files(corpus):
    """Paths of the raw files of a corpus, with those of all its parts."""
    parts = PLAN.corpus_parts(corpus)
    return list(dict.fromkeys(file for part in parts for file in part.files.values()))


def corpus_arguments(corpus):
    """The same as options of corpus.py: ``--part NAME=READER FILE=PATH …`` for each part."""
    return " ".join(
        "--part "
        + " ".join(
            shlex.quote(f"{name}={value}")
            for name, value in ((part.name, part.reader), *part.files.items())
        )
        for part in PLAN.corpus_parts(corpus)
    )


def corpus_code(corpus):
    """The code that reads a corpus: that of its own readers only."""
    readers = [part.reader for part in PLAN.corpus_parts(corpus)]
    entries = repr([corpus_formats.READERS[reader] for reader in readers])
    return stage_code("corpus.py", *corpus_formats.modules_of(readers), entries=entries)


def excluded(corpus):
    """The list of titles whose articles a corpus leaves out, or none."""
    return config["corpora"][corpus].get("exclude", [])


def exclude_argument(corpus):
    return f"--exclude {shlex.quote(excluded(corpus))}" if excluded(corpus) else ""


def expected_counts(corpus):
    """``articles=4604``: counts that a corpus must have."""
    expected = config["corpora"][corpus].get("expect", {})
    return " ".join(shlex.quote(f"{name}={count}") for name, count in expected.items())


def vocabulary_size(corpus):
    return vocabulary_of(config, corpus).size


def given_argument(corpus):
    """The option of tokens.py that names the given vocabulary of a corpus, or nothing."""
    given = given_vocabulary(corpus)
    place = hub.vocabulary_place(given if isinstance(given, str) else "".join(given))
    return f"--given {shlex.quote(place)}" if place else ""


def overlapping_files(dataset):
    """The files of a task that have its test texts."""
    directory = paths.task_dir(ROOT, dataset)
    return [f"{directory}/{name}.parquet" for name in PLAN.overlapping_files(dataset)]


def given_vocabulary(corpus):
    """The file that stands for the given vocabulary of a corpus, or none: of a checkpoint of the hub, what says that it is
    there."""
    given = vocabulary_of(config, corpus).file
    if not given:
        return []
    return hub.files_of(given) if given.startswith("hub:") else PLAN.raw_file(given)


COLLECTION_FILES = [
    "collection.parquet",
    "queries.parquet",
    "qrels.parquet",
    "stats.json",
]
#: Rule → what it writes of a task.
TASK_KINDS = {
    "task": paths.TASK_FILES,
    "task_with_answers": (*paths.TASK_FILES, "answers.parquet"),
    "example_task": paths.EXAMPLE_FILES,
}


def reader_of(dataset):
    """The format of a data set."""
    return dataset_formats.READERS[config["datasets"][dataset]["reader"]]


def raw_files(dataset):
    """Name → path of a data set's ``files``."""
    return PLAN.dataset_files(dataset)


def collection_inputs(dataset):
    return list(raw_files(dataset).values())


def collection_words(dataset):
    """How collection.py is called: ``beir --files train=… --options {…}``."""
    options = config["datasets"][dataset]
    given = as_argument(options.get("reader_options", {}))
    return f"{options['reader']} --files {named_files(dataset)} --options {given}"


def named_files(dataset):
    """Name → path as an option: ``train=path dev=path``."""
    return " ".join(
        shlex.quote(f"{name}={path}") for name, path in raw_files(dataset).items()
    )


def collection_code(dataset):
    """The code that reads a collection: that of its own format only."""
    reader = reader_of(dataset)
    return stage_code("collection.py", reader.module, entries=repr(reader))


def task_code(dataset):
    """The code that makes a task: that of its own format only."""
    reader = dataset_formats.task_reader(config["datasets"][dataset]["reader"])
    return stage_code("task.py", reader.module, entries=repr(reader))


def task_kind(dataset):
    """The rule that makes a task."""
    if PLAN.is_examples(dataset):
        return "example_task"
    return "task_with_answers" if reader_of(dataset).answers else "task"


def task_inputs(dataset):
    """The files that a task is made of: its own, or those of its collection."""
    if not reader_of(dataset).collection:
        return list(raw_files(dataset).values())
    return [f"{ROOT}/collections/{dataset}/{name}" for name in COLLECTION_FILES]


def task_words(dataset):
    """How task.py is called: ``squad --files train=… --options {…}``."""
    options = config["datasets"][dataset]
    if reader_of(dataset).collection:
        reader, files = "collection", f"collection={ROOT}/collections/{dataset}"
    else:
        reader, files = options["reader"], named_files(dataset)
    words = [reader, *(["--files", files] if files else [])]
    given = dataset_formats.options_of(options)
    return " ".join(words + (["--options", as_argument(given)] if given else []))


def corpus_of_task(dataset):
    """Tables of the corpus that a task is made of, or of an open-domain task that it is searched in; none for another task."""
    reader, tables = reader_of(dataset), ()
    if not reader.collection and wants_corpus(config, dataset):
        tables = reader.tables or ("articles", "passages")
    return corpus_files(articles_of(config, dataset), *tables)


def corpus_argument(dataset):
    """The same corpus as an option, or nothing."""
    folder = paths.corpus_dir(ROOT, articles_of(config, dataset))
    return f"--corpus {shlex.quote(folder)}" if corpus_of_task(dataset) else ""


def size_arguments(dataset):
    """``1pct=0.01 5pct=0.05``: the training-set sizes of a task."""
    return " ".join(
        shlex.quote(f"{size}={share}")
        for size, share in config["datasets"][dataset]["sizes"].items()
    )


def task_files(dataset):
    """What every later stage reads of a task."""
    directory = paths.task_dir(ROOT, dataset)
    return [f"{directory}/{name}" for name in TASK_KINDS[task_kind(dataset)]]


def tokenizer_of(dataset):
    """The vocabulary that the texts of a data set are tokenised with."""
    return (
        f"{paths.corpus_dir(ROOT, vocabulary_corpus(config, dataset))}/tokenizer.json"
    )


def bm25_of(dataset):
    """BM25's k1 and b on a data set."""
    return config["datasets"][dataset].get("bm25", config["bm25"])


def candidate_runs(dataset, sizes):
    """In the rerank setting, the BM25 runs whose hits are ranked; of another data set, none."""
    if not config["datasets"][dataset].get("rerank"):
        return []
    return [paths.run_file(ROOT, f"bm25.reqa-{size}", dataset, 0) for size in sizes]


def score_arguments(dataset, sizes):
    """What is searched and how it is scored, as options: task, sizes, depth, metrics, conventions."""
    options = config["datasets"][dataset]
    words = ["--task", paths.task_dir(ROOT, dataset), "--sizes", *sizes]
    words += ["--depth", str(options.get("depth", 100))]
    words += ["--metrics", *PLAN.metrics_of(dataset)]
    return shlex.join([*words, "--conventions", *options.get("conventions", [])])


def metrics_of_parts(system, mean, seed):
    """The metrics files of the parts of a mean."""
    parts = PLAN.means[mean]
    return [paths.metrics_file(ROOT, system, part, seed) for part in parts]


def licences_of(dataset):
    """Where the texts of a task come from, and their licences, as shell words."""
    return shlex.join(PLAN.licences(dataset))


def science():
    """The configuration without what decides no result."""
    left_out = ("mirror", "checkpoint_seconds")
    return {key: value for key, value in config.items() if key not in left_out}


def figure_inputs(paper, figure):
    return figure_plan.figure_inputs(PLAN, f"{paper}/{figure}")


def figure_tables(paper, figure):
    """The published tables that a figure takes values from."""
    tables = PLAN.figures[f"{paper}/{figure}"].published_tables()
    return [f"references/{paper}/{table}.csv" for table in tables]
