"""What each of two processes does in test_finetuning_processes.py: gradients, runs, weights and lists written to a folder.

Usage: python two_finetuning_processes.py TASK OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from forked_pair import run_in_two
from ranking_small import CPU, KINDS, dual, gradients, objective
from safetensors.torch import save_file
from teacher_small import CONFIG, CURVE, OBJECTIVES

from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.train_curve import keep_run
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate


def main() -> None:
    data, out = Dataset(Path(sys.argv[1])), Path(sys.argv[2])
    processes = Processes.join()

    def write(name: str, tensors: dict[str, torch.Tensor]) -> None:
        save_file(tensors, out / f"{name}.{processes.rank}.safetensors")

    for kind in KINDS:
        for budget in (10**6, 100):
            made = objective(data, kind, budget, sharing="ade-ste")
            accumulate(made, made.micro_batches(1, processes.world), CPU, processes, (3, 1))
            processes.add_gradients(made.module.parameters())
            write(f"{kind}-{budget}", gradients(made.module))
    for name, make in OBJECTIVES.items():
        made = make(data, out, budget=200, processes=processes)
        train(made, CONFIG, RunSettings(CPU, 3, processes=processes))
        write(name, {n: t.detach().contiguous() for n, t in made.module.state_dict().items()})
    test = data.split("60pct", "test")
    keep_run(PresentSearch(dual(data, "ade"), data, CURVE, CPU, out / "steps", processes), test, 0)
    processes.leave()


if __name__ == "__main__":
    run_in_two(main)
