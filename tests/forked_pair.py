"""Two processes of one group, with the environment that torchrun gives each; no test of its own.

They are forks of one program that has imported torch, which torchrun and each of its processes would do for themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch


def run_in_two(work: Callable[[], None]) -> None:
    """``work()`` in both processes; raises what one of them raises. Nothing may have been trained before: the threads of
    autograd do not outlive a fork."""
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)])  # the first optimiser of a program imports torch's compiler, which takes seconds
    port = 20_000 + os.getpid() % 10_000  # below those that the system gives to connections: no other process takes it
    os.environ.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.multiprocessing.start_processes(_as_one, (work,), nprocs=2, start_method="fork")


def _as_one(rank: int, work: Callable[[], None]) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    work()
