"""How large a file from outside may be: what its publisher says and a margin, or this many times its packed size.

A file of 1.5 kB can say that it unpacks to 2 GB, and a server can send for ever. The limits are far above what data sets have;
the environment variable :data:`FACTOR` raises all of them at once, by this many times. Standard library only.
"""

from __future__ import annotations

import math
import os

from pretrieve.base.errors import ConfigError, DataError

FACTOR = "PRETRIEVE_SIZE_LIMIT"
#: Texts are packed to a third or a fifth of their size, lists of ids to a tenth.
RATIO, MARGIN = 100, 64 << 20
#: Bytes above a size that the list of raw files states.
STATED_MARGIN = 1 << 20
#: Of a download whose size nobody states.
UNSTATED = 64 << 30


def factor() -> float:
    """How many times as large as usual files may be.

    Raises ConfigError when the variable is not a number above 0.
    """
    text = os.environ.get(FACTOR) or "1"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(f"{FACTOR}={text!r}: expected a number above 0, such as 10: the limits are multiplied by it.")
    return value


def stated_limit(size: int) -> int:
    """Bytes that a file may have whose size is stated (0: it is not)."""
    return int((size + STATED_MARGIN if size else UNSTATED) * factor())


def unpacked_limit(packed: int) -> int:
    """Bytes that this many packed bytes may unpack to."""
    return int((RATIO * packed + MARGIN) * factor())


def too_large(what: object, found: int, limit: int, why: str) -> DataError:
    """The error for a file that has ``found`` bytes or more; ``why`` says where the limit is from."""
    return DataError(
        f"{what}: {found:,} bytes or more; the limit is {limit:,}, {why}. If you trust it, set {FACTOR} to a factor for "
        "the limit, such as 10."
    )
