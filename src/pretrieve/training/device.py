"""Where and in which precision a model runs; decided by the hardware that is there, never by the workflow."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from pretrieve.base.errors import check_choice

PRECISIONS = ("auto", "fp32", "bf16")
#: Kernels of oneDNN that are kept. It makes one for every shape of a product in bf16, and a packed batch has new shapes in each
#: step, so its 1,024 held half a gigabyte that nobody used again. Read at the first product; an environment's value goes before.
KERNELS_KEPT = 256


@dataclass(frozen=True)
class Device:
    """A torch device and whether matrix products run in bf16 there (weights and losses stay fp32)."""

    device: torch.device
    bf16: bool

    def autocast(self) -> torch.autocast:
        """bf16 autocast, or nothing."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)


def choose_device(precision: str = "auto", threads: int = 1) -> Device:
    """CUDA when there is a GPU, else the CPU with ``threads`` threads.

    ``auto`` takes bf16 where the hardware multiplies it: on such a GPU, and on CPUs with AMX tiles or AVX512-BF16; on other
    CPUs bf16 is emulated and slower than fp32. The number of threads is part of what makes a CPU run repeatable: sums are
    split differently by another number.
    """
    check_choice("precision", precision, PRECISIONS)
    torch.set_num_threads(threads)
    if torch.cuda.is_available():
        # With cuDNN's attention, steps of new shapes took seconds on an H100, and a packed batch has new shapes in each step.
        torch.backends.cuda.enable_cudnn_sdp(False)
        bf16 = precision == "bf16" or (precision == "auto" and torch.cuda.is_bf16_supported(including_emulation=False))
        return Device(torch.device("cuda"), bf16)
    # Denormal numbers slow some CPUs down by a factor of four; nothing here needs them.
    torch.set_flush_denormal(True)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS_KEPT))
    return Device(torch.device("cpu"), precision == "bf16" or (precision == "auto" and cpu_multiplies_bf16()))


def cpu_multiplies_bf16() -> bool:
    """Whether this CPU has instructions for products of bf16: AMX tiles (Intel) or AVX512-BF16 (Intel, AMD from Zen 4 on)."""
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in ("amx_bf16", "avx512_bf16"))
