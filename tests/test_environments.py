"""Conda environments and containers install what requirements.lock lists, by hash, and torch; every rule has an environment.

No conda channel and no registry is asked: the scripts run with a ``python`` that writes down how it was called.

Seen to fail when: an environment's checksum is that of another lock; faiss-gpu has another version; both kinds of faiss are
installed; torch is installed without its dependencies, or everything else with them; a package has no hash; a rule has no
environment; a stage with a GPU has that without one; a container does not copy what its script reads.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK, TORCH = ROOT / "envs/requirements.lock", ROOT / "envs/torch.txt"
#: Stages whose rules ask for a GPU.
ON_GPU = ("pretrain", "finetune", "retrieve", "predict", "analyse", "mine")


def pins(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_an_environment_is_python_and_names_its_lock(name: str) -> None:
    text = (ROOT / f"envs/{name}.yaml").read_text()
    assert yaml.safe_load(text)["dependencies"] == ["python=3.11", "pip"]
    named = re.search(r"^# lock: ([0-9a-f]{64})$", text, flags=re.MULTILINE)
    # `make lock` writes it; without it, Snakemake would keep an environment of an older lock.
    assert named is not None and named[1] == hashlib.sha256(LOCK.read_bytes() + TORCH.read_bytes()).hexdigest()


def calls(name: str, tmp_path: Path, **more: str) -> list[tuple[list[str], list[str]]]:
    """(words, pins of the file behind --requirement) of each call of python in a script."""
    fake = tmp_path / "python"
    fake.write_text(
        '#!/usr/bin/env bash\nprintf "%s\\n" "$@" > "$CALLS/$(ls "$CALLS" | wc -l).words"\nwhile [ $# -gt 0 ]; do\n'
        '  case "$1" in --requirement) cp "$2" "$CALLS/../$(ls "$CALLS" | wc -l).pins";; esac; shift\ndone\n'
    )
    fake.chmod(0o755)
    (tmp_path / "calls").mkdir()
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), **more}
    subprocess.run(["bash", str(ROOT / f"envs/{name}.post-deploy.sh")], cwd=ROOT, env=env, check=True)
    found = []
    for number, file in enumerate(sorted((tmp_path / "calls").glob("*.words")), start=1):
        found.append((file.read_text().splitlines(), pins((tmp_path / f"{number}.pins").read_text())))
    return found


def packages(lines: list[str]) -> dict[str, list[str]]:
    """``NAME==VERSION`` → its hashes."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("    --hash="):
            found[list(found)[-1]].append(line.strip(" \\"))
        else:
            found[line.strip(" \\")] = []
    return found


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_a_script_installs_the_lock_and_torch_and_nothing_else(name: str, tmp_path: Path) -> None:
    (first, wanted), (second, torch) = calls(name, tmp_path)
    locked = packages(pins(LOCK.read_text()))
    faiss = next(package for package in locked if package.startswith("faiss-cpu=="))
    if name == "gpu":
        del locked[faiss]
    assert {"--require-hashes", "--no-deps"} <= set(first) and not [word for word in first if "==" in word]
    assert packages(wanted) == locked and len(locked) > 100 and all(locked.values())
    assert torch == pins(TORCH.read_text()) == ["torch==2.13.0"] and "--no-deps" not in second
    assert [word for word in second if "==" in word] == ([faiss.replace("cpu", "gpu")] if name == "gpu" else [])


def test_torch_can_come_from_an_index_of_its_own(tmp_path: Path) -> None:
    (first, _), (second, _) = calls("cpu", tmp_path, PRETRIEVE_TORCH_INDEX="https://torch.example/cpu")
    assert second[second.index("--extra-index-url") + 1] == "https://torch.example/cpu"
    assert "--extra-index-url" not in first


def test_the_lock_has_what_the_project_asks_for() -> None:
    """``make lock`` after a change of pyproject.toml; seen to fail with a package of an extra that the lock lacks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [Requirement(text) for text in (*project["dependencies"], *extras["workflow"], *extras["test"])]
    lines = [*packages(pins(LOCK.read_text())), *pins(TORCH.read_text())]
    locked = dict(line.split("==") for line in lines)
    assert [str(one) for one in asked if not one.specifier.contains(locked.get(one.name, "0"))] == []
    faiss = {name: [text.partition("==")[2] for text in extras[name] if text.startswith("faiss")] for name in extras}
    assert faiss["workflow"] == faiss["gpu"], "one version of faiss"


def test_every_rule_has_an_environment_and_gpus_that_of_gpus() -> None:
    found: dict[str, set[str]] = {}
    for file in sorted((ROOT / "rules").glob("*.smk")):
        for body in re.split(r"\n\s*(?=rule\b)", file.read_text())[1:]:
            if "shell:" not in body:
                continue
            environment = re.search(r'conda:\n\s+"\.\./(envs/\w+\.yaml)"', body)
            assert environment is not None and (ROOT / environment[1]).is_file(), body[:60]
            stage = re.search(r'threads: NEEDS\[(\w+|"\w+")\]', body)
            if stage is not None:
                names = ("retrieve", "predict") if stage[1] == "STAGE" else (stage[1].strip('"'),)
                for name in names:
                    found.setdefault(name, set()).add(environment[1])
    assert {stage for stage, used in found.items() if used == {"envs/gpu.yaml"}} == set(ON_GPU)
    assert all(len(used) == 1 for used in found.values()) and len(found) > 15


@pytest.mark.parametrize("file", ["pretrieve.def", "Dockerfile"])
def test_a_container_runs_the_same_scripts_with_the_files_that_they_read(file: str) -> None:
    text = (ROOT / "containers" / file).read_text()
    assert re.search(r"^From:? python:3\.11-slim-bookworm$", text, flags=re.MULTILINE | re.IGNORECASE)
    copied = set(re.findall(r"envs/[\w.-]+\.(?:lock|txt|sh)", text))
    assert copied == {"envs/requirements.lock", "envs/torch.txt", "envs/cpu.post-deploy.sh", "envs/gpu.post-deploy.sh"}
    variable = "{{ variant }}" if file == "pretrieve.def" else "$VARIANT"
    assert f"envs/{variable}.post-deploy.sh" in text and "PRETRIEVE_TORCH_INDEX" in text
    for script in ("cpu", "gpu"):
        read = set(re.findall(r"envs/[\w.-]+", (ROOT / f"envs/{script}.post-deploy.sh").read_text()))
        assert read <= copied
