"""What test_processes.py starts: each of two processes does all of this and writes what came out under its rank.

Usage: python two_processes.py STORE OUT
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch
from forked_pair import run_in_two
from safetensors.torch import save_file
from small import BUDGETS, CONFIG, CPU, gradients, make

from pretrieve.base.errors import PretrieveError
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.text.token_store import TokenStore
from pretrieve.training.checkpoint import Checkpoints, State
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

OBJECTIVES = ("mlm", "condenser", "pairs", "cocondenser")
#: One micro-batch for each process where the batch allows it; several.
SHARED = BUDGETS[:2]
CACHED = ("pairs", "separate", "cocondenser")
#: A run of the whole program: micro-batches, dropout and both directions of a schedule.
BODY = {"kind": "transformer", "hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 40}
OPTIONS = {
    "body": BODY | {"dropout": 0.1},
    "pooling": "cls",
    "dim": 8,
    "similarity": "dot",
    "head": "linear",
    "objective": {"name": "mlm", "length": 24} | resolve("mlm", None, {"unit": "word", "examples": "passages"}, "test"),
    "budget": {"batch": 8, "steps": 40, "learning_rate": 1e-2},
}
#: Without dropout, which another cut draws anew; eps: CONFIG of small.py.
SMALL = OPTIONS | {
    "body": BODY | {"dropout": 0.0},
    "budget": {"batch": 8, "steps": 6, "learning_rate": 1e-2, "eps": 1e-3},
}
TOKEN_BUDGET = 60


def poisoned(store: TokenStore, what: str):
    """An objective whose last micro-batch has a loss, or a gradient alone, that is not a number; at the last step."""
    objective = make("mlm", store, BUDGETS[1])
    plain, last = objective.losses, CONFIG.steps - 1

    def losses(batch):
        result = plain(batch)
        micro_batches = objective.micro_batches(last, 2)
        if batch.data.draws[0] != micro_batches[-1].data.draws[0]:
            return result
        bias = objective.head.bias[:1] * 0
        return {"mlm": result["mlm"] + (math.nan if what == "loss" else bias.abs().sqrt().sum())}

    objective.losses = losses
    return objective


def main() -> None:
    store, out = TokenStore(Path(sys.argv[1])), Path(sys.argv[2])
    processes = Processes.join()
    errors: dict[str, str] = {}

    def write(name: str, tensors: dict[str, torch.Tensor]) -> None:
        save_file(
            {n: t.detach().contiguous() for n, t in tensors.items()}, out / f"{name}.{processes.rank}.safetensors"
        )

    def refused(name: str, action) -> None:
        try:
            action()
        except PretrieveError as error:
            errors[name] = f"{type(error).__name__}: {error}"

    for name in OBJECTIVES:
        for budget in SHARED:
            objective = make(name, store, budget)
            outcome = train(objective, CONFIG, RunSettings(CPU, 3, processes=processes))
            write(f"{name}-{budget}", objective.module.state_dict())
            (out / f"{name}-{budget}.{processes.rank}.json").write_text(json.dumps(outcome.curve))
    for name in CACHED:
        objective = make(name, store, BUDGETS[1], dropout=0.1)
        objective.module.train()
        accumulate(objective, objective.micro_batches(2), CPU, processes, (3, 2))
        processes.add_gradients(objective.module.parameters())
        write(f"gradient-{name}", gradients(objective.module))
    for what in ("loss", "gradient"):
        objective = poisoned(store, what)
        refused(what, lambda o=objective: train(o, CONFIG, RunSettings(CPU, 3, processes=processes)))
        write(f"after-{what}", objective.module.state_dict())
    refused(
        "few", lambda: train(make("pairs", store, 10**6, batch=1), CONFIG, RunSettings(CPU, 3, processes=processes))
    )
    # A folder of checkpoints that only one process sees.
    checkpoints = Checkpoints(out / f"own-{processes.rank}", "key")
    if processes.first:
        checkpoints.save(State(3, {}, {}))
    refused(
        "folders",
        lambda: train(make("mlm", store, 10**6), CONFIG, RunSettings(CPU, 3, processes=processes), checkpoints),
    )
    refused(
        "first",
        lambda: train(
            make("mlm", store, 10**6),
            OptimiserConfig(1, 1.0),
            RunSettings(CPU, 3, processes=processes),
            expected_first={"mlm": 99},
        ),
    )
    (out / f"errors.{processes.rank}.json").write_text(json.dumps(errors))
    run = RunSettings(CPU, 1, processes=processes, token_budget=TOKEN_BUDGET)
    for name, options in (("straight", OPTIONS), ("small", SMALL)):
        pretrain(EncoderOptions.from_dict(options), store.directory, out / name / "seed1", run, out / "checkpoints")
    processes.leave()


if __name__ == "__main__":
    run_in_two(main)
