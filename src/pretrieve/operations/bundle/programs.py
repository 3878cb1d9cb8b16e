"""The programs of ``workflow_scripts/`` as a bundle runs them: the same library calls with the same arguments.

Three differ from the scripts. Pre-training and fine-tuning stop when the slice ends (:mod:`pretrieve.operations.bundle.slices`).
A search writes its run and no metrics file: that needs ranx, and is made when the results are unpacked, so that one
evaluator makes all of them; what it would have is shown (:mod:`pretrieve.operations.bundle.preview`). ``mine.py`` and
``predict.py`` run as they are.

Imports torch, numpy, pyarrow, tokenizers, safetensors and what these bring; ``predict`` also scipy, which comes with
scikit-learn.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from pretrieve.evaluation.entropy_file import write_entropy
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.finetuning.fine_tuning import FineTuning, options_of_size
from pretrieve.finetuning.finetune import finetune
from pretrieve.operations.bundle.jobs import Call
from pretrieve.operations.bundle.preview import preview
from pretrieve.operations.bundle.slices import after, alarm
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.retrieval.candidates import read_candidates
from pretrieve.retrieval.embed_task import embed_task
from pretrieve.retrieval.search_task import TaskIds, entropy_of, recall_file, search_task
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.cost import Cost
from pretrieve.training.device import Device
from pretrieve.training.run_settings import RunSettings


def run_call(call: Call, device: Device, until: float, checkpoint_seconds: float = 60.0) -> dict[str, float]:
    """Run one call on ``device`` until it is done, or until a moment of ``time.monotonic``; returns what a search scores.

    Raises
    ------
    Stopped
        when the time is over; a training run is saved then, anything else begins again.
    """
    if call.program in ("pretrain", "finetune"):
        train = _pretrain if call.program == "pretrain" else _finetune
        train(call, device, checkpoint_seconds, after(until))
        return {}
    with alarm(until):
        run = {"embed": _embed, "search": _search, "mine": _script, "predict": _script}[call.program]
        return run(call, device) or {}


def _threads(call: Call) -> int:
    return int(call.one("threads", "1"))


def _place(call: Call, name: str) -> Path | None:
    return Path(call.one(name)) if call.one(name) else None


def _pretrain(call: Call, device: Device, checkpoint_seconds: float, stop: Callable[[], bool]) -> None:
    out = Path(call.one("out"))
    with Cost("pretrain", _threads(call)) as cost:
        cost.tokens = pretrain(
            EncoderOptions.from_dict(call.json("options")),
            Path(call.one("store")),
            out,
            RunSettings(device, int(call.one("seed")), checkpoint_seconds, stop=stop),
            Path(call.one("checkpoints")),
            _place(call, "start"),
        ).tokens
    cost.write(out / "cost.json")


def _finetune(call: Call, device: Device, checkpoint_seconds: float, stop: Callable[[], bool]) -> None:
    size, out = call.one("sizes"), Path(call.one("out"))
    made_of = call.json("made-of").get(size, {})
    start, teacher = (Path(made_of[name]) if made_of.get(name) else None for name in ("start", "teacher"))
    negatives = {source: Path(file) for source, file in made_of.get("negatives", {}).items()}
    run = FineTuning(
        options_of_size(call.json("options"), size, call.options.get("watched", ())),
        Path(call.one("encoder")),
        Path(call.one("task")),
        size,
        int(call.one("seed")),
        device,
        Path(call.one("checkpoints")) / size,
        start,
        teacher,
        negatives,
    )
    behind = [f"{place}/cost.json" for place in (start, teacher) if place]
    behind += [str(file).replace(".jsonl.gz", ".cost.json") for file in negatives.values()]
    with Cost("finetune", _threads(call)) as cost:
        cost.tokens = finetune(run, out, checkpoint_seconds, stop).tokens
    cost.write(out / "cost.json", behind)


def _embed(call: Call, device: Device) -> None:
    options, out = call.json("options"), Path(call.one("out"))
    lengths, windows = (options["query_length"], options["passage_length"]), options.get("windows", 1)
    with Cost("embed", _threads(call)) as cost:
        data = Dataset(Path(call.one("task")))
        cost.tokens = embed_task(data, Path(call.one("retrievers")), out, *lengths, device, windows)
    cost.write(out / "cost.json")


def _search(call: Call, device: Device) -> dict[str, float]:
    task, path, candidates = Path(call.one("task")), Path(call.one("runs")), _place(call, "candidates")
    queries = SplitTable(task / "splits.parquet").needed(call.one("sizes"))
    ids, stores, threads = TaskIds.read(task), Path(call.one("stores")), _threads(call)
    given = read_candidates(candidates) if candidates else None
    depth, options = int(call.one("depth", "100")), call.json("options")
    run = search_task(ids, stores, queries, depth, options, threads, given, recall_file(path))
    write_trec(path, run, "dense")
    qrels = read_qrels(task / "qrels.parquet")
    write_entropy(path, entropy_of(ids, stores, queries, qrels, float(call.one("temperature", "1")), threads))
    return preview(run, task / "qrels.parquet", queries, call.options.get("metrics", ()))


def _script(call: Call, device: Device) -> None:
    words = call.words()
    if "log" in call.options:  # the runner has a log of its own
        place = words.index("--log")
        words = words[:place] + words[place + 1 + len(call.options["log"]) :]
    if call.program == "predict":
        words += ["--precision", "bf16" if device.bf16 else "fp32"]
    file = Path("workflow_scripts") / f"{call.program}.py"
    spec = importlib.util.spec_from_file_location(f"bundle_{call.program}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[], None] = module.main
    before = sys.argv
    sys.argv = [str(file), *words]
    try:
        main()
    finally:
        sys.argv = before
