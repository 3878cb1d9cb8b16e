"""What a run looks after before its first job. Standard library only.

A folder that cannot be written is said now, not by a traceback after an hour; files from the future get a date of today
(:mod:`pretrieve.workflow.running.file_dates`); checkpoints of jobs that are done go
(:mod:`pretrieve.workflow.running.finished_work`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from pretrieve.base.disk import check_all_writable, check_writable
from pretrieve.workflow.running.file_dates import redate, told
from pretrieve.workflow.running.finished_work import forget_finished

#: Options of Snakemake with which it only looks.
_LOOKS = {
    *(
        "--dry-run",
        "--dryrun",
        "--lint",
        "--summary",
        "-S",
        "--detailed-summary",
        "-D",
        "--dag",
        "--d3dag",
        "--rulegraph",
    ),
    *("--filegraph", "--report", "--list", "--list-rules", "-l", "--list-target-rules", "--lt", "--unlock"),
}
#: Where jobs read, beside the results of the run.
_READ = ("data", "resources", "references", "envs", "src", "workflow_scripts")


def only_looks(words: Iterable[str]) -> bool:
    """Whether a command line of Snakemake starts no job.

    >>> only_looks(["-np", "encoders"]), only_looks(["--cores", "2", "encoders"])
    (True, False)
    """
    return any(word.split("=")[0] in _LOOKS or re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*", word) for word in words)


def prepare_run(root: str, words: Iterable[str]) -> None:
    """Get ``root`` (``results/{scale}``) ready for the jobs that a command line of Snakemake asks for.

    Raises
    ------
    DataError
        when it, a folder in it or an empty ``data`` cannot be written, is no folder or a link to none, or the disk has no room.
    """
    if only_looks(words):
        return
    check_all_writable(root)
    # Raw files that somebody else keeps may stand where nothing can be written.
    check_writable(
        [".snakemake", *([] if any(os.path.exists(f"data/{name}") for name in ("sources", "hub")) else ["data"])]
    )
    if files := redate([root, *_READ]):
        print(told(files), file=sys.stderr)
    forget_finished(root)
