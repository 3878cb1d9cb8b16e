"""The memory of a job's tensors: with the tunables, a large block that was freed is used again.

Seen to fail when mmap_threshold or trim_threshold is left out of the tunables.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from pretrieve.workflow.job_environment import NAME, TUNABLES, allocator

#: Page faults while a block of 100 MB, and one beside it, are allocated, filled and freed ten times.
PROGRAM = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype, size = ctypes.c_void_p, 100 << 20
for turn in range(11):
    if turn == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size))) for _ in range(2)]
    for block in blocks:
        libc.memset(block, 1, ctypes.c_size_t(size))
    for block in blocks:
        libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(environment: dict[str, str]) -> int:
    kept = {name: value for name, value in os.environ.items() if name != NAME}
    return int(subprocess.check_output([sys.executable, "-c", PROGRAM], env=kept | environment, timeout=60))


@pytest.mark.skipif(platform.libc_ver() < ("glibc", "2.35"), reason="the tunables are glibc's")
def test_freed_blocks_are_used_again():
    assert faults(allocator({})) < 100
    assert faults({}) > 400, "the system clears them each time"


def test_what_the_user_has_set_is_kept():
    assert allocator({}) == {NAME: TUNABLES}
    assert allocator({NAME: ""}) == {}
