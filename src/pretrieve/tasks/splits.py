"""Training-set sizes: which questions train, validate and test when a given share of them is used for training.

Paper ``pretraining_tasks`` §4.1 compares 1 % / 99 %, 5 % / 95 % and 80 % / 20 % of the questions for training and test,
and holds 10 % of the training part out for validation. Here all sizes are nested: the training questions of a small
size are among those of every larger one, so that a curve over sizes differs in what is added and in nothing else.

:class:`Target` is where a task goes and what it is made with: the tokenizer, its sizes and the seed of all draws.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pretrieve.base.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: A share of what may train (below 1), a number of queries or examples (1 and more), or "all".
Size = float | int | str

#: Share of the training part that is held out for validation (paper ``pretraining_tasks`` §4.1).
VALID_SHARE = 0.1
#: Where one file serves for every part: the share of its questions that is dev, and the share of the rest that training
#: questions may come from: a little above the largest size of the paper, 80 %.
DEV_SHARE = 0.1
POOL_TRAIN_SHARE = 0.815


class SplitRow(NamedTuple):
    """One row of ``splits.parquet``: in this size, the query belongs to ``split`` (train, valid, test or dev)."""

    size: str
    query_id: str
    split: str


@dataclass
class Target:
    """Where a task goes, and what it is made with, whatever it is made of. out: the directory to write; sizes: training-set size
    → how much of what may train it has; seed: of all draws."""

    tokenizer: Tokenizer
    out: Path
    sizes: Mapping[str, Size]
    seed: int = 1


def draw_key(seed: int, item: str) -> int:
    """A pseudo-random 64-bit number that depends on the seed and the item alone, the same everywhere and always.

    Sorting by it is a random order that neither the order of the input nor the version of a library can change.
    """
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{item}".encode(), digest_size=8).digest(), "little")


def shuffled(items: Iterable[str], seed: int) -> list[str]:
    """The items in a random order fixed by ``seed``; dropping an item leaves the order of the others as it is."""
    return sorted(items, key=lambda item: (draw_key(seed, item), item))


def rounded(value: float) -> int:
    """Nearest integer, halves upward (Python's own rounding takes 12.5 to 12 and 13.5 to 14)."""
    return math.floor(value + 0.5 + 1e-9)


def make_splits(
    query_ids: Sequence[str],
    pool_train: Sequence[str],
    pool_test: Sequence[str],
    dev: Sequence[str],
    sizes: Mapping[str, Size],
    seed: int,
    valid_share: float | Mapping[str, float] = VALID_SHARE,
) -> list[SplitRow]:
    """Split the queries once for each training-set size: sizes in the given order, in each the queries in the order of
    ``query_ids``; no row where a query has no part in a size.

    query_ids: all queries of the task.
    pool_train, pool_test: together the pool. Training questions are drawn from ``pool_train`` only. Of a size that is a
    share, whatever of the pool is not drawn is test (``pretraining_tasks`` §4.1), so a small size is tested on the rest of
    ``pool_train`` too. Sizes that are numbers or ``all`` have one test set (``condenser`` §4): what none of them draws.
    dev: queries kept apart for choosing hyper-parameters; in no pool, listed with split ``dev`` for each size.
    sizes: name → the training part (training and validation together): a share of the pool in (0, 1), a number of questions
    (1 or more), or ``all`` that may train.
    seed: decides which questions are drawn.
    valid_share: share of the training part that validates, at least one question, or 0 for none; or size → share.

    Raises ConfigError when there is no size, or a size is none of these, needs more questions than ``pool_train`` has, or
    leaves fewer than 2 training questions, and ValueError when the three groups overlap or are not, together, exactly
    ``query_ids``.
    """
    groups = [*pool_train, *pool_test, *dev]
    if len(set(groups)) != len(groups) or set(groups) != set(query_ids) or len(groups) != len(query_ids):
        raise ValueError("pool_train, pool_test and dev must be disjoint and together hold every query once")
    if not sizes:
        raise ConfigError("no training-set size was given; expected at least one, such as 1pct=0.01.")
    order = shuffled(pool_train, seed)
    pool = len(pool_train) + len(pool_test)
    shares = {size: share_of(valid_share, size) for size in sizes}
    parts = {size: _training_part(size, wanted, len(pool_train), pool, shares[size]) for size, wanted in sizes.items()}
    most = max((parts[size] for size, wanted in sizes.items() if not is_share(wanted)), default=0)
    rows = []
    for size, drawn in parts.items():
        held_out = validation_count(drawn, shares[size])
        split_of = dict.fromkeys(query_ids, "test") | dict.fromkeys(dev, "dev")
        # The last ones validate: what trains is then a prefix of the order, and a larger size's prefix holds it.
        split_of |= dict.fromkeys(order[: drawn - held_out], "train")
        split_of |= dict.fromkeys(order[drawn - held_out : drawn], "valid")
        for query_id in () if is_share(sizes[size]) else order[drawn:most]:
            del split_of[query_id]
        rows += [SplitRow(size, query_id, split_of[query_id]) for query_id in query_ids if query_id in split_of]
    return rows


def is_share(wanted: Size) -> bool:
    """Whether a size is a share of the questions: tested on all others."""
    return isinstance(wanted, (int, float)) and 0 < wanted < 1


def draw_pools(query_ids: Iterable[str], seed: int) -> tuple[list[str], list[str], list[str]]:
    """``(dev, pool_train, pool_test)`` for :func:`make_splits` where one file serves for every part.

    A tenth, rounded, is dev; of the rest 81.5 %, rounded up, may train, and the others are always test. The draw depends
    on the ids and the seed, not on the order.
    """
    order = shuffled(query_ids, seed)
    n_dev = rounded(len(order) * DEV_SHARE)
    n_train = math.ceil(POOL_TRAIN_SHARE * (len(order) - n_dev))
    return order[:n_dev], order[n_dev : n_dev + n_train], order[n_dev + n_train :]


def share_of(valid_share: float | Mapping[str, float], size: str) -> float:
    """The share of a size's training part that validates.

    >>> share_of(0.2, "full"), share_of({"full": 0}, "full"), share_of({"full": 0}, "1k")
    (0.2, 0, 0.1)
    """
    return valid_share.get(size, VALID_SHARE) if isinstance(valid_share, Mapping) else valid_share


def validation_count(drawn: int, valid_share: float) -> int:
    """How many of ``drawn`` questions validate: the share, rounded, and at least one; none of the share 0."""
    return max(1, rounded(drawn * valid_share)) if valid_share else 0


def _training_part(size: str, wanted: Size, available: int, pool: int, valid_share: float) -> int:
    """Number of questions in the training part of a size, checked."""
    if wanted == "all":
        wanted = available
    if not isinstance(wanted, (int, float)) or not (0 < wanted < 1 or (wanted >= 1 and wanted == int(wanted))):
        raise ConfigError(
            f"size '{size}': {wanted!r}; expected a share between 0 and 1 (1 % is 0.01), a number of questions, or 'all'."
        )
    share = wanted < 1
    drawn = rounded(wanted * pool) if share else int(wanted)
    what = f"fraction {wanted:g}" if share else f"{drawn:,} questions"
    largest = f"{math.floor(1000 * available / max(pool, 1)) / 1000:g}" if share else f"{available:,}"
    if drawn > available:
        raise ConfigError(
            f"size '{size}': {what} needs {drawn} training questions of the pool's {pool}, but only "
            f"{available} may be used for training; give at most {largest}."
        )
    if drawn - validation_count(drawn, valid_share) < 2:
        smallest = next((n for n in range(3, available + 1) if n - validation_count(n, valid_share) >= 2), None)
        advice = "this task has too few questions to train on"
        if smallest is not None:
            least = f"{math.ceil(1000 * smallest / pool) / 1000:g}" if share else f"{smallest}"
            advice = f"give at least {least} and at most {largest}"
        raise ConfigError(
            f"size '{size}': {what} of the pool's {pool} questions is {drawn}, which leaves fewer than "
            f"2 for training beside validation; {available} may be used for training: {advice}."
        )
    return drawn


def parse_sizes(entries: Iterable[str]) -> dict[str, Size]:
    """Training-set sizes from a command line.

    >>> parse_sizes(["1pct=0.01", "1k=1000", "full=all"])
    {'1pct': 0.01, '1k': 1000.0, 'full': 'all'}

    Raises ConfigError for an entry that is not NAME=SIZE, or a name that appears twice.
    """
    sizes: dict[str, Size] = {}
    for entry in entries:
        name, _, wanted = entry.partition("=")
        try:
            value = wanted if wanted == "all" else float(wanted)
        except ValueError:
            raise ConfigError(
                f"--sizes: {entry!r} is not NAME=SHARE, NAME=NUMBER or NAME=all, such as 1pct=0.01."
            ) from None
        if not name or name in sizes:
            raise ConfigError(f"--sizes: {entry!r} has no name of its own; give each size once, such as 1pct=0.01.")
        sizes[name] = value
    return sizes


def all_test(query_ids: Sequence[str], sizes: Mapping[str, Size]) -> list[SplitRow]:
    """Splits of a zero-shot task: every query is ``test`` in each size. Raises ConfigError when there is no size."""
    if not sizes:
        raise ConfigError("no training-set size was given; expected at least one, such as 1pct=0.01.")
    return [SplitRow(size, query_id, "test") for size in sizes for query_id in query_ids]
