"""Training checkpoints: safetensors files, written whole, two kept, found again after a kill.

A checkpoint holds every number a run needs to continue bit for bit: weights, optimiser moments, the step, what it has cost
so far and the learning curve. Batches and dropout are functions of (seed, step), so there is no generator state to keep.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from pretrieve.base.files import remove_if_empty
from pretrieve.models.hf_format import write_tensors


@dataclass
class State:
    """A checkpoint in memory: tensors by name, and JSON-able values (``step`` is the number of finished steps)."""

    step: int
    tensors: dict[str, torch.Tensor]
    info: dict


def code_word() -> str:
    """What the workflow names the code of this job with (the parameter ``code`` of its rule); '' outside of it."""
    return os.environ.get("PRETRIEVE_CODE", "")


class Checkpoints:
    """The checkpoints of one run in a directory of their own.

    ``key`` names what is trained (a hash of configuration and data); a checkpoint with another key, or of other code
    (:func:`code_word`), is never resumed.
    """

    def __init__(self, directory: Path, key: str) -> None:
        self.directory, self.key = Path(directory), key + code_word()

    def _files(self) -> list[Path]:
        return sorted(self.directory.glob("step-*.safetensors"), reverse=True)

    def _leftovers(self) -> list[Path]:
        """What a kill left of an unfinished checkpoint: our own name for it, or safetensors' before that."""
        return [*self.directory.glob("*.part"), *self.directory.glob(".tmp*")]

    def save(self, state: State) -> None:
        """Write a checkpoint; it and the one before it stay, all others go (those of a later step are not this run's).

        Raises DataError when the disk is full; the checkpoints before it stay.
        """
        path = self.directory / f"step-{state.step:08d}.safetensors"
        values = json.dumps({"step": state.step, "info": state.info})
        write_tensors(state.tensors, path, {"key": self.key, "state": values})
        kept = [file for file in self._files() if file <= path][:2]
        for old in {*self._files(), *self._leftovers()} - {*kept}:
            old.unlink()

    def latest(self) -> State | None:
        """The newest whole checkpoint with our key, or None. One that cannot be read is named and passed over."""
        for path in self._files():
            try:
                with safe_open(path, framework="pt") as file:
                    meta = file.metadata() or {}
                    if meta.get("key") != self.key:
                        print(f"{path}: belongs to another configuration or other code; not resumed.", file=sys.stderr)
                        continue
                    values = json.loads(meta["state"])
                    return State(values["step"], {name: file.get_tensor(name) for name in file.keys()}, values["info"])
            except (SafetensorError, OSError, ValueError, KeyError) as error:
                print(f"{path}: damaged checkpoint ({error}); the one before it is used.", file=sys.stderr)
        return None

    def clear(self, keep: int = 0) -> None:
        """Remove all checkpoints but the ``keep`` newest: the run has ended and its result is written."""
        for path in [*self._files()[keep:], *self._leftovers()]:
            path.unlink()
        remove_if_empty(self.directory)


def pack_weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights alone, as :func:`pack_state` names them."""
    return {f"model/{name}": tensor for name, tensor in module.state_dict().items()}


def unpack_weights(tensors: dict[str, torch.Tensor], module: torch.nn.Module) -> None:
    """Put back what :func:`pack_weights` took."""
    module.load_state_dict({n.removeprefix("model/"): t for n, t in tensors.items() if n.startswith("model/")})


def pack_state(module: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Weights and optimiser moments as one flat dictionary of tensors."""
    tensors = pack_weights(module)
    for index, moments in optimiser.state_dict()["state"].items():
        for name, value in moments.items():
            tensors[f"optimiser/{index}/{name}"] = torch.as_tensor(value)
    return tensors


def unpack_state(tensors: dict[str, torch.Tensor], module: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Put back what :func:`pack_state` took."""
    unpack_weights(tensors, module)
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser/"):
            _, index, key = name.split("/")
            state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


class Snapshots:
    """Weights of single steps, kept beside the checkpoints until the run ends: what they are, not how to continue.

    A run that is killed after such a step does not reach it again, so they outlive the process; and the results of a job that
    failed are removed by the workflow, so they are no results until the run has ended. They stand in folders of ``directory``;
    ``steps``: finished ones; ``key`` as of :class:`Checkpoints`.
    """

    def __init__(self, directory: Path, key: str, steps: Collection[int]) -> None:
        self._directory = Path(directory)
        self._places = {step: Checkpoints(self._directory / str(step), key) for step in sorted(set(steps))}

    def __contains__(self, step: int) -> bool:
        return step in self._places

    def keep(self, state: State) -> None:
        """Raises DataError when the disk is full."""
        self._places[state.step].save(state)

    def read(self, step: int) -> State | None:
        """The weights of a step; None where there are none that belong to this run."""
        return self._places[step].latest()

    def lost(self, step: int) -> list[int]:
        """The steps up to ``step`` whose weights are not there: who continues from it does not make them any more."""
        return [own for own in self._places if own <= step and self.read(own) is None]

    def clear(self) -> None:
        for place in self._places.values():
            place.clear()
        remove_if_empty(self._directory)
