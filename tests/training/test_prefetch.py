"""Batches that a thread makes ahead: the same ones, in order, and never one too many.

The thread is for GPUs; a device object of that type is enough to start it, no GPU is touched.

Seen to fail when: a step's batches are taken for the next one's; one more is begun behind the last; a batch of another step is
handed out after a jump; the thread is started on a CPU; its exception is swallowed; it outlives the block.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from small import BUDGETS, CPU, make

from pretrieve.training.device import Device
from pretrieve.training.loop import Prefetch

GPU = Device(torch.device("cuda"), bf16=False)


class Maker:
    """Makes the step's number; remembers when each was begun and in which thread."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.begun, self.threads, self.fails_at = [], [], fails_at

    def __call__(self, step: int) -> list[int]:
        self.begun.append(step)
        self.threads.append(threading.current_thread())
        if step == self.fails_at:
            raise OSError(f"no file for step {step}")
        return [step]


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("first", [0, 4])
def test_the_same_batches_in_order(device: Device, first: int) -> None:
    make_one = Maker()
    with Prefetch(make_one, device) as batches_of:
        assert [batches_of(step, last=9) for step in range(first, 10)] == [[step] for step in range(first, 10)]
        if batches_of._pool is not None:
            batches_of._pool.submit(int).result()  # whatever was begun before has run by now
    assert make_one.begun == list(range(first, 10))  # each once, and nothing behind the last
    here = threading.current_thread()
    ahead = [thread is not here for thread in make_one.threads]
    assert ahead == [device is GPU and step > first for step in range(first, 10)]
    assert not any(thread.is_alive() for thread in make_one.threads if thread is not here)


def test_the_next_step_is_made_while_this_one_is_used() -> None:
    begun = threading.Event()

    def make_one(step: int) -> int:
        if step == 1:
            begun.set()
        return step

    with Prefetch(make_one, GPU) as batches_of:
        batches_of(0, last=1)
        assert begun.wait(timeout=10)
        assert batches_of(1, last=1) == 1


def test_a_jump_gives_the_step_that_is_asked_for() -> None:
    with Prefetch(Maker(), GPU) as batches_of:
        assert [batches_of(step, last=9) for step in (0, 1, 5, 6, 3)] == [[0], [1], [5], [6], [3]]


def test_an_exception_of_the_thread_surfaces_at_its_step() -> None:
    with Prefetch(Maker(fails_at=3), GPU) as batches_of:
        for step in range(3):
            assert batches_of(step, last=9) == [step]
        with pytest.raises(OSError, match="no file for step 3"):
            batches_of(3, last=9)


def test_leaving_early_waits_for_the_thread() -> None:
    make_one = Maker()
    with pytest.raises(KeyboardInterrupt), Prefetch(make_one, GPU) as batches_of:
        batches_of(0, last=9)
        raise KeyboardInterrupt
    assert not any(thread.is_alive() for thread in make_one.threads[1:])
    assert set(make_one.begun) <= {0, 1}


@pytest.mark.parametrize("name", ["mlm", "pairs"])
def test_real_batches_are_those_made_without_a_thread(store, name: str) -> None:
    objective = make(name, store, BUDGETS[1])

    def tokens(batches) -> list[np.ndarray]:
        packed = [(b.data.corrupted,) if name == "mlm" else b.data[:2] for b in batches]
        return [part.tokens for parts in packed for part in parts]

    with Prefetch(objective.micro_batches, GPU) as ahead:
        for step in range(6):
            found, wanted = tokens(ahead(step, last=5)), tokens(make(name, store, BUDGETS[1]).micro_batches(step))
            assert len(found) == len(wanted) > 1
            assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
