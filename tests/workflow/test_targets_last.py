"""A target behind ``--config``, as a function, and for the Snakemake that ``make venv`` installs.

Seen to fail when: words that are no target are moved; targets go before ``--``, or lose those that stand behind it; the line of
the Makefile names another program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pretrieve.workflow.running.targets_last import targets_last

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"
SNAKEFILE = """
rule first:
    output: "first.txt"
    shell: "echo {config[letter]} > {output}"
rule wanted:
    output: "out/wanted.txt"
    shell: "echo {config[letter]} > {output}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ""),
        ("-n wanted", "-n wanted"),
        ("wanted --config a=b", "wanted --config a=b"),
        ("--config a=b -- wanted", "--config a=b -- wanted"),
        ("--cores all --config a=b wanted", "--cores all --config a=b -- wanted"),
        ("--config a=b results/small/x.csv c=d -n", "--config a=b c=d -n -- results/small/x.csv"),
        ("-C a=b one two --cores 2", "-C a=b --cores 2 -- one two"),
        ("--config a=b one -- two", "--config a=b -- two one"),
        ("--config a=b --until one", "--config a=b --until one"),  # of another option
        ("--configfile other.yaml one", "--configfile other.yaml one"),
        ("--config seeds=[1, 2]", "--config seeds=[1, 2]"),  # quotes forgotten: Snakemake says so
    ],
)
def test_words(words: str, expected: str) -> None:
    assert targets_last(words.split()) == expected.split()


@pytest.mark.parametrize("program", ["snakemake", "another"])
def test_the_environments_snakemake_takes_them(program: str, tmp_path: Path) -> None:
    """The line of the ``.pth`` file, then Snakemake as its own script calls it."""
    (line,) = re.findall(r"^AT_START := (.*)$", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    words = [f"/some/bin/{program}", "--cores", "1", "--config", "letter=b", "wanted"]
    code = f"import sys\nsys.argv = {words!r}\n{line}\nfrom snakemake.cli import main\nmain()\n"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    made = {path.name: path.read_text() for path in tmp_path.rglob("*.txt")}
    if program == "snakemake":
        assert ended.returncode == 0, ended.stderr
        assert made == {"wanted.txt": "b\n"}
    else:
        assert ended.returncode != 0 and made == {}
        assert "name=value" in ended.stderr.lower()
