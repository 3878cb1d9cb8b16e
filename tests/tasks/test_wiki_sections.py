"""Wikipedia section triplets: quoted CSV with hard fields, columns by name, splits, and files that are refused.

Seen to fail when: columns are taken by place; positive and negative are swapped; a quoted line break ends a record;
validation triplets train; a missing column passes.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from official_files import built, left_behind, put
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError

HEADER = ["ArticleTitle", "Sentence1", "Sentence2", "Sentence3", "CorrectSection"]


def written(*triplets: tuple[str, str, str]) -> str:
    """As pandas and Python write it: quotes where they are needed."""
    stream = io.StringIO()
    csv.writer(stream).writerows([HEADER, *(["A, b", *triplet, "History"] for triplet in triplets)])
    return stream.getvalue()


HARD = ('Said "no", he', "two\nlines\tand a tab", "naïve 猫 \u2028 x")


def three(directory: Path, **changed: str) -> dict[str, Path]:
    plain = {name: written((f"{name} a", "b", "c"), (f"{name} d", "e", "f")) for name in ("validation", "test")}
    return put(directory, **{"train": written(HARD, ("g", "h", "i"), ("j", "k", "l")), **plain, **changed})


def test_task(tmp_path: Path, tokenizer: Tokenizer) -> None:
    task = built("wiki-sections", three(tmp_path), tokenizer, tmp_path / "out")
    assert task.data.kind == "triplet"
    assert task.examples["train-0"] == (list(HARD), [], [])
    assert task.examples["train-1"][0] == ["g", "h", "i"]
    assert task.splits["full"] == {
        "train": ["train-0", "train-1", "train-2"],
        "valid": ["validation-0", "validation-1"],
        "test": ["test-0", "test-1"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (written(("a", "b", "c")).replace("Sentence3", "Other"), r"line 1: no columns 'Sentence3'; expected one"),
        (
            "Sentence1,Sentence2\r,Sentence3\na,b,c\n",
            r"line 1: header 'Sentence1,Sentence2\\r,Sentence3'; expected columns",
        ),
        (written(("a", "b", "c")) + "x,a,b,c\n", r"line 3: 4 fields; expected 5"),
        (written(("a", "b", "c")) + 'x,"a,b,c,d\n', r"line 3: the quotes in this record do not match"),
    ],
)
def test_bad_files(content: str, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=rf"test\.txt: .*{message}"):
        built("wiki-sections", three(tmp_path, test=content), tokenizer, tmp_path / "out")
    assert left_behind(tmp_path / "out") == []


def test_counts(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"3 records in the file 'train'; expected 1,779,417"):
        built("wiki-sections", three(tmp_path), tokenizer, tmp_path / "out", counts="official")
