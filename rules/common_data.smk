# Functions on corpora, data sets and tasks, shared by all stages: their files, and their options as the programs take them.


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


def corpus_sources(corpus):
    """The code that reads a corpus: that of its own readers only."""
    unused = unused_modules(part.reader for part in PLAN.corpus_parts(corpus))
    return [
        file
        for file in stage_sources("corpus.py")
        if not (
            os.path.dirname(file).endswith("corpora")
            and os.path.basename(file) in unused
        )
    ]


def excluded_titles(corpus):
    """The file of titles that a corpus leaves out, or none."""
    file = config["corpora"][corpus].get("exclude")
    return code_folder.given_or_code_file(file) if file else []


def given_vocabulary(corpus):
    """The file that stands for the given vocabulary of a corpus, or none: of a checkpoint of the hub, what says that it is
    there."""
    given = vocabulary_of(config, corpus).file
    if not given:
        return []
    return hub.files_of(given) if given.startswith("hub:") else PLAN.raw_file(given)


def datasets_read_by(reader):
    """Data sets that a reader of raw files serves."""
    return [
        name
        for name, options in config["datasets"].items()
        if options["reader"] == reader
    ]


def raw_files(dataset):
    """Name → path of a data set's ``files``."""
    return PLAN.dataset_files(dataset)


def named_files(dataset):
    """The same as an option: ``train=path dev=path``."""
    return " ".join(
        shlex.quote(f"{name}={path}") for name, path in raw_files(dataset).items()
    )


def collection_options(dataset):
    """Command-line options of a collection's task."""
    options = config["datasets"][dataset]
    words = [
        f"--{key.replace('_', '-')} {shlex.quote(str(options[key]))}"
        for key in ("title", "max_documents", "test")
        if key in options
    ]
    return " ".join(words)


def official_options(dataset):
    """Command-line options of a reader of official files."""
    options = config["datasets"][dataset]
    words = (
        [f"--counts {shlex.quote(options['counts'])}"] if "counts" in options else []
    )
    if options.get("reader_options"):
        words.append(f"--options {as_argument(options['reader_options'])}")
    return " ".join(words)


def task_options(dataset):
    """Command-line options of the descriptions reader."""
    options = config["datasets"][dataset]
    words = [
        f"--{key.replace('_', '-')} {shlex.quote(str(options[key]))}"
        for key in ("max_queries", "max_extra", "max_examples")
        if key in options
    ]
    return " ".join(words + (["--open"] if options.get("open") else []))


def size_arguments(dataset):
    """``1pct=0.01 5pct=0.05``: the training-set sizes of a task."""
    return " ".join(
        shlex.quote(f"{size}={share}")
        for size, share in config["datasets"][dataset]["sizes"].items()
    )


def open_corpus(dataset):
    """Tables of the corpus whose texts an open-domain task of questions adds to its own; none for another task."""
    is_open = config["datasets"][dataset].get("open")
    corpus = articles_of(config, dataset)
    return corpus_files(corpus, "articles", "passages") if is_open else []


def open_argument(dataset, corpus):
    """The options of an open-domain task of questions, or nothing."""
    if not corpus:
        return ""
    options = config["datasets"][dataset]
    words = [f"--open {shlex.quote(folder_of(corpus))}"]
    if options["open"] == "articles":
        words.append("--articles")
    if "max_extra" in options:
        words.append(f"--max-extra {options['max_extra']}")
    return " ".join(words)


def task_files(dataset):
    """What every later stage reads of a task."""
    directory = paths.task_dir(ROOT, dataset)
    names = paths.EXAMPLE_FILES if PLAN.is_examples(dataset) else paths.TASK_FILES
    if dataset in datasets_read_by("squad"):
        names = (*names, "answers.parquet")
    return [f"{directory}/{name}" for name in names]


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


def candidates_argument(dataset, sizes, wildcards):
    """The same, as an option."""
    runs = candidate_runs(dataset, sizes)
    return f"--candidates {' '.join(map(shlex.quote, runs))}" if runs else ""
