"""The Debian packages of a Slurm, installed where that is possible: as root, with apt, and without starting a service.

``python tests/slurm/slurm_packages.py`` installs them all; where it cannot, it says why and that the tests will be skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
#: A database of accounts and ended jobs; only the tests of accounts need it.
ACCOUNTING_PACKAGES = ("slurmdbd", "mariadb-server")
ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db")
#: Daemons stand in the folders of the system's administrator.
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _missing(programs: tuple[str, ...]) -> list[str]:
    return [name for name in programs if not shutil.which(name, path=PATH)]


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """While this lasts, Debian's packages start no service when they are installed."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def install(packages: tuple[str, ...]) -> str | None:
    """Install Debian packages; the reason where that did not work, else None."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"needs the Debian packages {' '.join(packages)}, and root to install them"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "PATH": PATH}
    wait = ["-o", "DPkg::Lock::Timeout=120"]
    commands = (["update"], ["install", "-y", "--no-install-recommends", *packages])
    with _no_services():
        for command in commands:
            ended = subprocess.run(
                ["apt-get", "-q", *wait, *command], env=environment, capture_output=True, text=True, timeout=600
            )
            if ended.returncode != 0:
                last = (ended.stderr.strip() or "no message").splitlines()[-1]
                return f"apt-get {command[0]} {' '.join(packages)} failed: {last}"
    return None


def installed(accounting: bool) -> str | None:
    """Install what a cluster needs, if it is not there; the reason where programs are missing still, else None."""
    programs, packages = PROGRAMS, PACKAGES
    if accounting:
        programs, packages = (*programs, *ACCOUNTING_PROGRAMS), (*packages, *ACCOUNTING_PACKAGES)
    if not _missing(programs):
        return None
    reason = install(packages)
    missing = _missing(programs)
    return f"{', '.join(missing)} not found: {reason or 'the packages have other programs'}" if missing else None


if __name__ == "__main__":
    failed = installed(accounting=True)
    print(f"Tests on a Slurm will be skipped: {failed}" if failed else "The programs of a Slurm are installed.")
