"""A wrong account or partition ends with one line before anything is submitted, by what the cluster itself lists."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import ACCOUNT, Cluster, started
from miniature import Workflow, clone
from slurm_runs import PROFILE, TARGET, user_environment


@pytest.fixture(scope="module")
def with_accounts() -> Iterator[Cluster]:
    """A second controller, with a database of accounts and without a node: nothing is run on it."""
    with started(accounting=True, beside_another=True) as made:
        yield made


@pytest.fixture(scope="module")
def checkout(small: Workflow, slurm_folders: Path) -> Workflow:
    return clone(small, slurm_folders / "accounts")


def ask(
    checkout: Workflow, cluster: Cluster, key: str, value: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Fill one key of the site file in and give the usual command."""
    own = (Path(__file__).resolve().parents[2] / "profiles/slurm/site.yaml").read_text()
    assert own.count(f"\n  {key}:\n") == 1, "the site file has the key, and it is empty"
    place = checkout.folder / "profiles/slurm/site.yaml"
    place.write_text(own.replace(f"\n  {key}:\n", f"\n  {key}: {value}\n"))
    return subprocess.run(
        ["snakemake", *PROFILE, TARGET, *arguments],
        cwd=checkout.folder,
        env=user_environment(cluster),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def refusal(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line of our own that a refused command leaves."""
    assert ended.returncode != 0
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("ConfigError: ")]
    assert "Traceback" not in ended.stderr and "Job stats" not in ended.stdout + ended.stderr
    return line


def test_a_wrong_account_is_refused_with_a_clear_line(with_accounts, checkout):
    line = refusal(ask(checkout, with_accounts, "account", "labb"))
    for words in ("account", "'labb'", "user root", ACCOUNT, f"did you mean '{ACCOUNT}'"):
        assert words in line
    assert with_accounts.jobs() == []
    assert ask(checkout, with_accounts, "account", ACCOUNT, "-n", "--quiet").returncode == 0


def test_slurm_refuses_that_account_too(with_accounts):
    """So the check before the first submission says nothing that the cluster would not have said."""
    assert shutil.which("sbatch")
    command = ("sbatch", "--parsable", "--hold", "--wrap=true", "--output=/dev/null")
    with pytest.raises(AssertionError, match="Invalid account"):
        with_accounts.command(*command, "--account=labb")
    assert with_accounts.command(*command, f"--account={ACCOUNT}").strip().isdigit()


def test_an_unknown_partition_is_refused_with_a_clear_line(cluster, checkout):
    before = cluster.jobs()
    line = refusal(ask(checkout, cluster, "partition", "mian"))
    for words in ("partition", "'mian'", "not a partition of this cluster", "did you mean 'main'"):
        assert words in line
    assert cluster.jobs() == before
