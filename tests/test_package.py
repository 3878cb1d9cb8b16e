"""The wheel: all modules, schemas and templates, and the program ``pretrieve``, without the checkout and without a network.

Seen to fail when: the templates are no package data; a schema stays outside of the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
USES = """
import pretrieve
from pathlib import Path
from pretrieve.base.code_folder import PACKAGE, package_file
assert Path(pretrieve.__file__).parent == PACKAGE and {site!r} in str(PACKAGE), PACKAGE
from pretrieve.references.yaml_files import check
check({{"by": "x", "system": "a", "data": "d", "source": "s", "claims": ["c"]}}, "here", "claims", "reproduction")
assert package_file("reporting/templates/report.html.j2").is_file()
assert package_file("schemas/config.schema.yaml").is_file()
assert pretrieve.search([[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], ["a", "b"]).doc_ids == [["b", "a"]]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made by pip from a copy of the sources and installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("package")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile"]
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    subprocess.run([*install, "--target", folder / "site", folder], check=True, timeout=300)
    installed = {file.relative_to(folder / "site") for file in (folder / "site/pretrieve").rglob("*") if file.is_file()}
    sources = [
        file for file in (ROOT / "src/pretrieve").rglob("*") if file.is_file() and file.parent.name != "__pycache__"
    ]
    assert installed == {file.relative_to(ROOT / "src") for file in sources}
    return folder / "site"


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program beside the installed packages, with the wheel in front of the checkout that they may have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=site.parent, env=kept | {"PYTHONPATH": str(site)}, capture_output=True, text=True
    )


def test_the_package_works_without_the_checkout(site: Path) -> None:
    done = run(site, "-c", USES.format(site=str(site)))
    assert done.returncode == 0, done.stderr


def test_the_program_is_installed(site: Path) -> None:
    done = run(site, str(site / "bin/pretrieve"), "--help")
    assert done.returncode == 0 and "fine-tune" in done.stdout.lower(), done.stderr
    done = run(site, str(site / "bin/pretrieve"), "status", "--results", "nothing")
    assert done.returncode == 1 and done.stderr.startswith("ConfigError: "), done.stderr
    metadata = next(site.glob("pretrieve-*.dist-info")) / "METADATA"
    lines = metadata.read_text(encoding="utf-8").splitlines()
    assert {"Provides-Extra: workflow", "Provides-Extra: gpu", "Provides-Extra: test", "Name: pretrieve"} <= set(lines)
