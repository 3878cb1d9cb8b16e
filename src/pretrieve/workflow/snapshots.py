"""Encoders that are intermediate weights of another one's training: ``snapshots`` of an encoder of the configuration.

``retromae: {…, snapshots: {at25: 0.25}}`` makes an encoder ``retromae-at25`` as well: the weights of the same training after a
quarter of its steps, at the learning rate that its schedule has there. It is an encoder like any other; the job that trains
``retromae`` writes both (``rules/pretrain.smk``). Standard library only.
"""

from collections.abc import Mapping
from typing import Any

from pretrieve.base.errors import ConfigError


def with_snapshots(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with an entry for each snapshot: that of its encoder, with ``snapshot_of`` and ``at`` (its share of the
    steps) in place of ``snapshots``. Shapes that the schema refuses stay as they are.

    >>> config = {"encoders": {"bert": {"objective": "mlm", "snapshots": {"at25": 0.25}}}}
    >>> with_snapshots(config)["encoders"]["bert-at25"]
    {'objective': 'mlm', 'snapshot_of': 'bert', 'at': 0.25}

    Raises ConfigError when another encoder has a snapshot's name.
    """
    encoders = config.get("encoders")
    made: dict[str, Any] = {}
    for encoder, entry in encoders.items() if isinstance(encoders, Mapping) else ():
        snapshots = entry.get("snapshots") if isinstance(entry, Mapping) else None
        for name, share in snapshots.items() if isinstance(snapshots, Mapping) else ():
            own = {key: value for key, value in entry.items() if key != "snapshots"}
            made[f"{encoder}-{name}"] = own | {"snapshot_of": encoder, "at": share}
            there = encoders.get(f"{encoder}-{name}", {"snapshot_of": encoder})
            if not isinstance(there, Mapping) or there.get("snapshot_of") != encoder:
                raise ConfigError(
                    f"config: encoders.{encoder}.snapshots.{name}: there is an encoder {encoder}-{name} already; give the "
                    "snapshot another name"
                )
    return {**config, "encoders": {**encoders, **made}} if made else config


def without_snapshots(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same without these entries: what is wrong with one is wrong with its encoder, whose name a message should have."""
    encoders = config.get("encoders")
    if not isinstance(encoders, Mapping):
        return config
    own = {key: one for key, one in encoders.items() if not isinstance(one, Mapping) or "snapshot_of" not in one}
    return {**config, "encoders": own}


def check_snapshots(name: str, entry: Mapping[str, Any], encoders: Mapping[str, Any]) -> None:
    """Raise ConfigError where what is not trained has snapshots, or a snapshot's entry is none of those."""
    if "snapshots" in entry and "budget" not in entry:
        raise ConfigError(f"config: encoders.{name}.snapshots: it trains nothing, so it has no snapshots")
    parent = entry.get("snapshot_of")
    shares = (encoders.get(parent) or {}).get("snapshots", {})
    if parent is not None and shares.get(name.removeprefix(f"{parent}-")) != entry.get("at"):
        raise ConfigError(
            f"config: encoders.{name}.snapshot_of: {parent!r} has no such snapshot; write it there: snapshots: {{NAME: SHARE}}"
        )


def trained_by(encoders: Mapping[str, Any], encoder: str) -> str:
    """The encoder whose training makes an encoder: itself, or what it is a snapshot of."""
    return encoders[encoder].get("snapshot_of", encoder)


def groups(encoders: Mapping[str, Any]) -> dict[tuple[str, ...], list[str]]:
    """Names of snapshots → the encoders whose training makes exactly these: a rule each.

    >>> groups({"none": {}, "a": {"snapshots": {"at25": 0.25}}, "a-at25": {"snapshot_of": "a"}, "b": {}})
    {(): ['none', 'b'], ('at25',): ['a']}
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for name, entry in encoders.items():
        if "snapshot_of" not in entry:
            found.setdefault(tuple(entry.get("snapshots", ())), []).append(name)
    return found
