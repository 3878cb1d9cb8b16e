"""Puts this checkout's code on Python's path: Snakemake lets a Snakefile import what stands beside it (its FAQ)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
