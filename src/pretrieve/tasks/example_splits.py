"""Splits of an example task: whole articles go to one part, and the training sets of all sizes are nested.

Two steps. :func:`parts_of_groups` puts each *group* (the article that an example was made from; in a benchmark without
groups the example itself) into one of train, valid, dev and test, so that nothing is tested or validated on what was
trained on. :func:`make_example_splits` then draws training sets of several sizes: the examples of a small size are
among those of every larger one, the validation examples too, and test and dev are the same for all sizes, which is how
paper ``condenser`` §4 compares training sets ("we keep dev/test sets unchanged").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pretrieve.base.errors import ConfigError
from pretrieve.tasks.splits import VALID_SHARE, Size, SplitRow, rounded, shuffled, validation_count

PARTS = ("train", "valid", "test", "dev")
#: Shares of a task that has no split of its own: four fifths train, of which a tenth validates; a tenth each for the
#: rest.
SHARES = {"train": 0.72, "valid": 0.08, "dev": 0.1, "test": 0.1}


def parts_of_groups(counts: Mapping[str, int], shares: Mapping[str, float], seed: int) -> dict[str, str]:
    """Group → part; each part gets nearly its share of the examples.

    Groups come in a random order fixed by ``seed``; each goes to the part that lacks most examples (the first of
    ``shares`` when several do), so one large article cannot leave a part empty.

    counts: group → its examples; shares: part → its share, adding up to 1.
    """
    total = sum(counts.values())
    lacking = {part: share * total for part, share in shares.items()}
    parts = {}
    for group in shuffled(counts, seed):
        part = max(lacking, key=lacking.__getitem__)
        parts[group] = part
        lacking[part] -= counts[group]
    return parts


def drawn(ids: Sequence[str], limit: int | None, seed: int) -> set[str]:
    """At most ``limit`` of the ids, at random; None: all of them."""
    return set(shuffled(ids, seed)[:limit])


def hold_out(counts: Mapping[str, int], seed: int) -> dict[str, str]:
    """Group of a given training file → ``train`` or ``valid``, which gets about a tenth of the examples."""
    return parts_of_groups(counts, {"train": 1 - VALID_SHARE, "valid": VALID_SHARE}, seed)


def make_example_splits(
    example_ids: Sequence[str], part_of: Mapping[str, str], sizes: Mapping[str, Size], seed: int
) -> Iterator[SplitRow]:
    """Rows of ``splits.parquet``: sizes in the given order, in each the examples in the order of ``example_ids``.

    A size of *n* examples takes n minus a tenth of n from those whose part is ``train``, and that tenth from
    ``valid``; a share takes that share of both; ``all`` takes both. An example that is not drawn is not listed for
    that size.

    Raises ConfigError when there is no size, a size is not a share, a whole number or 'all', needs more examples than there
    are, or leaves fewer than 2 for training.
    """
    if not sizes:
        raise ConfigError("no training-set size was given; expected at least one, such as 500=500 or full=all.")
    pools = {part: shuffled((i for i in example_ids if part_of[i] == part), seed) for part in ("train", "valid")}
    counts = {size: _drawn(size, value, len(pools["train"]), len(pools["valid"])) for size, value in sizes.items()}

    def rows() -> Iterator[SplitRow]:
        for size, (train, valid) in counts.items():
            chosen = {*pools["train"][:train], *pools["valid"][:valid]}
            for example_id in example_ids:
                if part_of[example_id] in ("test", "dev") or example_id in chosen:
                    yield SplitRow(size, example_id, part_of[example_id])

    return rows()


def _drawn(size: str, value: Size, train: int, valid: int) -> tuple[int, int]:
    """Examples that train and that validate, checked against what there is."""
    available = f"the training part has {train} examples to train on and {valid} to validate with"
    if value == "all":
        count, held_out = train, valid
    elif isinstance(value, str) or value <= 0 or (value >= 1 and value != int(value)):
        raise ConfigError(f"size '{size}': {value!r}; expected a share below 1, a whole number of examples, or 'all'.")
    elif value < 1:
        count, held_out = rounded(value * train), max(1, rounded(value * valid))
    else:
        held_out = validation_count(int(value), VALID_SHARE)
        count = int(value) - held_out
    if count > train or held_out > valid or count < 2 or held_out < 1:
        raise ConfigError(
            f"size '{size}': {value} needs {count} training and {held_out} validation examples, at least 2 and 1; "
            f"{available}. Give another size, or build the task from more articles."
        )
    return count, held_out
