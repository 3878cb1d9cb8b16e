"""``snakemake --config KEY=VALUE TARGET``: a target behind ``--config`` is taken for a target. Standard library only.

Snakemake's ``--config`` takes every word up to the next option, so a target behind it is refused as a setting without a value,
before any file of ours is read. Such a command never means anything else; here its targets are moved to the end, behind ``--``,
where Snakemake itself says that they belong. Commands without such a word stay as they are.

Importing this module changes ``sys.argv``. The environment that ``make venv`` makes does so when ``snakemake`` starts, by the
line of a ``.pth`` file (Makefile); everywhere else, write ``--`` in front of the target.
"""

from __future__ import annotations

import re
import sys

CONFIG = ("--config", "-C")
#: The name of a rule, or a path: all that a target can be. A part of a value with a space in it has brackets or commas.
TARGET = re.compile(r"[\w.][\w./-]*")


def targets_last(words: list[str]) -> list[str]:
    """The words of a command line, with targets that stand behind ``--config`` moved to its end.

    >>> targets_last(["-n", "--config", "scale=demo", "my_corpus_report", "--cores", "all"])
    ['-n', '--config', 'scale=demo', '--cores', 'all', '--', 'my_corpus_report']
    >>> targets_last(["report", "--config", "seeds=[1,", "2]"])
    ['report', '--config', 'seeds=[1,', '2]']
    """
    own = words.index("--") if "--" in words else len(words)
    kept, targets, setting = [], [], False
    for word in words[:own]:
        if word.startswith("-"):
            setting = word in CONFIG
        if setting and TARGET.fullmatch(word):
            targets.append(word)
        else:
            kept.append(word)
    rest = words[own + 1 :] + targets
    return kept + (["--", *rest] if own < len(words) or targets else [])


sys.argv[1:] = targets_last(sys.argv[1:])
