"""Tiny made-up inputs in the real formats, and what is built from them once for all tests."""

from __future__ import annotations

import copy
import fcntl
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pytest
import torch
from small_body import small_body
from tokenizers import Tokenizer

from pretrieve.corpora.builder import build_corpus
from pretrieve.corpora.mediawiki import read_encyclopedia
from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.retriever_files import save_retriever
from pretrieve.text.corpus_tokens import build_vocabulary, tokenise_corpus
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import given_tokenizer, vocabulary_sha256
from pretrieve.training import optimiser
from pretrieve.training.device import Device
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_environment import cache_places

ROOT = Path(__file__).resolve().parent.parent
# Somebody without a home keeps the compiled code of numba in the temporary folder, as a run keeps it in its checkout.
os.environ.update(cache_places(Path(tempfile.gettempdir()) / f"pretrieve-tests-{os.getuid()}"))
#: --doctest-modules would import every conftest.py as a module of the same name.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays to the end, so Python's garbage collector need not look at it, now or in a test."""
    gc.disable()
    try:
        collected = yield
        gc.freeze()
    finally:
        gc.enable()
    return collected


@pytest.fixture(autouse=True)
def keep_denormals():
    """choose_device() makes the whole process flush denormal numbers; a test after it must not notice."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture
def cut_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Interrupts the first training that comes to a step, before it; the call returns the steps that are seen from then on."""

    def cut(step: int) -> list[int]:
        rate, seen = optimiser.rate_of, []

        def interrupted(config, now: int) -> float:
            seen.append(now)
            if now == step and seen.count(step) == 1:
                raise KeyboardInterrupt
            return rate(config, now)

        monkeypatch.setattr(optimiser, "rate_of", interrupted)
        return seen

    return cut


#: Title → wikitext (or ``-> target`` for a redirect). The links among them are in WLP below.
PAGES = {
    "Anchor": """{{Infobox tool|name=Anchor|image=[[File:Anchor.jpg|thumb|An anchor of a [[Galleon]]]]}}
[[File:Anchor 2.jpg|left|An anchor, drawn for a [[Ketch|small ketch]] in 1850, with its chain beside it on the deck.]]
An '''anchor''' holds a [[boat]] to the [[sea_floor#Life|bed of the sea]].<ref>{{cite book|title=Ships}}</ref> It is made of iron.

Sailors on a [[Ketch]] drop it from the bow, where the chain runs. It weighs {{convert|40|kg|lb}} or more.

== History ==
The first anchors were stones with a hole, tied to a rope of hemp. Iron came later, with the [[boat|boats]] of the north.

== See also ==
* [[Ketch]]
This line stands in a section that is no prose, and must not be found in the corpus at all. [[Ketch]] too.
""",
    "Boat": """A boat is a small vessel that floats on water, and is often made of wood. An [[Anchor]] keeps it in its place.

{| class="wikitable"
|-
! Kind !! Length
|-
| [[Ketch]] || 12 metres, which is a long cell of a table that ends with a full stop and is no prose at all.
|}

== Kinds ==
* A list item about the [[Ketch]] that is quite long, so that only its mark keeps it out of the paragraphs.
One kind is the [[ketch]]ed yacht, and another is the [[Brig|ship]] with three masts. Both carry an [[anchor]]. See [[Boat]].
""",
    "Ketch": """== Rig ==
A ketch has two masts, of which the one behind is shorter than the main mast. It is a kind of [[Vessel|boat]], and steady at sea.
""",
    "Vessel": "-> Boat",
    "Sea floor": "-> Seabed",
}
LEADS = {
    "Seabed": "The seabed is the bottom of the sea. Many animals live there. It is dark.",
    "Boat": "A boat is a vessel for water. It is smaller than a ship.",
    "Yacht": "A yacht is a boat for pleasure.",
    "Empty": "  ",
}


