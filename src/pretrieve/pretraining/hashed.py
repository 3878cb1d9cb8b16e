"""Random bits that are a function of what they are for: splitmix64 (Steele, Lea & Flood 2014), on tensors.

A stateful generator gives what comes next, so a draw depends on all draws before it: on the cut of the batch, on the
process, on the device. Here draw number c of seed s is ``mix(s + (c + 1)·γ)``, whatever else was drawn. Several
numbers are taken one after the other: the value for the first is the seed for the second. So (seed, sequence, mask,
word) has its own 64 bits.

int64 products wrap in the same way on every device; ``>>`` of an int64 copies its sign, so what it shifts in is
masked off.
"""

from __future__ import annotations

import torch


def _signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


_GAMMA = _signed(0x9E3779B97F4A7C15)
#: (shift, factor) of each round, and the last shift.
_ROUNDS = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)))
_LAST_SHIFT = 31


def _fold(values: torch.Tensor, shift: int) -> torch.Tensor:
    return values.bitwise_xor_((values >> shift).bitwise_and_((1 << (64 - shift)) - 1))


def hashed(seed: int, *numbers: torch.Tensor | int) -> torch.Tensor:
    """64 random bits (int64, negative for half of them) for each combination of ``numbers``, int64 tensors that
    broadcast.

    With one tensor it is the output of splitmix64 at these places of its sequence:

    >>> [value % 2**64 for value in hashed(1234567, torch.arange(3)).tolist()]
    [6457827717110365317, 3203168211198807973, 9817491932198370423]
    """
    values = torch.tensor(_signed(seed))
    for number in numbers:
        step = _signed((number + 1) * _GAMMA) if isinstance(number, int) else (number + 1) * _GAMMA
        values = values + step
        for shift, factor in _ROUNDS:
            values = _fold(values, shift).mul_(factor)
        values = _fold(values, _LAST_SHIFT)
    return values


def below(bits: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Whole numbers from 0 to ``limit`` − 1 (int64, broadcasts, at least 1), equally likely but for ``limit`` in 2⁶³.

    >>> below(hashed(7, torch.arange(8)), torch.tensor(3)).tolist()
    [1, 0, 0, 1, 2, 1, 2, 0]
    """
    return ((bits >> 1) & (2**63 - 1)) % limit
