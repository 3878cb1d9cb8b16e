from __future__ import annotations

import pytest
from made_store import make_store

from pretrieve.text.token_store import TokenStore


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """With 20 passages of every length from 1 to 20 tokens: sequences of 3 to 22."""
    return make_store(tmp_path_factory.mktemp("store"), [[[n]] for n in range(1, 21)])
