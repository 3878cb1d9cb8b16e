"""How the C library keeps the memory of a job's tensors.

A training step on a CPU allocates and frees tensors of up to 100 MB for each layer. glibc returns every block above 32 MB to the
system as soon as it is freed, and the system clears its pages again for the next one. Here freed blocks are kept for the next
tensor, in huge pages where the system has them. Results do not change. ``benchmarks/c19_allocator.py`` measures the gain.

Tunables of glibc, version 2.35 or later (others ignore them):
https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

NAME = "GLIBC_TUNABLES"
#: Blocks up to 1 GiB come from the heap, of which nothing is returned before the process ends; huge pages.
TUNABLES = f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={1 << 40}:glibc.malloc.hugetlb=1"


def allocator(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variable that a job's process begins with; none where the user has set it."""
    return {} if NAME in environment else {NAME: TUNABLES}
