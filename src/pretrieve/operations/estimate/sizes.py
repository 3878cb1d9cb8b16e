"""How large tasks, corpora and encoders' bodies are, as far as this is known before they are built.

For each task and corpus, the first that there is, told by ``origin``:

1. what a finished job counted: ``stats.json`` under ``results/``;
2. the line with its name in ``resources/counts.tsv``;
3. the lines of its raw files there, added up: documents of one file, queries of another;
4. a guess from the bytes of its raw files.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pretrieve.base import paths
from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import DataError
from pretrieve.benchmarks.readers import READERS
from pretrieve.models.config import BodyConfig
from pretrieve.models.published_configs import BERT_SIZES, T5_SIZES
from pretrieve.operations.estimate.training import CorpusLengths, TaskLengths
from pretrieve.raw import hub
from pretrieve.raw.sources import Source, source_of
from pretrieve.tasks.splits import is_share, share_of
from pretrieve.workflow.job_options import encoder_options, lineage
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import articles_of

COUNTS = code_file("resources/counts.tsv")
NUMBERS = ("documents", "document_tokens", "queries", "query_tokens", "train", "test", "texts", "articles", "sentences")
#: Of a guess: bytes of plain text for a word piece, word pieces of a document, how much larger compressed text is.
BYTES_PER_TOKEN, TOKENS_PER_DOCUMENT, UNPACKED = 5, 100, 3
PACKED = (".gz", ".bz2", ".zip", ".tgz", ".xz", ".zst")
#: Word pieces of a sentence, where nothing says how many a corpus has.
SENTENCE = 26.0
#: Share of the queries that may train, where nothing says how many do, and that are kept for development.
TRAINS, DEVELOPMENT = 0.8, 0.1
#: Share of the training examples that readers hold out for validation, unless a data set says another.
HELD_OUT = 0.1

Counts = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class TaskSize:
    """documents: candidates (of a task of examples: its texts); queries: all that it has (there: examples); tokens: mean
    word pieces without [CLS] and [SEP]; train, test: training-set size → queries or examples; texts: of an example."""

    documents: float
    document_tokens: float
    queries: float
    query_tokens: float
    train: Mapping[str, float]
    test: Mapping[str, float]
    origin: str
    texts: float = 0.0

    @property
    def lengths(self) -> TaskLengths:
        """As a tower reads them."""
        return TaskLengths(self.query_tokens + 2, self.document_tokens + 2)


@dataclass(frozen=True)
class CorpusSize:
    """passages, articles, sentences, and the word pieces of all of them."""

    passages: float
    articles: float
    sentences: float
    tokens: float
    origin: str

    @property
    def lengths(self) -> CorpusLengths:
        """Means of a passage, a sentence, an article."""
        return CorpusLengths(*(self.tokens / max(1.0, n) for n in (self.passages, self.sentences, self.articles)))


def read_counts(path: Path = COUNTS) -> Counts:
    """Name of a data set, a corpus or a source → its numbers; an empty field is skipped. Raises DataError for a line without a
    name, a name that occurs twice, or a field that is not a number."""
    found: dict[str, dict[str, float]] = {}
    with open(path, encoding="utf-8") as stream:
        lines = [(number, line) for number, line in enumerate(stream, 1) if line.strip() and not line.startswith("#")]
    header = lines[0][1].rstrip("\n").split("\t")
    for number, line in lines[1:]:
        row = dict(zip(header, line.rstrip("\n").split("\t"), strict=False))
        name = row.get("name", "")
        if not name or name in found:
            raise DataError(f"{path}, line {number}: name {name!r}: expected each name once.")
        try:
            found[name] = {key: float(row[key]) for key in NUMBERS if row.get(key)}
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}; expected numbers in {', '.join(NUMBERS)}.") from None
    return found


@dataclass
class Sizes:
    """The sizes of everything a plan works with. root: ``results/SCALE``, which may have finished jobs."""

    plan: Plan
    sources: Mapping[str, Source]
    counts: Counts
    root: str
    #: Names that were guessed.
    guessed: set[str] = field(default_factory=set)
    _tasks: dict[str, TaskSize] = field(default_factory=dict)
    _corpora: dict[str, CorpusSize] = field(default_factory=dict)

    def task(self, dataset: str) -> TaskSize:
        if dataset not in self._tasks:
            self._tasks[dataset] = self._counted_task(dataset) or self._expected_task(dataset)
        return self._tasks[dataset]

    def corpus(self, name: str) -> CorpusSize:
        if name not in self._corpora:
            self._corpora[name] = self._counted_corpus(name) or self._expected_corpus(name)
        return self._corpora[name]

    def downloaded_as(self, name: str) -> Source:
        """The source itself, or the archive that it comes in."""
        source = source_of(self.sources, name)
        while source.archive:
            source = source_of(self.sources, source.archive)
        return source

    def download(self, names: Iterable[str]) -> float:
        """Bytes to download for some sources, each archive once; what no publisher states counts 0."""
        return sum(source.bytes for source in {self.downloaded_as(name) for name in names})

    def on_disk(self, names: Iterable[str]) -> float:
        """Bytes of some sources when they are in place, with the archives that they came in."""
        names = list(names)
        members = [self.sources[name] for name in names if self.sources[name].archive]
        unknown = {self.downloaded_as(one.name) for one in members if not one.bytes}
        return self.download(names) + sum(one.bytes for one in members) + UNPACKED * sum(one.bytes for one in unknown)

    def _counted_task(self, dataset: str) -> TaskSize | None:
        file = Path(paths.task_dir(self.root, dataset)) / "stats.json"
        if not file.is_file():
            return None
        stats = json.loads(file.read_text(encoding="utf-8"))
        splits = stats.get("splits", {})
        if set(self.plan.config["datasets"][dataset]["sizes"]) - set(splits):
            return None  # counted before the configuration had these sizes
        train, test = ({size: counts.get(part, 0) for size, counts in splits.items()} for part in ("train", "test"))
        if "examples" in stats:
            texts, length = stats["texts_per_example"], stats["text_tokens"]
            history = max(1.0, stats.get("history", 0)) * length
            return TaskSize(stats["texts"], length, stats["examples"], history, train, test, "counted", texts)
        sizes = (stats["candidates"], stats["doc_tokens"], stats["queries"], stats["query_tokens"])
        return TaskSize(*sizes, train, test, "counted")

    def _expected_task(self, dataset: str) -> TaskSize:
        options = self.plan.config["datasets"][dataset]
        known, origin = self._known(dataset, options)
        known = {"document_tokens": TOKENS_PER_DOCUMENT, "queries": 1000, "query_tokens": 12, "texts": 2} | known
        documents = min(known["documents"], options.get("max_documents") or known["documents"])
        queries = min(known["queries"], options.get("max_queries") or options.get("max_examples") or known["queries"])
        train, test = self._split(dataset, queries, known.get("train"))
        if known.get("test"):
            test = dict.fromkeys(test, known["test"])
        sizes = (documents, known["document_tokens"], queries, known["query_tokens"])
        return TaskSize(*sizes, train, test, origin, known["texts"])

    def _known(self, dataset: str, options: Mapping[str, Any]) -> tuple[dict[str, float], str]:
        """What is known of a task's :data:`NUMBERS` (``documents`` always, if need be guessed), and where it is from."""
        files = list(options.get("files", {}).values())
        known, origin = dict(self.counts.get(dataset, {})), "listed"
        if not known:
            known, origin = self._added(files), "listed by file"
        if not known.get("documents") and (counts := READERS[options["reader"]].counts):
            known = {"documents": 2 * sum(counts.values()), "train": counts["train"]} | known
            known.setdefault("queries", sum(count for name, count in counts.items() if "news" not in name))
        if (options.get("open") or options["reader"] == "corpus") and dataset not in self.counts:
            more = self.corpus(articles_of(self.plan.config, dataset))
            texts, tokens = {
                "articles": (more.articles, more.lengths.article),
                "sentences": (more.sentences, more.lengths.sentence + more.lengths.passage),
            }.get(str(options.get("open")), (more.passages, more.lengths.passage))
            share = (options.get("reader_options") or {}).get("share", 1.0)
            known["documents"] = known.get("documents", 0) + min(texts * share, options.get("max_extra") or texts)
            known.setdefault("document_tokens", tokens)
        if not known.get("documents"):
            self.guessed.add(dataset)
            return self._guess(files) | known, "guessed from bytes"
        return known, origin

    def _split(self, dataset: str, queries: float, train: float | None) -> tuple[dict[str, float], dict[str, float]]:
        """Size → training examples without the held-out ones, and size → test queries: what a share leaves of the pool, and of
        sizes that are numbers, what the largest leaves. train: all that may train, where it is known."""
        sizes: dict[str, Any] = self.plan.config["datasets"][dataset]["sizes"]
        pool = (1 - DEVELOPMENT) * queries
        everything = TRAINS * queries if train is None else train
        wanted = {
            size: everything if share == "all" else min(share, everything) if share >= 1 else share * pool
            for size, share in sizes.items()
        }
        kept = {size: 1 - self.held_out(dataset, size) for size in sizes}
        trains = {size: max(1.0, kept[size] * number) for size, number in wanted.items()}
        most = max((number for size, number in trains.items() if not is_share(sizes[size])), default=0.0)
        drawn = {size: number if is_share(sizes[size]) else most for size, number in trains.items()}
        return trains, {size: max(1.0, pool - number / kept[size]) for size, number in drawn.items()}

    def held_out(self, dataset: str, size: str) -> float:
        """The share of a size's training examples that validates."""
        return share_of(self.plan.config["datasets"][dataset].get("valid_share", HELD_OUT), size)

    def _added(self, files: Iterable[str]) -> dict[str, float]:
        """The lines of some files as one: numbers add up, lengths are means."""
        rows = [self.counts[name] for name in dict.fromkeys(files) if name in self.counts]
        found: dict[str, float] = {}
        for key in ("documents", "queries", "train", "test", "articles"):
            if having := [row for row in rows if key in row]:
                found[key] = sum(row[key] for row in having)
        for key, of in (("document_tokens", "documents"), ("query_tokens", "queries")):
            if having := [row for row in rows if key in row]:
                found[key] = sum(row[key] * row.get(of, 1) for row in having) / max(1.0, found.get(of, 1))
        return found

    def _guess(self, files: Iterable[str]) -> dict[str, float]:
        names = [name for name in files if name in self.sources]
        plain = [name for name in names if self.sources[name].bytes and not self.sources[name].file.endswith(PACKED)]
        packed = [name for name in names if name not in plain]
        tokens = (sum(self.sources[name].bytes for name in plain) + UNPACKED * self.download(packed)) / BYTES_PER_TOKEN
        return {"documents": max(1000.0, tokens / TOKENS_PER_DOCUMENT)}

    def _counted_corpus(self, name: str) -> CorpusSize | None:
        folder = Path(paths.corpus_dir(self.root, name))
        stats, meta = folder / "stats.json", folder / "tokens/meta.json"
        if not (stats.is_file() and meta.is_file()):
            return None
        counts = json.loads(stats.read_text(encoding="utf-8"))
        tokens = json.loads(meta.read_text(encoding="utf-8"))["arrays"]["tokens"]["length"]
        return CorpusSize(counts["passages"], counts["articles"], counts["sentences"], tokens, "counted")

    def _expected_corpus(self, name: str) -> CorpusSize:
        options = self.plan.config["corpora"][name]
        if "parts" in options and name not in self.counts:
            parts = [self.corpus(part) for part in options["parts"]]
            origin = ", ".join(sorted({part.origin for part in parts}))
            numbers = [(part.passages, part.articles, part.sentences, part.tokens) for part in parts]
            return CorpusSize(*map(sum, zip(*numbers, strict=True)), origin)
        files = [options.get("dump"), options.get("leads"), *(options.get("files") or {}).values()]
        known = dict(self.counts.get(name) or self._added(filter(None, files)))
        origin = "listed"
        if not known.get("documents"):
            known, origin = self._guess(filter(None, files)) | known, "guessed from bytes"
            self.guessed.add(name)
        passages = known["documents"]
        tokens = passages * known.get("document_tokens", TOKENS_PER_DOCUMENT)
        sentences = known.get("sentences", tokens / SENTENCE)
        return CorpusSize(passages, known.get("articles", passages), sentences, tokens, origin)


