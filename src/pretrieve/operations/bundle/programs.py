"""The commands (:mod:`pretrieve.commands`) as a bundle runs them: the same library calls with the same arguments.

Three differ from those. Pre-training and fine-tuning stop when the slice ends.
``retrieve`` writes its run and no metrics file: that needs ranx, and is made when the results are unpacked, so that one
evaluator makes all of them; what it would have is shown (:mod:`pretrieve.operations.bundle.preview`). ``mine`` and
``predict`` run as they are.

Imports torch, numpy, pyarrow, tokenizers, safetensors and what these bring; ``predict`` also scipy, which comes with
scikit-learn.

**The end of a slice.** Training asks after every step whether it is to stop (:func:`pretrieve.training.loop.train`):
:func:`after` answers. The next slice goes on from what was saved. What has no state to save, such as an embedding or a search, is
ended by :func:`alarm`, wherever it is: its files appear whole or not at all, and it begins again. A moment is of
``time.monotonic``; infinity is never.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from pretrieve.base.paths import cost_beside
from pretrieve.base.program import make_parser
from pretrieve.evaluation.retrieve import TaskSearch
from pretrieve.finetuning.fine_tuning import FineTuning, options_of_size
from pretrieve.finetuning.finetune import finetune
from pretrieve.operations.bundle.jobs import Call
from pretrieve.operations.bundle.preview import preview
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.cost import Cost
from pretrieve.training.device import Device
from pretrieve.training.loop import Stopped
from pretrieve.training.run_settings import RunSettings


def run_call(call: Call, device: Device, until: float, checkpoint_seconds: float = 60.0) -> dict[str, float]:
    """Run one call on ``device`` until it is done, or until a moment of ``time.monotonic``; returns what a search scores.

    Raises Stopped when the time is over; a training run is saved then, anything else begins again.
    """
    if call.program in ("pretrain", "finetune"):
        train = _pretrain if call.program == "pretrain" else _finetune
        train(call, device, checkpoint_seconds, after(until))
        return {}
    with alarm(until):
        run = {"retrieve": _retrieve, "mine": _command, "predict": _command}[call.program]
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
    behind += [cost_beside(file) for file in negatives.values()]
    with Cost("finetune", _threads(call)) as cost:
        cost.tokens = finetune(run, out, checkpoint_seconds, stop).tokens
    cost.write(out / "cost.json", behind)


def _retrieve(call: Call, device: Device) -> dict[str, float]:
    depths = (int(call.one("depth", "100")), int(call.one("mining-depth", "200")))
    task = TaskSearch(Path(call.one("task")), call.json("options"), call.json("search"), *depths, _threads(call))
    retriever, store, size = Path(call.one("retrievers")), Path(call.one("stores")), call.one("sizes")
    task.embed(retriever, store, device, code=call.one("vectors-code"))
    run = task.run(store, size, Path(call.one("runs")), _place(call, "candidates"))
    if negatives := _place(call, "negatives"):
        task.mine(store, retriever, size, negatives)
    return preview(run, task.task / "qrels.parquet", task.splits.needed(size), call.options.get("metrics", ()))


def _command(call: Call, device: Device) -> None:
    command = import_module(f"pretrieve.commands.{call.program}")
    words = call.words()
    if call.program == "predict":
        words += ["--precision", "bf16" if device.bf16 else "fp32"]
    command.main(make_parser(command).parse_args(words))


def after(until: float) -> Callable[[], bool]:
    """What says whether a moment has come."""
    return lambda: time.monotonic() >= until


@contextmanager
def alarm(until: float) -> Iterator[None]:
    """End the block with :class:`~pretrieve.training.loop.Stopped` when a moment comes."""
    if math.isinf(until):
        yield
        return

    def ring(*_: object) -> None:
        raise Stopped("the time of this slice is over")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
