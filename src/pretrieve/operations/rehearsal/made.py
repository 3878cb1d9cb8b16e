"""Made files by the names of the sources that they play, packed as their publishers pack them."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.files import whole_file
from pretrieve.operations.rehearsal import examples, questions, retrieval, text

#: What the log of every made file and checkpoint says.
NOTICE = "made up for a rehearsal, not the publisher's: its checksum is not asked for, and scores on it mean nothing"
#: Name of a source → what makes its content.
FORMS: dict[str, Callable[[], bytes]] = text.FORMS | retrieval.FORMS | questions.FORMS | examples.FORMS


def make(name: str, out: Path) -> int:
    """Write the made file of a source, packed by the ending of ``out``; returns its size in bytes.

    The same file comes out every time.

    Raises
    ------
    ConfigError
        for a source that no made file plays.
    """
    if name not in FORMS:
        raise ConfigError(
            f"source {name!r}: no made file plays it in a rehearsal{nearest(name, FORMS)}; rehearse a scale whose data sets "
            f"have one (src/pretrieve/rehearsal), or write its layout there. There are {len(FORMS)}."
        )
    content = FORMS[name]()
    if out.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif out.suffix == ".bz2":
        content = bz2.compress(content)
    with whole_file(out) as stream:
        stream.write(content)
    return len(content)
