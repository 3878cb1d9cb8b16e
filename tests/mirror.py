"""Real data, where a copy of it is at hand: in the folder PRETRIEVE_TEST_MIRROR, or in shared/mirror beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MIRROR = Path(os.environ.get("PRETRIEVE_TEST_MIRROR", Path(__file__).resolve().parents[2] / "shared/mirror"))


def needs(name: str = "") -> pytest.MarkDecorator:
    """Skips a test without that file or folder of the mirror."""
    return pytest.mark.skipif(not (MIRROR / name).exists(), reason=f"{MIRROR / name} is not there")
