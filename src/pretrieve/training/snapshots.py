"""Weights of single steps of a training run, kept beside its checkpoints until the run ends: what they are, not how to continue.

A run that is killed after such a step does not reach it again, so they outlive the process; and the results of a job that
failed are removed by the workflow, so they are no results until the run has ended.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pretrieve.training.checkpoint import Checkpoints, State


class Snapshots:
    """The weights after each of ``steps`` finished steps, in folders of ``directory``; ``key`` as of :class:`Checkpoints`."""

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
        if self._directory.is_dir() and not any(self._directory.iterdir()):
            self._directory.rmdir()
