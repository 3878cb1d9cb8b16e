"""Seeded random generators for initial weights."""

from __future__ import annotations

import torch


def seeded(*numbers: int) -> torch.Generator:
    """A CPU generator for a tuple of small numbers; different tuples give unrelated streams."""
    value = 0
    for number in numbers:
        value = (value * 1_000_003 + number + 1) % (2**63 - 1)
    return torch.Generator().manual_seed(value)
