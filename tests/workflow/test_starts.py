"""A published checkpoint as a start and as the vocabulary, from the mirror to an encoder's directory; and what is
refused.

Seen to fail when: pretraining does not wait for the checkpoint; the vocabulary is trained although one is named; a
changed file of a dir: runs nothing again; check_starts is not called.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers
from tiny_science import change_config
from tokenizers import Tokenizer

from pretrieve.text.vocabulary import SPECIAL_TOKENS

LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789.=", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789")]
OUT = "results/demo/encoders/{}/seed1/config.json"


def put_checkpoint(directory: Path, seed: int = 1) -> None:
    """A small BERT with a vocabulary of letters."""
    transformers.set_seed(seed)
    entries = [*SPECIAL_TOKENS, *LETTERS]
    config = transformers.BertConfig(
        vocab_size=len(entries), hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24
    )
    transformers.BertForMaskedLM(config).save_pretrained(directory)
    (directory / "vocab.txt").write_text("\n".join(entries) + "\n")


def test_from_the_mirror_and_from_a_directory(cold) -> None:
    put_checkpoint(cold.folder / "mirror/hub/Luyu/condenser")
    put_checkpoint(cold.folder / "local", seed=2)
    change_config(cold.folder, "scales", "demo", "vocabulary_file", to="hub:Luyu/condenser")
    encoders = {
        "hub": {"body": "transformer", "objective": "none", "start": "hub:Luyu/condenser"},
        "local": {"body": "transformer", "objective": "mlm", "budget": "pairs", "start": "dir:local"},
    }
    change_config(cold.folder, "encoders", to=encoders)
    change_config(cold.folder, "tables", to=["pretraining_tasks/table1"])
    targets = [OUT.format(name) for name in encoders]
    ended = cold.run("--cores", "2", *targets)
    assert ended.code == 0, ended.text
    assert (ended.jobs["fetch_checkpoint"], ended.jobs["pretrain"]) == (1, 2)
    data = cold.folder / "data/hub/Luyu--condenser"
    assert {path.name for path in data.iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocab.txt",
        "manifest.json",
        "origin.txt",
    }
    (tokenizer,) = (cold.folder / "results/demo/corpora").glob("*/tokenizer.json")
    assert Tokenizer.from_file(str(tokenizer)).get_vocab_size() == len(SPECIAL_TOKENS) + len(LETTERS)
    about = json.loads((cold.folder / OUT.format("hub")).with_name("pretrieve.json").read_text())
    assert (about["start"], about["body"]["layers"]) == ("hub:Luyu/condenser", 3)
    ours = transformers.AutoModel.from_pretrained((cold.folder / OUT.format("hub")).parent).state_dict()
    theirs = transformers.AutoModel.from_pretrained(data).state_dict()
    assert all(theirs[name].equal(tensor) for name, tensor in ours.items() if not name.startswith("pooler."))
    # A file of a dir: that changes is another start; nothing else runs again.
    assert not cold.plan(*targets).jobs
    put_checkpoint(cold.folder / "local", seed=3)
    assert cold.plan(*targets).jobs == {"pretrain": 1}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("encoders={base: {start: 'dir:no/such'}}", ["encoders.base.start", "no/such: no such directory"]),
        ("encoders={base: {start: 'hub:condenser'}}", ["encoders.base.start", "hub:OWNER/NAME"]),
        ("scales={demo: {vocabulary_file: words.txt}}", ["scales.demo.vocabulary_file", "'words.txt': no such file"]),
    ],
)
def test_refused_before_any_job(project, setting: str, words: list[str]) -> None:
    ended = project.run("--cores", "1", "--config", setting)
    assert ended.code != 0 and "Traceback" not in ended.text and "Job stats" not in ended.text
    assert "ConfigError: config: " in ended.stderr
    assert [word for word in words if word not in ended.stderr] == [], ended.text
