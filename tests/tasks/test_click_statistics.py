"""Counts of clicks, by hand and of both readers: Table 7 of paper ``seed_encoder``.

Seen to fail when: impressions that a task leaves out do not count; an article of both files counts once; special tokens count;
what is neither train nor test counts; a user counts once for each impression.
"""

from __future__ import annotations

import json
from pathlib import Path

from example_reader import Examples
from official_files import built, put, tsv
from tokenizers import Tokenizer

from pretrieve.benchmarks.made.link_clicks import build_link_clicks
from pretrieve.tasks.click_statistics import ClickStatistics
from pretrieve.tasks.splits import Target


def pieces(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_by_hand(tokenizer: Tokenizer) -> None:
    counted = ClickStatistics(tokenizer)
    counted.impression("train", "u", clicks=1, candidates=4, history=0)
    counted.impression("train", "u", clicks=2, candidates=3, history=5)
    counted.impression("dev", "v", clicks=1, candidates=2, history=1)
    titles = ["The aardvark digs burrows", "", "An abacus"]
    for title in titles:
        counted.article("train", title)
    found = counted.summary()
    assert found["train"] == {
        "users": 1, "news": 3, "impressions": 2, "title_length": round(sum(pieces(tokenizer, t) for t in titles) / 3, 2),
        "clicks": 1.5, "candidates": 3.5, "history_clicks": 2.5,
    }  # fmt: skip
    assert found["dev"]["news"] == 0 and found["dev"]["title_length"] == 0.0 and found["dev"]["users"] == 1


def test_mind(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """All lines count: the impression without a click is left out of the task, and not of the statistics."""
    news = ["N1 | c | s | Abacus | Counting. | u | [] | []", "N2 | c | s | An aardvark digs |  | u | [] | []"]
    train = [f"{i} | U{i % 30} | t | {'N1 N2' if i % 2 else ''} | N1-1 N2-0" for i in range(60)]
    train.append("60 | U99 | t | N1 | N1-0 N2-0")
    dev = ["1 | U1 | t | N3 | N1-1 N2-0 N3-1"]
    files = {
        "train": train,
        "train_news": news,
        "dev": dev,
        "dev_news": [*news, "N3 | c | s | Of dev only |  | u | [] | []"],
    }
    task = built("mind-small", put(tmp_path, **{k: tsv(*v) for k, v in files.items()}), tokenizer, tmp_path / "out",
                 held_out_share=0.2)  # fmt: skip
    stats = json.loads((tmp_path / "out" / "stats.json").read_text())
    assert len(task.examples) == 61
    assert stats["train"] == {
        "users": 31, "news": 2, "impressions": 61, "clicks": round(60 / 61, 2), "candidates": 2.0,
        "history_clicks": round((30 * 2 + 1) / 61, 2),
        "title_length": round((pieces(tokenizer, "Abacus") + pieces(tokenizer, "An aardvark digs")) / 2, 2),
    }  # fmt: skip
    assert stats["dev"]["news"] == 3 and stats["dev"]["impressions"] == 1
    assert (stats["dev"]["clicks"], stats["dev"]["candidates"], stats["dev"]["history_clicks"]) == (2.0, 3.0, 1.0)


def test_links_as_clicks(tmp_path: Path, tokenizer: Tokenizer, linked: Path) -> None:
    """Recounted from the task: train with what validates, and dev is what tests."""
    sizes = {"full": "all"}
    stats = build_link_clicks(linked, Target(tokenizer, tmp_path / "out", sizes, 1), candidates=7, first=2)
    task = Examples(tmp_path / "out")
    for name, splits in {"train": ("train", "valid"), "dev": ("test",)}.items():
        ids = [i for split in splits for i in task.splits["full"][split]]
        shown = [task.examples[i] for i in ids]
        titles = {text.split(".")[0] for texts, _, _ in shown for text in texts} | {t for *_, h in shown for t in h}
        assert stats[name] == {
            "users": len({i.split("-")[0] for i in ids}), "news": len(titles), "impressions": len(ids),
            "title_length": round(sum(pieces(tokenizer, title) for title in titles) / len(titles), 2),
            "clicks": round(sum(sum(labels) for _, labels, _ in shown) / len(ids), 2),
            "candidates": round(sum(len(labels) for _, labels, _ in shown) / len(ids), 2),
            "history_clicks": round(sum(len(history) for *_, history in shown) / len(ids), 2),
        }  # fmt: skip
