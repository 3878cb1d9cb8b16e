"""GPU memory: how many tokens are computed at a time, and what is said when they do not fit.

A micro-batch of training, and a batch of embedding, has at most this many tokens, which bounds memory and leaves the global
batch alone. Where a GPU is too small for it, the program ends with one sentence that says how many would fit, and leaves a note;
the launcher (:mod:`pretrieve.training.launch`) then starts it once more with ``PRETRIEVE_TOKEN_SHARE=0.5``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from pretrieve.base.errors import ConfigError, PretrieveError
from pretrieve.base.files import write_json

#: Bytes of each trained number: its weight, gradient and two moments of the optimiser, in fp32.
TRAINED_BYTES = 16
#: Share of a GPU's memory that tensors can fill: the allocator's blocks have gaps.
USABLE = 0.92
#: Powers of 1024.
_UNITS = {None: 0, "Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4}


class OutOfMemory(PretrieveError):
    """A batch that does not fit into a GPU's memory."""


def token_budgets(**tokens: int) -> dict[str, int]:
    """Kind of device → tokens at a time, cut to the share that the environment says (1 unless a run was out of memory).

    >>> token_budgets(cpu=4096, cuda=65_536)
    {'cpu': 4096, 'cuda': 65536}
    """
    word = os.environ.get("PRETRIEVE_TOKEN_SHARE") or "1"
    try:
        share = float(word)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ConfigError(f"PRETRIEVE_TOKEN_SHARE is {word!r}; expected a number above 0, at most 1.")
    return {device: max(1, int(budget * share)) for device, budget in tokens.items()}


def fitting(tokens: int, needed: int, fixed: int, room: int) -> int:
    """Tokens that fit into ``room`` bytes, if ``tokens`` need ``needed`` bytes and ``fixed`` of them whatever their number.

    Memory of activations grows with the number of tokens. What was needed is only known to be at least ``needed``, so the answer
    is an upper bound.

    >>> fitting(65_536, needed=100, fixed=20, room=60)
    32768
    """
    if room <= fixed or needed <= fixed:
        return 0
    return min(tokens, int(tokens * (room - fixed) / (needed - fixed)))


def asked_bytes(message: str) -> int:
    """What an allocation asked for, from the words of torch's error; 0 if they do not say.

    >>> asked_bytes("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...")
    2684354560
    """
    match = re.search(r"Tried to allocate ([\d.]+) ([KMGT]i)?B", message)
    return int(float(match[1]) * 1024 ** _UNITS[match[2]]) if match else 0


def out_of_memory(
    label: str, error: Exception, tokens: int, examples: int, parameters: int, trained: bool = True
) -> OutOfMemory:
    """The error to raise in place of torch's, and the launcher's note.

    tokens, examples: of the largest batch that was computed at once; parameters: numbers of the model; trained: whether it is
    trained, or only computes.
    """
    fixed = parameters * (TRAINED_BYTES if trained else 4)
    needed = torch.cuda.max_memory_allocated() + asked_bytes(str(error))
    room = int(USABLE * _total_bytes())
    fit = fitting(tokens, needed, fixed, room)
    if note := os.environ.get("PRETRIEVE_MEMORY_NOTE"):
        write_json(Path(note), {"tokens": tokens, "fit": fit, "label": label})
    size = f"{label}: out of GPU memory at {tokens:,} tokens ({examples:,} examples) at a time"
    bytes_ = f"at least {needed / 1e9:.1f} GB are needed, {room / 1e9:.1f} GB are there"
    if fit < 1:
        return OutOfMemory(
            f"{size}: {bytes_}, and the model alone takes {fixed / 1e9:.1f} GB; take a GPU with more memory."
        )
    return OutOfMemory(
        f"{size}: {bytes_}; at most {fit:,} tokens ({max(1, examples * fit // max(tokens, 1)):,} examples) at a time fit. The "
        "global batch may stay as it is: set PRETRIEVE_TOKEN_SHARE=0.5, or give pretrain.py --token-budget."
    )


def _total_bytes() -> int:
    return (
        torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory if torch.cuda.is_available() else 0
    )
