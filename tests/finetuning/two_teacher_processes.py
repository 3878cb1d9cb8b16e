"""What each of two processes does in test_teacher_processes.py: a run, its weights and lists written to a folder.

Usage: torchrun --nproc-per-node 2 two_teacher_processes.py TASK OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from ranking_small import CPU, dual
from safetensors.torch import save_file
from teacher_small import CONFIG, CURVE, OBJECTIVES

from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.train_curve import keep_run
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.processes import Processes


def main() -> None:
    data, out = Dataset(Path(sys.argv[1])), Path(sys.argv[2])
    processes = Processes.join()
    torch.set_num_threads(1)
    for name, make in OBJECTIVES.items():
        objective = make(data, out, budget=200, processes=processes)
        train(objective, CONFIG, RunSettings(CPU, 3, processes=processes))
        state = {n: t.detach().contiguous() for n, t in objective.module.state_dict().items()}
        save_file(state, out / f"{name}.{processes.rank}.safetensors")
    test = data.split("60pct", "test")
    keep_run(PresentSearch(dual(data, "ade"), data, CURVE, CPU, out / "steps", processes), test, 0)
    processes.leave()


if __name__ == "__main__":
    main()
