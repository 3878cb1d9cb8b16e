"""A table's manifest: what made it. Version, software, configuration, data, hardware, cost, and a command per row."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Collection, Sequence, Set
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import code_file, version_of
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of
from pretrieve.references.tables import Table
from pretrieve.reporting.tables.filling import Line, count_statuses
from pretrieve.reporting.tables.legend import overlaps_of
from pretrieve.reporting.tables.results import ResultFiles, Setting

#: Instructions by which matrix libraries choose how they add.
VECTOR_SETS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
#: Seconds that NVIDIA's tool may take to answer.
PATIENCE = 30
#: Package as imported → names it may be installed under, tried in order.
_PACKAGES = {"faiss": ("faiss-cpu", "faiss-gpu")}
_PACKAGES |= {name: (name,) for name in ("pyserini", "ranx", "torch", "transformers")}


def make_manifest(
    table: Table,
    lines: Sequence[Line],
    setting: Setting,
    config_hash: str,
    lock: Path | None = None,
    sources: Sequence[Path] = (),
) -> dict[str, Any]:
    """Everything needed to make ``table`` again, as a JSON object.

    ``lock`` is the lock file of the Python environment, ``sources`` the files (data, or lists of data with their
    checksums) that the results rest on. ``cost`` counts a stage that several cells share once, unlike the cells.

    Raises DataError when ``lock`` or one of ``sources`` does not exist.
    """
    return {
        "paper": table.paper,
        "table": table.name,
        **measured_with(setting, {cell.dataset for cell in table.cells}),
        "baseline": table.baseline,
        "cells": count_statuses(lines),
        "overlap": overlaps_of(lines, setting),
        **made_with(config_hash, lock, sources),
        "cost": total_cost(table, setting),
        "commands": {
            "table": setting.command(f"{setting.root}/tables/{table.paper}/{table.name}.csv"),
            "rows": row_commands(table, setting),
        },
    }


def measured_with(setting: Setting, roles: Set[str]) -> dict[str, Any]:
    """The part of a manifest that says what was measured: scale, seeds, and the data sets that play ``roles``; ``means`` only
    where a mean of data sets plays one."""
    played = {role: setting.roles[role] for role in sorted(roles & set(setting.roles))}
    means = {name: list(setting.parts[name]) for name in sorted(set(played.values()) & set(setting.parts))}
    return {
        "scale": setting.scale,
        "seeds": list(setting.seeds),
        "roles": played,
        **({"means": means} if means else {}),
    }


def made_with(config_hash: str, lock: Path | None, sources: Sequence[Path]) -> dict[str, Any]:
    """The part of a manifest that says with what: version, configuration, checksums, software and machine."""
    version = version_of(code_file())
    return {
        "git": {"commit": version.commit, "dirty": version.dirty},
        "config_hash": config_hash,
        "lock_sha256": file_sha256(lock) if lock else None,
        "sources_sha256": {str(path): file_sha256(path) for path in sources},
        "versions": {"python": platform.python_version(), **installed_versions()},
        "hardware": hardware(),
    }


def row_commands(table: Table, setting: Setting) -> dict[str, str]:
    """Row name → the command that makes its measured values; rows without one (quoted, not-run) are left out."""
    files: dict[str, list[str]] = {}
    for cell in table.cells:
        files.setdefault(cell.row, []).extend(setting.files_of(table, cell))
    return {row: setting.command(*dict.fromkeys(paths)) for row, paths in files.items() if paths}


def total_cost(table: Table, setting: Setting) -> dict[str, Any]:
    """Wall seconds and GPU hours added up over the distinct stages of a table, and the peak memory of the largest."""
    cells = [cell for cell in table.cells if setting.files_of(table, cell)]
    runs = ((cell, seed) for cell in cells for seed in setting.seeds_of(cell))
    return cost_of({path for run in runs for path in setting.cost_files_of(*run)})


def cost_of(wanted: Collection[str]) -> dict[str, Any]:
    """The same of some stages' cost files and of the ``stages`` behind them, each counted once; one of the files may be missing,
    and is counted as such."""
    there, files = [path for path in wanted if Path(path).is_file()], ResultFiles()
    cost = files.cost(there)
    return {
        "wall_s": round(cost.wall_s, 1),
        "gpu_h": round(cost.gpu_h, 4),
        "peak_gb": round(cost.peak_gb, 2),
        "stages": len(files.stages(there)),
        "stages_without_cost": len(wanted) - len(there),
    }


def installed_versions() -> dict[str, str | None]:
    """Versions of the packages that decide numbers, from their metadata (importing them takes seconds)."""
    return {package: next(filter(None, map(_version, names)), None) for package, names in _PACKAGES.items()}


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def hardware() -> dict[str, Any]:
    """This machine: processor, cores this process may use, memory in GB (1e9 bytes), GPU models."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        "gpus": _gpus(),
    }


def _gpus() -> list[str]:
    """As NVIDIA's tool lists them; none where it is missing, fails or does not answer, as beside a broken driver."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, encoding="utf-8", errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, its family and model, and which of :data:`VECTOR_SETS` it has: clouds give one name to different
    processors, and sums are rounded by what these sets can do and by how much a cache holds.

    ``AMD EPYC (family 25, model 1) +avx2 +fma``, for example.
    """
    if cpuinfo.is_file():
        first = cpuinfo.read_text(encoding="utf-8").partition("\n\n")[0]
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
        if name := fields.get("model name"):
            known = (key for key in ("cpu family", "model") if key in fields)
            kind = ", ".join(f"{key.removeprefix('cpu ')} {fields[key]}" for key in known)
            flags = fields.get("flags", "").split()
            sets = (f"+{each}" for each in VECTOR_SETS if each in flags)
            return " ".join([name, *([f"({kind})"] if kind else []), *sets])
    return platform.processor() or platform.machine()


def file_sha256(path: Path | str) -> str:
    """SHA-256 of a file as 64 hexadecimal digits; of a folder, that of the places and SHA-256 of the files in it, without the
    hidden ones, which no corpus is read from. Raises DataError when there is nothing."""
    path = Path(path)
    if path.is_dir():
        files = {file.relative_to(path): file for file in path.rglob("*") if file.is_file()}
        shown = sorted(name for name in files if not any(part[0] == "." for part in name.parts))
        sums = (os.fsencode(name.as_posix()) + b"\0" + sha256_of(files[name]).encode() for name in shown)
        return hashlib.sha256(b"\n".join(sums)).hexdigest()
    try:
        return sha256_of(path)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; expected a lock or data file whose checksum the manifest keeps."
        ) from None
