"""Training and embedding run where faiss, Java, ranx and snakemake are not installed; the workflow loads without torch.

Seen to fail when: ``import faiss`` stands in retrieval/embeddings.py, in a function of training/loop.py, or in a module of
pretraining/ that the program does not use; ``import torch`` in configuration.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from small_body import small_options

from pretrieve.pretraining.presets import resolve

BLOCK = """
import sys
blocked = set({blocked!r})

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError("blocked: " + name)

sys.meta_path.insert(0, Block())
try:
    import {first}
    sys.exit("the block does not work")
except ImportError:
    pass
{imports}
assert not blocked & set(sys.modules)
print("fine")
"""
HEAVY = ["faiss", "jnius", "pyserini", "ranx", "snakemake", "pandas", "gensim", "wikitextparser"]
#: More of what only the extras of pyproject.toml have.
EXTRAS = ["blingfire", "jinja2", "jsonschema", "matplotlib", "numba", "regex", "scipy", "sklearn", "yaml"]
#: Training, and every module of models, pre-training and its loop, also those that no program imports yet.
TRAINING = """import pretrieve.pretraining.pretrain, pretrieve.finetuning.finetune, pretrieve.retrieval.embed_task
import pretrieve.pretraining.module, pretrieve.retrieval.retriever, pretrieve.retrieval.in_memory
import importlib, pkgutil
import pretrieve.models, pretrieve.pretraining, pretrieve.training
names = [m.name for p in (pretrieve.models, pretrieve.pretraining, pretrieve.training)
         for m in pkgutil.iter_modules(p.__path__, p.__name__ + ".")]
assert len(names) > 30, names
for name in names:
    importlib.import_module(name)
"""
WORKFLOW = (
    "import pretrieve.workflow.plan, pretrieve.base.paths, pretrieve.workflow.configuration, pretrieve.base.files"
)


@pytest.mark.parametrize(
    ("imports", "blocked"),
    [(TRAINING, [*HEAVY, *EXTRAS]), (WORKFLOW, [*HEAVY, "torch", "numpy", "pyarrow", "transformers"])],
)
def test_imports(program, imports: str, blocked: list[str]) -> None:
    done = program("-c", BLOCK.format(blocked=blocked, first=blocked[0], imports=imports))
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


RUN = """
import runpy
for sys.argv in {runs!r}:
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        assert end.code == 0, end.code
"""


def test_pre_training_runs(program, store, tmp_path: Path) -> None:
    """The program from its command line to the encoder's directory: what is imported on the way counts, too."""
    runs = {}
    for name, small in (("cocondenser", {"skip_layer": 1, "head_layers": 1, "span_length": 12}), ("pairs", {})):
        objective = {"name": name, "length": 24} | resolve(name, None, small, "test")
        if name == "pairs":
            objective |= {"tasks": ["ict", "bfs", "wlp"], "query_length": 12, "passage_length": 24}
        options, out = small_options(objective, 4, 3, 1e-3), tmp_path / f"{name}/seed1"
        words = ["workflow_scripts/pretrain.py", "--store", store.directory, "--options", json.dumps(options)]
        words += ["--seed", 1, "--checkpoints", tmp_path / f"{name}/ckpt", "--checkpoint-seconds", 0, "--out", out]
        runs[out] = [str(word) for word in words]
    blocked = [name for name in HEAVY if name != "pandas"]  # torch asks whether there is one
    run = RUN.format(runs=list(runs.values()))
    done = program("-c", BLOCK.format(blocked=blocked, first=blocked[0], imports=run))
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
    for out in runs:
        assert load_file(out / "model.safetensors") and (out / "curve.csv").read_text().count("\n") == 4
        assert json.loads((out / "cost.json").read_text())["tokens"] > 0
