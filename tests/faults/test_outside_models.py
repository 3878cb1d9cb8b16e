"""A model that others have made, given to ``evaluate-model``, ``index`` and :func:`pretrieve.load`: refused in a sentence, with
nothing of it run and nothing measured, or loaded.

Seen to fail when: ``modules.json`` names any class or folder; links, devices and adapters are not looked for; sizes have no
bounds; errors of sentence-transformers pass; names in ``pretrieve.json`` are taken as they are.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_slices import listing

from pretrieve.base.errors import DataError, PretrieveError
from pretrieve.benchmarks.official.beir import read_beir_test
from pretrieve.commands.evaluate_model import table_of
from pretrieve.evaluation.mteb_evaluation import Evaluated, evaluate_by_mteb
from pretrieve.models.sentence_modules import Reading
from pretrieve.retrieval.export import export
from pretrieve.retrieval.retriever import load


class Evil:
    """What a pickle runs when it is read."""

    def __reduce__(self):
        return os.system, ("touch precious",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, wordpiece: Path, wide_retriever) -> Path:
    out = tmp_path_factory.mktemp("whole") / "model"
    export(wide_retriever(out.parent / "made", "dot"), wordpiece, out, Reading(8, 20))
    return out


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks") / "small"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "An anchor."}\n{"_id": "e", "text": "A boat."}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "anchor"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    return folder


Change = Callable[[Path], object]


def said(name: str, **changed: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps((json.loads(path.read_text()) if path.is_file() else {}) | changed))

    return change


def module(number: int, **changed: Any) -> Change:
    def change(folder: Path) -> None:
        listed = json.loads((folder / "modules.json").read_text())
        listed[number] |= changed
        (folder / "modules.json").write_text(json.dumps(listed))

    return change


def text(name: str, content: str | bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


CODE = text("evil.py", "open('precious', 'w')\nclass Evil: pass\n")
#: What is changed → what is said by both, or by ``evaluate-model`` alone.
BOTH: dict[str, tuple[Change, str]] = {
    "a class of its own": (
        both(CODE, module(0, type="evil.Evil")),
        r"modules\.json: type 'evil\.Evil'; expected a class",
    ),
    "a class of Python": (module(1, type="os.system"), r"modules\.json: type 'os\.system'; expected a class"),
    "no class": (module(0, type=None), r"modules\.json: type None"),
    "a folder above": (module(1, path="../../outside"), "would leave its folder"),
    "an absolute folder": (module(1, path="/etc"), "would leave its folder"),
    "NUL": (module(1, path="a\0b"), "has a control character"),
    "a long name": (module(1, path="x" * 5000), "is too long"),
    "no name": (module(1, path=None), "is no text"),
    "modules that are none": (text("modules.json", "[1]"), r"modules\.json: expected a list of modules"),
    "modules without end": (text("modules.json", "[" * 100_000), "values nested too deeply"),
    "no UTF-8": (text("modules.json", b"\xff\xfe["), "is not UTF-8"),
    "layers without end": (said("config.json", num_hidden_layers=10**9), "num_hidden_layers is 1000000000"),
    "a width of text": (said("config.json", hidden_size="x"), "hidden_size is 'x'"),
    "a width below zero": (said("config.json", hidden_size=-16), "hidden_size is -16"),
    "half a head": (said("config.json", num_attention_heads=0.5), r"num_attention_heads is 0\.5"),
    "settings that are none": (text("config.json", "[1]"), r"config\.json: .*expected an object"),
    "tokens of text": (said("sentence_bert_config.json", max_seq_length="x"), r"max_seq_length is 'x'"),
    "tokens below one": (said("sentence_bert_config.json", max_seq_length=0), r"max_seq_length is 0"),
    "a prompt of numbers": (
        said("config_sentence_transformers.json", prompts={"query": 5}),
        r"prompts is \{'query': 5\}",
    ),
    "prompts in a list": (said("config_sentence_transformers.json", prompts=["a"]), "prompts is"),
    "half of the weights": (
        lambda folder: os.truncate(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size // 2),
        r"model",
    ),
    "a tokenizer that is none": (text("tokenizer.json", "{}"), "token"),
    "a pickle for weights": (
        both(lambda folder: (folder / "model.safetensors").unlink(), text("pytorch_model.bin", pickle.dumps(Evil()))),
        "model",
    ),
}
ALONE: dict[str, tuple[Change, str]] = {
    "code of its own": (
        both(CODE, said("config.json", model_type="evil", auto_map={"AutoModel": "evil.Evil"})),
        r"config\.json: model_type is 'evil', with code of its own \(AutoModel\); expected a model of transformers",
    ),
    "an adapter": (
        text("adapter_config.json", '{"base_model_name_or_path": "../../outside"}'),
        r"adapter_config\.json: an adapter of '\.\./\.\./outside'; expected a whole model",
    ),
    "a link out": (
        lambda folder: (folder / "vocab.txt").symlink_to("/etc/passwd"),
        r"vocab\.txt leads out of its folder",
    ),
    "a folder that leads out": (
        lambda folder: (folder / "2_Dense").symlink_to("/etc"),
        "2_Dense leads out of its folder",
    ),
    "a pipe": (lambda folder: os.mkfifo(folder / "merges.txt"), r"merges\.txt is that of a device, a pipe or a socket"),
    "words without end": (
        said("config.json", vocab_size=10_000_000),
        r"vocab_size is 10,000,000 and the width 16: more than 160,000,000 numbers, but its weights have",
    ),
    "a missing folder": (module(1, path="3_None"), "3_None, which is missing"),
    "no modules": (lambda folder: (folder / "modules.json").unlink(), r"has no modules\.json"),
    "another tokenizer": (said("tokenizer_config.json", tokenizer_class=5), "cannot load it"),
    "positions without end": (said("config.json", max_position_embeddings=1_000_000), "cannot load it|more than"),
}


def refused(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, use: Callable[[Path], Any]
) -> str:
    """What is said of a changed copy; it was not run, and nothing was written."""
    model = shutil.copytree(whole, tmp_path / "model")
    change(model)
    monkeypatch.chdir(tmp_path)
    kept, begin = listing(tmp_path), time.process_time()
    with pytest.raises(PretrieveError) as caught:
        use(model)
    assert listing(tmp_path) == kept and time.process_time() - begin < 60
    message = str(caught.value)
    assert "\n" not in message and str(model) in message and len(message) < 1500, message
    return message


@pytest.mark.parametrize("kind", [*BOTH, *ALONE])
def test_evaluate_model_refuses(whole: Path, tasks: Path, tmp_path: Path, monkeypatch, kind: str) -> None:
    mteb = pytest.importorskip("mteb")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(mteb, "evaluate", lambda *_, **__: pytest.fail("measured a task"))
    change, expected = (BOTH | ALONE)[kind]
    message = refused(whole, tmp_path, monkeypatch, change, lambda model: evaluate_by_mteb(model, [str(tasks)]))
    assert re.search(expected, message), message


@pytest.mark.parametrize("kind", BOTH)
def test_load_refuses(whole: Path, tmp_path: Path, monkeypatch, kind: str) -> None:
    change, expected = BOTH[kind]
    message = refused(whole, tmp_path, monkeypatch, change, load)
    assert re.search(expected, message), message


def test_the_empty_folder_of_normalize_may_be_missing(
    tmp_path: Path, tasks: Path, wordpiece: Path, wide_retriever
) -> None:
    """It has no files, and a model fetched from the hub comes without it: git keeps no empty folder."""
    pytest.importorskip("mteb")
    export(wide_retriever(tmp_path / "made", "cosine"), wordpiece, tmp_path / "model", Reading(8, 20))
    [folder] = (tmp_path / "model").glob("*_Normalize")
    whole = evaluate_by_mteb(tmp_path / "model", [str(tasks)], check=True)
    shutil.rmtree(folder)
    assert evaluate_by_mteb(tmp_path / "model", [str(tasks)], check=True) == whole


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "qrels"])
def test_a_folder_of_questions_reads_nothing_outside(tasks: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(tasks, tmp_path / "small")
    (tmp_path / "outside").mkdir()
    (folder / name).rename(tmp_path / "outside/x")
    (folder / name).symlink_to(tmp_path / "outside/x")
    with pytest.raises(
        DataError, match=r"small/.* leads out of its folder by a link, to .*outside/x.*expected a file in"
    ):
        read_beir_test(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(DataError, match="no such file|no train.tsv, dev.tsv or test.tsv"):
        read_beir_test(folder)


def test_names_in_a_retriever_stay_in_its_folder(tmp_path: Path, wordpiece: Path, wide_retriever) -> None:
    made = wide_retriever(tmp_path / "made", "dot")
    load(made, wordpiece)
    about = json.loads((made / "pretrieve.json").read_text())
    for name in ("../made/config.json", str(made / "config.json"), "a\0b", "x" * 5000):
        (made / "pretrieve.json").write_text(json.dumps(about | {"files": {name: "0" * 64}}))
        with pytest.raises(DataError, match=r"pretrieve\.json: files .* (would leave|has a control|is too long)"):
            load(made, wordpiece)


def test_the_table_has_no_markup_of_a_name() -> None:
    one = Evaluated("a|b <script>", "test", {"ndcg@10": 0.5})
    assert table_of([one]).splitlines()[-1] == "| a\\|b &lt;script> | mteb | 0.5000 |"
