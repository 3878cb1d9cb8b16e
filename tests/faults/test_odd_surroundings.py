"""What a program is started in: a reader of its output that ends, a user without a name.

Seen to fail when: see the end of docs/faults.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pretrieve.base.program import NOBODY_READS

ROOT = Path(__file__).resolve().parents[2]


def output_closed(words: list[str], errors: int) -> subprocess.CompletedProcess[str]:
    """Run ``pretrieve`` with a standard output that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, "-m", "pretrieve", *words],
            stdout=write,
            stderr=write if errors == subprocess.STDOUT else errors,
            text=True,
            cwd=ROOT,
            timeout=120,
        )
    finally:
        os.close(write)


@pytest.mark.parametrize("errors", [subprocess.PIPE, subprocess.STDOUT])
@pytest.mark.parametrize("words", [["--help"], ["status", "--results", "results/demo"], ["search", "--help"]])
def test_a_reader_of_the_output_that_ends_is_no_fault(words: list[str], errors: int):
    ended = output_closed(words, errors)
    # argparse itself passes over it.
    assert ended.returncode == (0 if words[0] == "search" else NOBODY_READS) and not ended.stderr, ended.stderr


def test_a_pipe_of_ones_own_that_breaks_keeps_its_traceback(program):
    ended = program(
        "-c",
        "from pretrieve.base.program import run_program\ndef f(): raise BrokenPipeError('of a socket')\nrun_program(f)",
    )
    assert ended.returncode == 1 and "BrokenPipeError: of a socket" in ended.stderr
