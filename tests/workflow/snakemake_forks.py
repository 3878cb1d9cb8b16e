"""Snakemake, imported once and forked for each run, with its plugins and what it and our rules import later: half of a dry run's
time is imports. Of the project nothing is imported before.

A line of standard input is a run, as JSON: its folder, its words, the whole environment, and files for what it prints. It is
answered by two lines: the number of the process, which leads a group of its own, and in the end its exit status.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from contextlib import redirect_stdout, suppress


def serve() -> None:
    import jsonschema  # noqa: F401
    import smart_open  # noqa: F401
    from snakemake.cli import main

    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        main(["--version"])  # loads the plugins
    gc.freeze()  # a fork would copy all that its collector looks at
    for run in sys.stdin:
        folder, words, variables, *printed = json.loads(run)
        if child := os.fork():
            print(child, flush=True)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        os.setsid()
        for number, file in enumerate([os.devnull, *printed]):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.path.insert(0, variables["PYTHONPATH"])
        sys.argv = ["snakemake", *words]
        main(words)  # ends the process


if __name__ == "__main__":
    serve()
