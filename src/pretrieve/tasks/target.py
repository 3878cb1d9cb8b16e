"""Where a task goes, and what it is made with, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: A share of what may train (below 1), a number of queries or examples (1 and more), or "all".
Size = float | int | str


@dataclass
class Target:
    """out: the directory to write; sizes: training-set size → how much of what may train it has; seed: of all draws."""

    tokenizer: Tokenizer
    out: Path
    sizes: Mapping[str, Size]
    seed: int = 1
