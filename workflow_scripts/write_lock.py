"""Write the complete lock from pip's report of what it would install, and the packages installed without dependencies."""

import json
import sys
from pathlib import Path

HEADER = """\
# The complete, pinned set: `make lock` writes it from requirements.in and requirements-nodeps.in; `make venv` installs it
# with --no-deps, so nothing but this list comes in. torch is installed first with its own dependencies, for an index that
# serves it as a CUDA build.
"""


def main(report: Path, no_dependencies: Path, lock: Path) -> None:
    packages = [entry["metadata"] for entry in json.loads(report.read_text(encoding="utf-8"))["install"]]
    # A local version such as 2.13.0+cpu names a build that only one index has; the CUDA packages come with that build.
    lines = {f"{p['name'].lower().replace('_', '-')}=={p['version'].split('+')[0]}" for p in packages}
    lines = {line for line in lines if not line.startswith(("nvidia-", "triton==", "cuda-"))}
    lines |= {
        line for line in no_dependencies.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    }
    lock.write_text(HEADER + "\n".join(sorted(lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
