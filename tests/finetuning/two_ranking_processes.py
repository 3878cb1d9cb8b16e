"""What each of two processes does in test_ranking.py: the gradient of a step for every kind of loss, in a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from ranking_small import CPU, KINDS, gradients, objective
from safetensors.torch import save_file

from pretrieve.tasks.dataset import Dataset
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate


def main() -> None:
    data, out = Dataset(Path(sys.argv[1])), Path(sys.argv[2])
    processes = Processes.join()
    torch.set_num_threads(1)
    for kind in KINDS:
        for budget in (10**6, 100):
            made = objective(data, kind, budget, sharing="ade-ste")
            batches = made.micro_batches(1, processes.world)
            accumulate(made, batches, CPU, processes, (3, 1))
            processes.add_gradients(made.module.parameters())
            save_file(gradients(made.module), out / f"{kind}-{budget}.{processes.rank}.safetensors")
    processes.leave()


if __name__ == "__main__":
    main()
