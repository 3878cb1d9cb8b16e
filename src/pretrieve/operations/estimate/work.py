"""What one job has to do, on any machine: FLOPs, passes, seconds of a core, and bytes that it leaves on the disk.

FLOPs of training and encoding follow from the job's options (:mod:`pretrieve.workflow.job_options`). What is not matrix products
is taken at rates of one CPU core that this project measured, each with its source below.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pretrieve.models.config import BodyConfig
from pretrieve.operations.estimate.flops import Texts, parameters, product
from pretrieve.operations.estimate.jobs import Graph, Job
from pretrieve.operations.estimate.sizes import Sizes, TaskSize, body_of
from pretrieve.operations.estimate.training import (
    Step,
    TaskLengths,
    document_windows,
    embedding,
    extra_parameters,
    finetuning_step,
    pair_texts,
    pretraining_step,
    score_pairs,
    vector_size,
)
from pretrieve.raw import hub
from pretrieve.workflow.job_options import encoder_options, recipe_options
from pretrieve.workflow.scales import corpus_of, vocabulary_of

#: Seconds of one core, measured on the project's machine.
PASSAGE_OF_DUMP = 2e-4  # benchmarks/results/c10_wiki.json: 40 pages of 46 passages, read and parsed in 0.38 s
COLLECTION_DOCUMENT = 1 / 236_000  # benchmarks/results/c11_collection.json, 1,000,000 passages
TOKEN = 0.795 / 1_724_755  # benchmarks/results/c9_tokens_pairs.json: words to stored ids
TRAINED_VOCABULARY_TOKEN = 4e-6  # the demo's vocabulary: 8 s for 1.7 M word pieces
INDEXED_DOCUMENT = 9.6 / 100_000  # benchmarks/results/c6_bm25.json: documents of 87 words
BM25_DOCUMENT = 0.61 / 2_000 / 100_000  # the same: one query against one document, 200 hits
HASHED_BYTES = 300e6  # copied and checked in a second
LINE_OF_RUN = 2e-6  # a hit, written, read and scored
#: Bytes that a word piece takes: as Parquet text with its ids, in a token store, in a Lucene index.
TEXT_BYTES, STORE_BYTES, INDEX_BYTES = 4.0, 2.1, 2.5
#: Bytes of a hit in a gzip'd run.
HIT_BYTES = 14


@dataclass(frozen=True)
class Work:
    """train, encode: FLOPs of training and of forward passes alone; search: of inner products with a collection, on a CPU;
    gathered: numbers picked out of the vocabulary; train_passes, encode_passes: micro-batches; updates: parameters times steps;
    cpu_s: other seconds of one core; shared_s: the same, where a job's threads share it; runs: models that are trained or
    loaded; disk, download: bytes; tokens, steps: for people."""

    train: float = 0.0
    encode: float = 0.0
    search: float = 0.0
    gathered: float = 0.0
    train_passes: float = 0.0
    encode_passes: float = 0.0
    updates: float = 0.0
    cpu_s: float = 0.0
    shared_s: float = 0.0
    runs: float = 0.0
    disk: float = 0.0
    download: float = 0.0
    tokens: float = 0.0
    steps: float = 0.0

    def __add__(self, other: Self) -> Self:
        """Both, one after the other."""
        return Work(**{key: mine + getattr(other, key) for key, mine in vars(self).items()})


def steps_of(examples: float, options: Mapping[str, Any]) -> int:
    """As :func:`pretrieve.finetuning.groups.steps_for`, for an expected number of examples; without torch.

    >>> steps_of(24, {"batch": 16, "steps": 60, "epochs": 10})
    15
    """
    batch = min(options["batch"], examples)
    return max(1, min(options["steps"], round(options["epochs"] * examples / batch)))


class Workload:
    """What the jobs of a plan have to do. budgets: tokens of a micro-batch in training and in encoding, by device."""

    def __init__(self, graph: Graph, sizes: Sizes, train_budget: int, encode_budget: int) -> None:
        self.graph, self.plan, self.sizes = graph, graph.plan, sizes
        self._train_budget, self._encode_budget = train_budget, encode_budget
        self._known: dict[Job, Work] = {}

    def of(self, job: Job) -> Work:
        if job not in self._known:
            parts = [getattr(self, f"_do_{part.stage}", self._data)(part) for part in self.graph.parts(job)]
            self._known[job] = sum(parts, Work())
        return self._known[job]

    def _encoding(self, flops: float, tokens: float) -> Work:
        return Work(encode=flops, encode_passes=max(1.0, tokens / self._encode_budget), tokens=tokens)

    def _training(self, step: Step, steps: float, numbers: float) -> Work:
        return Work(
            train=steps * step.flops,
            gathered=steps * step.gathered,
            train_passes=steps * step.micro_batches(self._train_budget),
            updates=steps * numbers,
            tokens=steps * step.tokens,
            steps=steps,
            runs=1.0,
        )

    def _data(self, job: Job) -> Work:
        """Of a stage that computes no vectors: what it reads and writes decides."""
        config = self.plan.config
        match job.stage:
            case "fetch":
                # Its bytes are counted where it is known which other files are in the same archive.
                return Work(cpu_s=self.sizes.on_disk([job.subject]) / HASHED_BYTES)
            case "fetch_checkpoint":
                starts = {name: entry.get("start") or "" for name, entry in config["encoders"].items()}
                named = [name for name, start in starts.items() if start.startswith("hub:")]
                named = [name for name in named if hub.place_of(starts[name]).endswith(f"/{job.subject}")]
                size = 4.0 * max((parameters(body_of(self.plan, name)) for name in named), default=110e6)
                return Work(cpu_s=5.0, download=size, disk=size)
            case "corpus":
                size = self.sizes.corpus(job.place)
                return Work(cpu_s=size.passages * PASSAGE_OF_DUMP, disk=TEXT_BYTES * size.tokens)
            case "vocabulary":
                tokens = self.sizes.corpus(job.place).tokens
                given = vocabulary_of(config, job.place).file
                return Work(cpu_s=1.0 if given else tokens * TRAINED_VOCABULARY_TOKEN, disk=1e6)
            case "token_store":
                tokens = self.sizes.corpus(job.place).tokens
                return Work(cpu_s=tokens * TOKEN, disk=tokens * STORE_BYTES, tokens=tokens)
            case "collection" | "task":
                size = self.sizes.task(job.place)
                tokens = size.documents * size.document_tokens + size.queries * size.query_tokens
                if job.stage == "collection":
                    return Work(cpu_s=size.documents * COLLECTION_DOCUMENT, disk=TEXT_BYTES * tokens)
                cpu_s = 2.0 + tokens * TOKEN + size.documents * COLLECTION_DOCUMENT
                return Work(cpu_s=cpu_s, disk=(TEXT_BYTES + STORE_BYTES) * tokens, tokens=tokens)
            case "published_negatives":
                hits = max(self.sizes.task(job.place).train.values()) * config["mining_depth"]
                return Work(cpu_s=2.0 + hits * LINE_OF_RUN, disk=hits * HIT_BYTES)
            case "overlap":
                return Work(cpu_s=2.0 + self.sizes.corpus(job.subject).tokens * TOKEN)
            case "pair_statistics":
                return Work(cpu_s=2.0 + self.sizes.corpus(job.place).passages * 1e-6)
            case "analyse":
                models = len([one for one in self.graph.needs(job) if one.stage in ("pretrain", "finetune")])
                return Work(cpu_s=models * 2.0, runs=float(models))
        cpu_s, disk = {"table": (1.0, 2e5), "figure": (3.0, 2e5), "report": (5.0, 3e6)}.get(job.stage, (1.0, 0.0))
        return Work(cpu_s=cpu_s, disk=disk)

    def _do_pretrain(self, job: Job) -> Work:
        options, body = encoder_options(self.plan.config, job.subject), body_of(self.plan, job.subject)
        numbers = parameters(body) + extra_parameters(options.objective, body)
        if options.budget is None:
            return Work(disk=4 * numbers, runs=1.0)
        corpus, budget = self.sizes.corpus(corpus_of(self.plan.config, job.subject)), options.budget
        step = pretraining_step(options, body, budget.batch, corpus.lengths, self._train_budget)
        texts = corpus.tokens / max(1.0, step.tokens / max(1.0, step.texts) - 2)
        work = self._training(step, budget.steps_over(texts), numbers)
        spared = (budget.heads_steps or 0) * (step.flops - step.frozen)
        left = 1 + len(self.plan.config["encoders"][job.subject].get("snapshots", ()))
        return replace(work, train=work.train - spared, disk=left * 4 * numbers)

    def _do_finetune(self, job: Job) -> Work:
        options, body = self._options_of(job)
        size, total = self.sizes.task(job.place), Work()
        lengths = self._lengths(options, size)
        numbers = parameters(body) * (1 if options.get("sharing", "sde") == "sde" else 2)
        watched = self.plan.watched_sizes.get((job.subject, job.place), ())
        for name in job.sizes:
            examples = size.train[name]
            if options.get("sources") == "separate":
                examples *= len(options["negatives"])
            step = finetuning_step(options, body, lengths, examples, self._train_budget)
            looks = options.get("curve", 0) if name in watched else 0
            searched = options["few_epochs"] if name != "full" else []
            work = Work()
            for own in [options | {"epochs": epochs} for epochs in searched] or [options]:
                steps = steps_of(examples, own)
                beside = self._beside(own, body, size, examples, steps, looks)
                work += self._training(step, steps, numbers) + replace(beside, tokens=0.0)
            total += replace(work, disk=work.disk + 4 * numbers, runs=1.0)
        return total

    def _lengths(self, options: Mapping[str, Any], size: TaskSize) -> TaskLengths:
        lengths = size.lengths
        if options["kind"] == "classification":
            return TaskLengths(lengths.query, size.texts * size.document_tokens + size.texts + 1)
        return lengths

    def _beside(
        self, options: Mapping[str, Any], body: BodyConfig, size: TaskSize, examples: float, steps: int, looks: int
    ) -> Work:
        """What a run does between its steps: validation, ``looks`` at the test queries' hits and ANCE's refreshes, which search
        with the present weights, and a teacher's scores."""
        work, kind = Work(), options["kind"]
        if kind != "ranking":
            return work
        if options["snapshots"]:
            texts = min(1024.0, examples) + min(1024.0, examples / 9)
            work += self._embedded(options, body, size, texts, 0.0, options["snapshots"] + 1.0)
        refreshes = (steps - 1) // options["refresh"] if options["refresh"] else 0
        for times, queries in ((looks, max(size.test.values(), default=0.0)), (refreshes, examples)):
            if times:
                work += self._embedded(options, body, size, size.documents, queries, times)
                work += Work(search=times * product(queries, vector_size(options, body), size.documents))
        if options["loss"] == "distillation":
            pairs = min(steps * options["batch"], examples * options["epochs"]) * options["group"]
            pairs = min(pairs, examples * (1 + options["pool"]))
            work += self._pairs(options, body, size, pairs)
        return work

    def _pairs(self, options: Mapping[str, Any], body: BodyConfig, size: TaskSize, number: float) -> Work:
        """A cross-encoder's scores."""
        texts = pair_texts(options, body, self._lengths(options, size), number)
        return self._encoding(score_pairs(body, texts), texts.tokens)

    def _embedded(
        self,
        options: Mapping[str, Any],
        body: BodyConfig,
        size: TaskSize,
        documents: float,
        queries: float,
        times: float = 1.0,
    ) -> Work:
        lengths = size.lengths
        sides = [
            document_windows(options, documents, lengths.document),
            Texts.of(queries, min(options["query_length"], lengths.query)),
        ]
        tokens = times * sum(texts.tokens for texts in sides)
        return self._encoding(times * sum(embedding(options, body, texts) for texts in sides), tokens)

    def _options_of(self, job: Job) -> tuple[dict[str, Any], BodyConfig]:
        encoder, _, recipe = job.subject.partition(".")
        return recipe_options(self.plan.config, recipe, self.plan.trained_on(job.place)), body_of(self.plan, encoder)

    def _widths(self, options: Mapping[str, Any], body: BodyConfig) -> tuple[float, float]:
        """Bytes of a document's and of a query's vector."""
        if options.get("representation", "dense") == "joint":
            dense = 0 if options["parts"] == "ot" else 4 * options["cls_dim"]
            words = options["parts"] != "cls"
            return dense + (8 * options["top"] if words else 0), dense + (4 * body.vocabulary_size if words else 0)
        width = 4 * vector_size(options, body)
        return width, width

    def _do_retrieve(self, job: Job) -> Work:
        test, depth = self.sizes.task(job.place).test, self.plan.config["datasets"][job.place].get("depth", 100)
        total = self._searches(job, test, depth, embedded=True)
        return total + self._do_mine(job) if (job.subject, job.place) in self.plan.mined else total

    def _do_mine(self, job: Job) -> Work:
        size = self.sizes.task(job.place)
        kept = {name: 1 - self.sizes.held_out(job.place, name) for name in job.sizes}
        queries = {name: size.train.get(name, size.queries) / kept[name] for name in job.sizes}
        return self._searches(job, queries, self.plan.config["mining_depth"], embedded=False)

    def _searches(self, job: Job, queries_of: Mapping[str, float], depth: int, embedded: bool) -> Work:
        """A search for each size, with the queries of it; embedded: the documents are embedded first, else they are there."""
        options, body = self._options_of(job)
        size, total = self.sizes.task(job.place), Work()
        of_document, of_query = self._widths(options, body)
        windows = document_windows(options, size.documents, size.lengths.document).number
        for name in job.sizes:
            queries = queries_of.get(name, size.queries)
            hits = queries * min(depth, size.documents)
            total += replace(
                self._embedded(options, body, size, size.documents if embedded else 0.0, queries),
                search=product(queries, of_document / 4, windows if embedded else size.documents),
                cpu_s=1.0 + hits * LINE_OF_RUN,
                runs=1.0,
                disk=(windows * of_document if embedded else 0.0) + queries * of_query + hits * HIT_BYTES,
            )
        return total

    def _do_bm25(self, job: Job) -> Work:
        size = self.sizes.task(job.place)
        hits = size.queries * min(self.plan.config["mining_depth"], size.documents)
        shared_s = size.documents * INDEXED_DOCUMENT * max(1.0, size.document_tokens / 110)
        shared_s += size.queries * size.documents * BM25_DOCUMENT
        scored_s = len(self.plan.bm25_systems(job.place)) * (0.5 + size.queries * 100 * LINE_OF_RUN)
        return Work(
            cpu_s=3 + hits * LINE_OF_RUN + scored_s,
            shared_s=shared_s,
            disk=size.documents * size.document_tokens * INDEX_BYTES + hits * HIT_BYTES,
        )

    def _do_predict(self, job: Job) -> Work:
        options, body = self._options_of(job)
        size, total = self.sizes.task(job.place), Work()
        for name in job.sizes:
            examples = size.test.get(name, size.queries)
            if options["kind"] == "classification":
                work = self._pairs(options, body, size, examples)
            else:
                users = examples if options["kind"] == "clicks" else 0.0
                work = self._embedded(options, body, size, examples * size.texts, users)
            total += replace(work, cpu_s=0.5, disk=examples * HIT_BYTES, runs=1.0)
        return total
