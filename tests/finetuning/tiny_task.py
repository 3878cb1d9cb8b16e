"""The files of a tiny task that can be learnt: eight topics, each with one candidate and five questions that share no word with
it; no test of its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from pretrieve.text.token_store import PassageText, write_token_store
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file

TOPICS, QUESTIONS = 8, 5


def make_tokenizer(path: Path) -> Tokenizer:
    """Of a vocabulary that is written to ``path``."""
    words = [f"{kind}{i}" for kind in "tsuv" for i in range(TOPICS)]
    path.write_text("\n".join([*SPECIAL_TOKENS, *words]))
    return from_vocab_file(path)


def make_task(directory: Path, tokenizer: Tokenizer) -> Path:
    """Question ``q{topic}-{i}`` is "t{topic} u{i}"; candidate ``d{topic}`` is the sentence "s{topic} v{…}" of its passage.
    Candidate ``x`` has no sentence, and stands first. Of each topic's questions 3 train, 1 validates, 1 tests."""
    passages = [PassageText([f"s{k} v{(k + 3) % TOPICS}", f"v{k}"], k, k) for k in range(TOPICS)]
    write_token_store(directory / "passages", tokenizer, passages)
    questions = [(f"q{k}-{i}", f"t{k} u{i}", k) for k in range(TOPICS) for i in range(QUESTIONS)]
    write_token_store(
        directory / "queries", tokenizer, [PassageText([text], n, n) for n, (_, text, _) in enumerate(questions)]
    )
    write = lambda name, **columns: pq.write_table(pa.table(columns), directory / f"{name}.parquet")
    write(
        "corpus",
        passage_index=pa.array([0, *range(TOPICS)], pa.int32()),
        doc_id=["x", *(f"d{k}" for k in range(TOPICS))],
        sentence_index=pa.array([-1, *(2 * k for k in range(TOPICS))], pa.int32()),
    )
    write("queries", text=[text for _, text, _ in questions], query_id=[name for name, _, _ in questions])
    # Judged irrelevant first, then relevant; columns in another order than they are asked for.
    write(
        "qrels",
        relevance=[r for _ in questions for r in (0, 1)],
        doc_id=[d for _, _, k in questions for d in (f"d{(k + 1) % TOPICS}", f"d{k}")],
        query_id=[name for name, _, _ in questions for _ in (0, 1)],
    )
    (directory / "stats.json").write_text("{}")
    parts = ["train", "train", "train", "valid", "test"]
    write(
        "splits",
        split=[parts[n % QUESTIONS] for n in range(len(questions))],
        size=["60pct"] * len(questions),
        query_id=[name for name, _, _ in questions],
    )
    return directory
