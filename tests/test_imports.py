"""Training and embedding run where faiss, Java, ranx and snakemake are not installed; the workflow loads without torch.

Seen to fail when: ``import faiss`` stands in retrieval/embeddings.py, or ``import torch`` in configuration.py.
"""

from __future__ import annotations

import pytest

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
TRAINING = "import pretrieve.pretraining.run, pretrieve.finetuning.run, pretrieve.retrieval.embed_task"
WORKFLOW = "import pretrieve.workflow, pretrieve.paths, pretrieve.configuration, pretrieve.files"


@pytest.mark.parametrize(
    ("imports", "blocked"), [(TRAINING, HEAVY), (WORKFLOW, [*HEAVY, "torch", "numpy", "pyarrow", "transformers"])]
)
def test_imports(program, imports: str, blocked: list[str]) -> None:
    done = program("-c", BLOCK.format(blocked=blocked, first=blocked[0], imports=imports))
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