def dump_xml(pages: dict[str, str]) -> str:
    """A MediaWiki export of articles and redirects, with a talk page that is not one."""
    parts = ['<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">']
    parts.append("<siteinfo><sitename>Test</sitename></siteinfo>")
    for number, (title, text) in enumerate(pages.items(), start=10):
        target = text.removeprefix("-> ") if text.startswith("-> ") else None
        redirect = f'<redirect title="{escape(target)}" />' if target else ""
        body = f"#REDIRECT [[{target}]]" if target else text
        parts.append(
            f"<page><title>{escape(title)}</title><ns>0</ns><id>{number}</id>{redirect}<revision><id>7</id>"
            f'<text xml:space="preserve">{escape(body)}</text></revision></page>'
        )
    parts.append(
        "<page><title>Talk:Boat</title><ns>1</ns><id>999</id><revision><id>8</id><text>Talk.</text></revision></page>"
    )
    return "\n".join([*parts, "</mediawiki>\n"])


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """``made_once(name, make)``: a folder that all processes of pytest-xdist share, as its documentation does it. The first
    that asks calls ``make(folder)``, and the others wait. Tests change nothing in it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def folder_of(name: str, make: Callable[[Path], None]) -> Path:
        folder, made = shared / name, shared / f"{name}.made"
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                assert not folder.exists(), f"{name} was not made to its end, as an error above says"
                make(folder)
                made.touch()
        return folder

    return folder_of


@pytest.fixture(scope="session")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "tiny-pages-articles.xml"
    path.write_text(dump_xml(PAGES), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def leads_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "leads.json"
    entries = {t: {"title": t, "extract": x, "description": f"a {t}", "topic": "sea"} for t, x in LEADS.items()}
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory, dump: Path, leads_file: Path) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    build_corpus(read_encyclopedia([dump], leads_file), directory)
    return directory


@pytest.fixture(scope="session")
def wordpiece(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
    build_vocabulary(tiny_corpus, 200, None, path)
    return path


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Path, wordpiece: Path) -> TokenStore:
    """Token store of the tiny corpus."""
    return tokenise_corpus(tiny_corpus, wordpiece, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def vocabulary(wordpiece: Path) -> Tokenizer:
    return Tokenizer.from_file(str(wordpiece))


@pytest.fixture(scope="session")
def wide_retriever(wordpiece: Path):
    """Save a small retriever with wide weights, so that texts get different vectors: ``wide_retriever(directory, similarity)``,
    with more entries of ``pretrieve.json`` by their names; returns the directory."""

    def save(directory: Path, similarity: str, **about: object) -> Path:
        words = given_tokenizer(wordpiece)
        shape = {"hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 40}
        body = BodyConfig(vocabulary_size=words.get_vocab_size(), std=0.3, word_std=0.5, **shape)
        encoder = Encoder(body, 16, "mean", 3, similarity, "none")
        about["vocabulary_sha256"] = vocabulary_sha256(words)
        save_retriever(directory, dual_encoder(encoder, "sde", seed=1), about=about)
        return directory

    return save


@pytest.fixture(scope="session")
def _projects_config() -> dict[str, Any]:
    return read_config(ROOT / "config.yaml")


@pytest.fixture
def config(_projects_config: dict[str, Any]) -> dict[str, Any]:
    """The project's own configuration; a test may change it."""
    return copy.deepcopy(_projects_config)


@pytest.fixture
def cpu() -> Device:
    return Device(torch.device("cpu"), bf16=False)


@pytest.fixture
def body(store: TokenStore) -> BodyConfig:
    """A body small enough for a test, wide enough to learn."""
    return small_body(store.vocabulary_size)


@pytest.fixture(scope="session")
def program():
    """Run Python in a fresh process with the project's modules; returns the completed process."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **environment},
            timeout=1200,  # so long does it take only where it hangs; on a busy machine minutes are usual
        )

    return run


@pytest.fixture
def random_packed():
    """Packed batches of random tokens other than [PAD]: ``random_packed(lengths, vocabulary_size, seed)``."""
    from pretrieve.text.packing import Part, pack

    def make(lengths, size: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        lengths = np.asarray(lengths, dtype=np.int64)
        tokens = rng.integers(1, size, lengths.sum())
        first = rng.integers(1, lengths + 1)
        starts = np.cumsum(lengths) - lengths
        return pack([Part(tokens, starts, first), Part(tokens, starts + first, lengths - first, segment=1)])

    return make