def count_lines(sizes: Sizes) -> list[str]:
    """Lines of ``resources/counts.tsv`` for what is counted under ``root``: tasks of examples and of queries, and corpora."""
    lines = []
    for dataset in sizes.plan.config["datasets"]:
        size = sizes.task(dataset)
        if size.origin == "counted":
            largest = max(size.train, key=lambda name: size.train[name])
            train, texts = round(size.train[largest] / (1 - sizes.held_out(dataset, largest))), size.texts or ""
            values = (size.documents, size.document_tokens, size.queries, round(size.query_tokens, 2), train, "", texts)
            lines.append("\t".join(map(str, (dataset, *values, "", "", "counted"))))
    for corpus in sizes.plan.config["corpora"]:
        size = sizes.corpus(corpus)
        if size.origin == "counted":
            tokens = round(size.tokens / size.passages, 2)
            values = (size.passages, tokens, "", "", "", "", "", size.articles, size.sentences)
            lines.append("\t".join(map(str, (corpus, *values, "counted"))))
    return lines


#: Published encoders of T5 v1.1 (Hugging Face, config.json of google/t5-v1_1-*), where no copy tells its shape yet.
T5_SHAPES = {
    "small": {"hidden": 512, "layers": 8, "heads": 6, "head_size": 64, "feed_forward": 1024},
    "base": {"hidden": 768, "layers": 12, "heads": 12, "head_size": 64, "feed_forward": 2048},
    "large": {"hidden": 1024, "layers": 24, "heads": 16, "head_size": 64, "feed_forward": 2816},
}


def body_of(plan: Plan, encoder: str) -> BodyConfig:
    """The shape of an encoder; where it starts from a published one, that of its ``config.json``, once it is there."""
    encoders, options = plan.config["encoders"], encoder_options(plan.config, encoder).body
    every, start = encoders[encoder].get("layers_of_start", 1), encoders[lineage(plan.config, encoder)[-1]].get("start")
    if start:
        options = options | _published(start, options["kind"])
    config = BodyConfig.from_dict(options)
    return replace(config, layers=config.layers // every)


def _published(start: str, kind: str) -> dict[str, Any]:
    file = Path(hub.place_of(start)) / "config.json"
    if file.is_file():
        shown = json.loads(file.read_text(encoding="utf-8"))
        sizes = (T5_SIZES if kind == "t5" else BERT_SIZES).items()
        return {ours: shown[theirs] for ours, theirs in sizes if theirs in shown and ours != "max_positions"}
    if kind == "t5":
        return next((shape for word, shape in T5_SHAPES.items() if word in start), T5_SHAPES["base"])
    return {}
