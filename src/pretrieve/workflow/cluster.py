"""The place where jobs run, a cluster or one machine with GPUs: what its user fills in, and how it is checked.

``profiles/slurm/site.yaml`` and ``profiles/gpu/site.yaml`` are the key ``site`` of the configuration: what differs from place
to place, and nothing that a result depends on. A cluster answers a wrong account or partition after minutes in a queue, once
for every job; here it is an error of one line before the first submission, where Slurm's own lists (``sinfo``, ``sacctmgr``)
can be asked. Standard library only, for the workflow reads this file.
"""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pretrieve.base.errors import ConfigError, nearest

SCHEDULERS = ("none", "slurm")
GPUS_BY = ("gpus", "gres", "none")
#: Seconds that Slurm's commands may take to answer; a login node may be slow, and a controller away.
PATIENCE = 20
_NAME = r"[A-Za-z0-9_.,:+][A-Za-z0-9_.,:+-]*"
_FEATURES = r"[A-Za-z0-9_.(\[][A-Za-z0-9_.,:&|*()\[\]-]*"


def site_error(what: str) -> ConfigError:
    return ConfigError(
        f"site: {what.removesuffix('.')}. The key is in site.yaml of the profile, such as profiles/slurm/site.yaml."
    )


@dataclass(frozen=True)
class Site:
    """The keys of ``site``; profiles/slurm/site.yaml says what each is for. Counts of 0 mean: no limit, or as it comes."""

    scheduler: str = ""
    partition: str = ""
    cpu_partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gpus_by: str = "gpus"
    gpu_model: str = ""
    cpus_per_gpu: int = 0
    max_minutes: int = 0
    max_mem_mb: int = 0
    share: int = 1
    gpus: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any] | None) -> Site:
        """From the key ``site`` of the configuration; None and empty keys take what is above. Raises ConfigError for the
        first key or value that is not allowed."""
        known = {entry.name: entry for entry in fields(cls)}
        if values is not None and not isinstance(values, Mapping):
            raise site_error(f"{values!r} is not allowed; expected keys and values, as in profiles/slurm/site.yaml.")
        given = {name: value for name, value in (values or {}).items() if value is not None}
        for name in given:
            if name not in known:
                raise site_error(f"{name}: unknown key; allowed: {', '.join(known)}{nearest(name, known)}")
        checked: dict[str, Any] = {}
        for name, value in given.items():
            if name in ("gpus", "nodes"):
                checked[name] = _counts(name, value)
            elif isinstance(known[name].default, int):
                checked[name] = _count(name, value, least=1 if name == "share" else 0)
            else:
                checked[name] = _word(name, value)
        site = cls(**checked)
        for name, value, allowed in (("scheduler", site.scheduler, SCHEDULERS), ("gpus_by", site.gpus_by, GPUS_BY)):
            if value and value not in allowed:
                raise site_error(
                    f"{name}: {value!r} is not allowed; allowed: {', '.join(allowed)}{nearest(value, allowed)}"
                )
        if site.gpus_by == "none" and site.gpu_model:
            raise site_error(f"gpu_model: {site.gpu_model!r} with gpus_by: none; remove one of them.")
        if site.max_mem_mb and site.max_mem_mb < 500:
            raise site_error(f"max_mem_mb: {site.max_mem_mb} is less than the 500 MB that every job takes.")
        return site

    def resources(self, gpus: int, nodes: int) -> dict[str, int | str]:
        """Resources of a job with ``gpus`` GPUs on each of ``nodes`` nodes, in the words of Snakemake and its Slurm plugin.
        With GPUs it has ``gpu`` and ``nodes``, for its start line has them; ``gpu`` is 0 where Slurm is asked in another
        word."""
        found: dict[str, int | str] = {"gpu": gpus, "nodes": nodes} if gpus else {}
        if self.scheduler != "slurm":
            return found
        if self.gpus_by == "none":
            found, gpus = dict.fromkeys(found, 0) | ({"nodes": 1} if gpus else {}), 0
        partition = self.partition if gpus else self.cpu_partition or self.partition
        words = {"slurm_partition": partition, "slurm_account": self.account, "qos": self.qos}
        if gpus:
            words["constraint"] = self.constraint
            # --gpus counts over all nodes and may split them unevenly; --gres counts on each.
            if self.gpus_by == "gres" or nodes > 1:
                found["gpu"] = 0
                words["gres"] = ":".join(filter(None, ["gpu", self.gpu_model, str(gpus)]))
            else:
                words["gpu_model"] = self.gpu_model
        return found | {name: word for name, word in words.items() if word}

    def check_cluster(self) -> None:
        """Raise ConfigError for a partition or an account that the cluster's own commands do not list; one that is missing or
        fails gives no list."""
        if self.scheduler != "slurm":
            return
        partitions = _listed(["sinfo", "--noheader", "--format=%R"])
        for key in ("partition", "cpu_partition"):
            for name in filter(None, getattr(self, key).split(",")):
                if partitions and name not in partitions:
                    raise site_error(
                        f"{key}: {name!r} is not a partition of this cluster; it has {', '.join(sorted(partitions))}"
                        f"{nearest(name, partitions)}"
                    )
        if not self.account:
            return
        user = getpass.getuser()
        # Slurm writes account names in small letters.
        accounts = _listed(["sacctmgr", "-n", "-P", "list", "associations", f"user={user}", "format=account"])
        if accounts and self.account.lower() not in {name.lower() for name in accounts}:
            raise site_error(
                f"account: {self.account!r} is not an account of user {user}; allowed: {', '.join(sorted(accounts))}"
                f"{nearest(self.account, accounts)}"
            )


def _listed(command: list[str]) -> set[str]:
    """The lines that a command prints, or nothing where it is missing, fails or does not answer."""
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=PATIENCE, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {line.strip() for line in done.stdout.splitlines() if line.strip()} if done.returncode == 0 else set()


def _count(name: str, value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise site_error(f"{name}: {value!r} is not allowed; expected a whole number, {least} or more.")
    return value


def _counts(name: str, value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise site_error(f"{name}: {value!r} is not allowed; expected stages and numbers, such as {{pretrain: 4}}.")
    return {str(stage): _count(f"{name}.{stage}", number, least=1) for stage, number in value.items()}


def _word(name: str, value: Any) -> str:
    word = str(value)
    pattern = _FEATURES if name == "constraint" else _NAME
    if isinstance(value, bool | float | list | dict) or not re.fullmatch(pattern, word):
        raise site_error(f"{name}: {value!r} is not allowed; expected a name as Slurm has it, without spaces.")
    return word
