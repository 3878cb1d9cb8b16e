"""A machine's rates, measured by a short run of the same operations that are estimated: steps of a masked language model with the
scale's body, encoding, an optimiser's updates, inner products.

Texts are random tokens: never zeros, which some processors multiply faster. Of several repetitions the median counts. A core is
measured while others do the same, as they do in a run. Its seconds are processor time; a GPU's are by the clock. No rate is above
that of a plain matrix product: on a busy machine the difference of two passes can come out far too small.
"""

import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from pretrieve.models.batch import Asking, Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import make_body
from pretrieve.models.transformer import Transformer
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.operations.estimate.flops import (
    TRAINING,
    Texts,
    body_forward,
    first_rows,
    masked_rows,
    parameters,
    word_head,
)
from pretrieve.operations.estimate.machines import Rates, usable_cores
from pretrieve.text.packing import Packed
from pretrieve.training.device import Device, choose_device
from pretrieve.workflow.job_environment import allocator

#: FLOPs of a measured pass, by device: enough to fill it, little enough to be quick.
PASS_FLOPS = {"cpu": 2e10, "cuda": 2e13}
MASKED = 0.15
#: Seconds that a part is repeated for, at least, and repetitions at least.
ENOUGH, TIMES = 2.0, 5
#: Cores that are measured at a time, at most.
BESIDE = 8
#: Queries and documents of the measured inner products.
SEARCH = (256, 20_000)
#: Layers of the measured body: products are as fast in two as in twelve, and calls grow with their number.
LAYERS = 2


def median(function: Callable[[], object], device: torch.device) -> float:
    """Seconds of a call: the median of several, after one that does not count."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time

    def timed() -> float:
        begun = clock()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return max(clock() - begun, 1e-9)

    timed()
    taken = [timed()]
    while sum(taken) < ENOUGH or len(taken) < TIMES:
        taken.append(timed())
    return statistics.median(taken)


def random_texts(number: int, length: int, words: int) -> Packed:
    """``number`` texts of 60 to 100 % of ``length`` tokens, longest first."""
    rng = np.random.default_rng(1)
    lengths = np.sort(rng.integers(max(3, int(0.6 * length)), length + 1, number))[::-1].astype(np.int64)
    tokens = rng.integers(5, words, lengths.sum())
    return Packed(tokens, np.zeros_like(tokens), lengths, np.arange(number))


class _Passes:
    """Training and encoding passes of one body."""

    def __init__(self, body: BodyConfig, device: Device) -> None:
        self.body, self.device = body, device
        generator = torch.Generator().manual_seed(1)
        self.model = Transformer(body)
        self.model.initialise(generator)
        self.head = MaskedWordHead(body, 1)
        for module in (self.model, self.head):
            module.to(device.device).train()
        trained = [*self.model.parameters(), *self.head.parameters()]
        self.optimiser = torch.optim.AdamW(trained, lr=1e-5)

    def train(self, packed: Packed) -> None:
        rng = np.random.default_rng(2)
        rows = np.sort(rng.choice(len(packed.tokens), max(1, round(MASKED * len(packed.tokens))), replace=False))
        self.optimiser.zero_grad(set_to_none=True)
        with self.device.autocast():
            batch = Batch.of(packed, self.device.device)
            asking = Asking.of(rows, packed, batch)
            states = self.model(batch, asking=asking)[asking.rows]
            loss = self.head.loss(states, self.model.words.weight, batch.tokens[asking.rows])
        (loss / len(rows)).backward()

    def encode(self, packed: Packed) -> None:
        self.model.eval()
        with torch.inference_mode(), self.device.autocast():
            self.model(Batch.of(packed, self.device.device), first_only=True)
        self.model.train()

    def flops(self, packed: Packed) -> tuple[float, float]:
        """Of a training pass, and of an encoding pass."""
        texts = Texts(len(packed.lengths), len(packed.tokens), float((packed.lengths**2).sum()))
        masked = masked_rows(texts, MASKED)
        forward = body_forward(self.body, texts, masked) + word_head(self.body, masked.rows)
        return TRAINING * forward, body_forward(self.body, texts, first_rows(texts))


def measure_scale(scale: Mapping, core: bool = False, cores: int = 0) -> Rates:
    """The rates of this machine's GPU if it has one, or else (and with ``core``) of one of its cores, for a scale's body.

    cores: measured at the same time, at most :data:`BESIDE`; 0: all that can be used."""
    body = {"kind": "transformer", "vocabulary_size": scale["vocabulary_size"], "layers": scale["layers"]["deep"]}
    shape = BodyConfig.from_dict(body | dict(scale["body"]))
    if not core and torch.cuda.is_available():
        return measure(shape, scale["passage_length"])
    os.environ.update(allocator())  # as jobs have it
    beside = min(cores or usable_cores(), BESIDE)
    with ProcessPoolExecutor(beside, get_context("spawn")) as pool:
        waiting = [pool.submit(measure, shape, scale["passage_length"], True) for _ in range(beside)]
        return mean([one.result() for one in waiting])


def measure(body: BodyConfig, length: int, core: bool = False) -> Rates:
    """The rates of this machine's GPU if it has one, or else (and with ``core``) of one of its cores, for a Transformer of a
    body's width. length: of the longest texts, in tokens."""
    whole = body
    body = replace(body, kind="transformer", layers=LAYERS, dropout=0.0, max_positions=max(length, 8))
    device = choose_device()
    if core and device.device.type != "cpu":
        device = Device(torch.device("cpu"), bf16=False)
    kind = device.device.type
    passes = _Passes(body, device)
    one = passes.flops(random_texts(4, length, body.vocabulary_size))[0] / 4
    packed = random_texts(max(4, round(PASS_FLOPS[kind] / one)), length, body.vocabulary_size)
    tiny = random_texts(2, 4, body.vocabulary_size)
    train_flops, encode_flops = passes.flops(packed)
    pass_s = median(lambda: passes.train(tiny), device.device)
    train_s = median(lambda: passes.train(packed), device.device)
    encode_s = median(lambda: passes.encode(packed), device.device)
    update_s = median(passes.optimiser.step, device.device) / parameters(body)
    small = median(lambda: passes.encode(tiny), device.device)
    peak = _products(device)
    return Rates(
        machine=_machine(device),
        device=kind,
        origin="measured",
        products=peak,
        train=rate(train_flops, train_s, pass_s, peak),
        encode=rate(encode_flops, encode_s, small, peak),
        search=_search(body.hidden),
        pass_s=pass_s * max(1.0, whole.layers / LAYERS),
        gathered_s=_gathered(body, device.device),
        update_s=update_s,
        load_s=_load(whole),
        start_s=_start("pretrain"),
        light_s=_start("table"),
    )


