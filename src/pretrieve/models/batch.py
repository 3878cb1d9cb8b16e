"""A packed batch as tensors on a device.

Attention is computed in groups of sequences (:meth:`~pretrieve.text.packing.Packed.groups`). A group with padding needs a mask
and copies in and out; a group of equal lengths needs neither. On a CPU, where a call costs little beside its work, groups
are therefore as small as the lengths make them, which saves a twentieth of a training step and of encoding. On a GPU it is calls
that cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from pretrieve.models.tiles import Tiles
from pretrieve.text.packing import Packed

#: Padding that a group may have, as a share of its longest sequence, by device.
WASTE = {"cpu": 0.0, "cuda": 0.15}


@dataclass(frozen=True)
class Batch:
    """n sequences end to end, longest first, T tokens in all.

    tokens, segments, positions, sequence (T,) int64: token id, segment, position in its sequence, number of its sequence;
    starts (n,) int64: row of each sequence's first token ([CLS]); inverse (n,) int64: example i of the caller is sequence
    ``inverse[i]``; groups: ``(first sequence, last + 1, first token, last + 1, longest, full)`` of nearly equal lengths, or of
    equal ones (``full``).
    """

    tokens: torch.Tensor
    segments: torch.Tensor
    positions: torch.Tensor
    sequence: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor
    inverse: torch.Tensor
    groups: list[tuple[int, int, int, int, int, bool]]

    @classmethod
    def of(cls, packed: Packed, device: torch.device | str = "cpu") -> Batch:
        """Move a :class:`~pretrieve.text.packing.Packed` batch to tensors."""
        lengths = packed.lengths
        starts = packed.starts
        groups = []
        for first, last in packed.groups(WASTE[torch.device(device).type]):
            end = int(starts[last]) if last < len(starts) else len(packed.tokens)
            longest = int(lengths[first])
            groups.append((first, last, int(starts[first]), end, longest, int(lengths[last - 1]) == longest))

        def tensor(array) -> torch.Tensor:
            return torch.from_numpy(array.astype("int64", copy=False)).to(device)

        sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.from_numpy(lengths)).to(device)
        inverse = torch.empty(len(lengths), dtype=torch.int64)
        inverse[torch.from_numpy(packed.order)] = torch.arange(len(lengths))
        return cls(
            tensor(packed.tokens),
            tensor(packed.segments),
            tensor(packed.positions),
            sequence,
            tensor(starts),
            tensor(lengths),
            inverse.to(device),
            groups,
        )

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def tiles(self) -> Tiles:
        """The rectangles that attention is computed on in bf16 on a CPU, in place of groups."""
        return Tiles.of(self.lengths, self.starts)
