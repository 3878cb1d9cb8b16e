"""Pre-training for dense retrieval, as a library: docs/python-api.md has an example of each name.

Nothing is imported before it is used, so that ``import pretrieve`` takes no time.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name → the module that has it.
_PLACES = {
    "load": "pretrieve.retrieval.retriever",
    "Retriever": "pretrieve.retrieval.retriever",
    "search": "pretrieve.retrieval.in_memory",
    "bm25": "pretrieve.retrieval.in_memory",
    "index_documents": "pretrieve.retrieval.index_documents",
    "load_index": "pretrieve.retrieval.deployed_index",
    "DeployedIndex": "pretrieve.retrieval.deployed_index",
    "Hit": "pretrieve.retrieval.deployed_index",
    "Run": "pretrieve.retrieval.trec_run",
    "read_trec": "pretrieve.retrieval.trec_run",
    "write_trec": "pretrieve.retrieval.trec_run",
    "evaluate": "pretrieve.evaluation.metrics",
    "Encoder": "pretrieve.models.encoder",
    "BodyConfig": "pretrieve.models.config",
    "save_encoder": "pretrieve.pretraining.module",
    "train_wordpiece": "pretrieve.pretraining.module",
    "token_store": "pretrieve.pretraining.module",
    "make_objective": "pretrieve.pretraining.module",
    "ObjectiveModule": "pretrieve.pretraining.module",
}
__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'pretrieve' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
