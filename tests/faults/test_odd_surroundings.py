"""What a program is started in: a reader of its output that ends, a user without a name.

Seen to fail when: a reader that has ended is a traceback, also of argparse; a home that is not there is expanded; Ctrl-C is a
traceback.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.base.program import INTERRUPTED, NOBODY_READS
from pretrieve.corpora.any_corpus import source_of

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
    # argparse itself passes over it, where nothing is left to be written.
    allowed = {NOBODY_READS, 0} if words[0] == "search" else {NOBODY_READS}
    assert ended.returncode in allowed and not ended.stderr, (ended.returncode, ended.stderr)


def test_a_pipe_of_ones_own_that_breaks_keeps_its_traceback(program):
    ended = program(
        "-c",
        "from pretrieve.base.program import run_program\ndef f(): raise BrokenPipeError('of a socket')\nrun_program(f)",
    )
    assert ended.returncode == 1 and "BrokenPipeError: of a socket" in ended.stderr


def test_ctrl_c_is_one_line_and_no_traceback(program):
    ask = "import os, signal\nfrom pretrieve.base.program import run_program\n"
    ask += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's job in the background ignores it
    ended = program("-c", ask + "run_program(lambda: os.kill(os.getpid(), signal.SIGINT))")
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, "interrupted\n")


def test_the_log_of_a_job_that_is_ended_has_a_last_word(program, tmp_path: Path):
    ask = "import os, signal\nfrom pretrieve.base.program import run_program\n"
    ask += f"run_program(lambda: os.kill(os.getpid(), signal.SIGTERM), ['--log', {str(tmp_path / 'job.log')!r}])"
    assert program("-c", ask).returncode == -signal.SIGTERM
    assert (tmp_path / "job.log").read_text().splitlines()[1:] == ["ended by SIGTERM"]


def test_a_home_that_is_not_there_is_said():
    for place in ("~nobody-of-this-name/docs", "~nobody-of-this-name"):
        with pytest.raises(DataError, match=f"{place}: there is no home directory of this user"):
            source_of(place)


def test_a_user_without_a_name_has_caches_in_the_checkout(tmp_path: Path):
    """No HOME, and a number that the system has no name for; seen to end with a traceback before the first rule."""
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    ask = "import os; os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
    ask += "from pretrieve.workflow.job_environment import cache_places; print(*cache_places('/checkout', {}).values())"
    # The checkout may stand where only root may look: what is asked is loaded before.
    ask = "import pretrieve.workflow.job_environment\n" + ask
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH")}
    ended = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, env=kept, cwd="/")
    assert ended.stdout.split() == ["/checkout/.snakemake/cache", "/checkout/.snakemake/config"], ended.stderr