def mean(measured: Sequence[Rates]) -> Rates:
    """The means of rates of the same kind of core."""
    values = [asdict(one) for one in measured]
    numbers = [key for key, value in values[0].items() if isinstance(value, float)]
    return replace(measured[0], **{key: statistics.fmean(one[key] for one in values) for key in numbers})


def rate(flops: float, seconds: float, overhead: float, peak: float) -> float:
    """FLOPs a second of a pass that takes ``seconds``, of which ``overhead`` (that of a tiny pass) is no arithmetic; at most
    ``peak``, the rate of a plain matrix product. An overhead above half of the pass is noise, and half is taken.

    >>> rate(1e9, 1.1, 0.1, 5e9), rate(1e9, 0.2, 0.3, 5e9), rate(1e9, 1.0, 0.9, 5e9)
    (1000000000.0, 5000000000.0, 2000000000.0)
    """
    return min(flops / max(seconds - overhead, seconds / 2), peak)


def _machine(device: Device) -> str:
    if device.device.type == "cuda":
        return f"{torch.cuda.get_device_name()}, {'bf16' if device.bf16 else 'fp32'}"
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name.*?:(.*)$", info.read_text(encoding="utf-8"), re.M) if info.is_file() else None
    name = named[1].strip() if named else platform.processor() or platform.machine()
    return f"one core of {name}, {'bf16' if device.bf16 else 'fp32'}"


def _products(device: Device) -> float:
    size = 8192 if device.device.type == "cuda" else 768
    kind = torch.bfloat16 if device.bf16 else torch.float32
    a, b = (torch.randn(size, size, device=device.device, dtype=kind) for _ in range(2))
    return 2 * size**3 / median(lambda: a @ b, device.device)


def _search(width: int) -> float:
    generator = torch.Generator().manual_seed(3)
    queries, documents = (torch.randn(rows, width, generator=generator) for rows in SEARCH)
    found = median(lambda: queries @ documents.T, torch.device("cpu"))
    return 2 * len(queries) * len(documents) * width / found


def _gathered(body: BodyConfig, device: torch.device) -> float:
    words, texts = body.vocabulary_size, 8
    table = torch.randn(64 * texts, body.hidden, device=device)
    where = torch.randint(0, len(table), (words, texts), device=device)
    weights = torch.rand(words, texts, device=device)
    bag = torch.nn.functional.embedding_bag
    taken = median(lambda: bag(where, table, mode="sum", per_sample_weights=weights), device)
    return taken / (words * texts * body.hidden)


def _load(body: BodyConfig) -> float:
    """Seconds to make a body, which is about what reading it takes."""
    begun = time.process_time()
    make_body(body, 1)
    return max(time.process_time() - begun, 1e-9)


def _start(program: str) -> float:
    """Processor seconds from the call of a program to the end of its imports."""
    command = [sys.executable, "-m", "pretrieve", program, "--help"]
    begun = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ended = os.times()
    return ended.children_user + ended.children_system - begun.children_user - begun.children_system
