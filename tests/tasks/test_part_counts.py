"""Queries and judgements by part: Table 6 of paper ``seed_encoder``.

Seen to fail when: a small size is counted; what validates is left out of train; a query that nobody judged is not counted; the
task's draw takes the place of the publisher's parts; a part that is not there is 0.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from pretrieve.benchmarks.reading import build_collection
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.splits import SplitRow, Target, make_splits
from pretrieve.tasks.task import Judgement, part_counts


def test_the_size_that_trains_on_most() -> None:
    ids = [f"q{i}" for i in range(50)]
    splits = make_splits(ids, ids[:40], ids[40:45], ids[45:], {"few": 10, "most": "all", "some": 20}, seed=1)
    judgements = [Judgement(query, f"d{place}") for query in ids for place in range(1 + (query == "q41"))]
    assert part_counts(splits, judgements) == {
        "train": {"queries": 40, "judgements": 40},
        "dev": {"queries": 5, "judgements": 5},
        "eval": {"queries": 5, "judgements": 6},
    }
    # A query that the size does not use is in no part.
    assert part_counts([SplitRow("only", "q1", "test")], judgements)["eval"] == {"queries": 1, "judgements": 1}


def test_the_publishers_parts(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with CollectionWriter(tmp_path / "c", "made up") as writer:
        for i in range(40):
            writer.add_document(f"d{i}", "", "The aardvark digs burrows.")
        for i in range(40):
            split = "train" if i < 30 else "dev"
            writer.add_query(f"q{i}", "what digs?", split)
            writer.add_judgement(f"q{i}", f"d{i}", 1, split)
    stats = build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "t", {"few": 10}, 1))
    assert (stats["train"], stats["dev"]) == ({"queries": 30, "judgements": 30}, {"queries": 10, "judgements": 10})
    assert stats["eval"] == {} and stats["documents"] == 40  # not a measured 0
    drawn = build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "d", {"few": 10}, 1), max_documents=25)
    assert (drawn["candidates"], drawn["documents"]) == (25, 40)


def test_queries_that_nobody_judged(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """As MS MARCO's 808,731 training queries, 502,939 of which are judged."""
    lines = {
        "collection": "".join(f"{i}\tThe aardvark digs\n" for i in range(30)),
        "train_queries": "".join(f"{100 + i}\twhat digs\n" for i in range(25)),
        "train_qrels": "".join(f"{100 + i}\t0\t{i}\t1\n" for i in range(20)),
        "dev_queries": "7\twho\n8\twhy\n",
        "dev_qrels": "7\t0\t3\t1\n",
    }
    for name, text in lines.items():
        (tmp_path / name).write_text(text)
    files = {name: tmp_path / name for name in lines}
    build_collection("msmarco-passage", files, tmp_path / "c", {"official": False})
    stats = build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    assert stats["queries"] == 21
    assert stats["train"] == {"queries": 25, "judgements": 20} and stats["dev"] == {"queries": 2, "judgements": 1}
