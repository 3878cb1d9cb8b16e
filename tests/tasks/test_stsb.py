"""STS-B: its three layouts give the same pairs, hard encodings stay as they are, and bad files end with a sentence.

Seen to fail when: a quote in the official layout opens a quoted field; lines of nine fields are refused; the layout is
told by the file's name; the score is taken from the year's column; dev and test are swapped; an official id that stands
twice passes; a score above 5 or NaN passes; a blank text passes; the files of a failed task stay behind; counts are not
checked.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from mirror import MIRROR, needs
from official_files import built, left_behind, put, tsv
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.stsb import layout_of, read_stsb
from pretrieve.raw.raw_text import Warnings

OFFICIAL = tsv(
    'main-news | headlines | 2013 | 0001 | 4.800 | "No, he said | He said "no", twice',
    "main-forum | deft-forum | 2014 | 0002 | 0 |  naïve Génoise 猫 |  co\u2028op | Network: Ann | Network: Bob",
)
GLUE = tsv(
    "index | genre | filename | year | old_index | source1 | source2 | sentence1 | sentence2 | score",
    '0 | main-news | headlines | 2013 | 0001 | none | none | "No, he said | He said "no", twice | 4.800',
    "1 | main-forum | deft-forum | 2014 | 0002 | Ann | Bob |  naïve Génoise 猫 |  co\u2028op | 0",
)
SENTENCES = '"""No, he said","He said ""no"", twice",4.8\r\n naïve Génoise 猫, co\u2028op,0.0\r\n'
#: Texts and score of both lines, as a person reads them in the files.
PAIRS = [(('"No, he said', 'He said "no", twice'), 4.8), ((" naïve Génoise 猫", " co\u2028op"), 0.0)]


def lines(*scores: str, begin: int = 0) -> str:
    """Official lines with these scores and ids of their own."""
    return tsv(*(f"g | f | y | {begin + i} | {score} | a{begin + i} b | c" for i, score in enumerate(scores)))


def three(directory: Path, **changed: str | bytes) -> dict[str, Path]:
    texts = {"train": lines(*"12345"), "dev": lines(*"01", begin=10), "test": lines("2.5", "3", begin=20)}
    return put(directory, **{**texts, **changed})


@pytest.mark.parametrize("text", [OFFICIAL, GLUE, SENTENCES], ids=["official", "GLUE", "sentences"])
@pytest.mark.parametrize("change", ["", "BOM", "CRLF", "gzip"])
def test_layouts(text: str, change: str, tmp_path: Path) -> None:
    if change == "CRLF":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    content = (b"\xef\xbb\xbf" if change == "BOM" else b"") + text.encode()
    path = put(tmp_path, pairs=gzip.compress(content) if change == "gzip" else content)["pairs"]
    records = list(read_stsb(path, Warnings()))
    assert [(record.texts, record.label) for record in records] == PAIRS
    assert [record.record_id for record in records] == ["0", "1"]


def test_task(tmp_path: Path, tokenizer: Tokenizer) -> None:
    task = built("sts-b", three(tmp_path), tokenizer, tmp_path / "out")
    assert task.data.kind == "regression"
    assert task.examples["train-4"] == (["a4 b", "c"], [5.0], [])
    assert task.examples["test-0"] == (["a20 b", "c"], [2.5], [])
    assert task.splits["full"] == {
        "train": [f"train-{i}" for i in range(5)],
        "valid": ["dev-0", "dev-1"],
        "test": ["test-0", "test-1"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("g\tf\ty\t1\t5.1\ta\tb\n", r"line 1: score '5\.1'; expected a number from 0 to 5"),
        ("g\tf\ty\t1\tnan\ta\tb\n", r"line 1: score 'nan'"),
        ("g\tf\ty\t1\t\ta\tb\n", r"line 1: score ''"),
        (lines("1") + "g\tf\ty\t2\t1\ta\n", r"line 2: 6 fields; expected 7 or 9"),
        (lines("1", "2") + lines("3"), r"line 3: id 'g f y 0' appears twice"),
        ("a\tb\n", r"line 1: 2 fields separated by tabs; expected 7 or 9"),
        ("", r"line 1: nothing; expected a header or a record"),
        (
            GLUE.replace("\tscore", "").replace("\t4.800", "").replace("\t0\n", "\n"),
            r"no column 'score': GLUE's test set",
        ),
        (GLUE + GLUE.splitlines()[1] + "\n", r"line 4: index '0' appears twice"),
        ("a,b,1\nc,2\n", r"line 2: 2 fields; expected 3"),
        (b"g\tf\ty\t1\t5\ta\xff\tb\n", r"line 1, byte 12: 0xff is not UTF-8"),
        (gzip.compress(OFFICIAL.encode() * 99)[:-9], r"not a whole gzip file: it ends in the middle"),
    ],
)
def test_bad_files(content: str | bytes, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = three(tmp_path, test=content)
    with pytest.raises(DataError, match=rf"test\.txt: .*{message}"):
        built("sts-b", files, tokenizer, tmp_path / "out")
    assert left_behind(tmp_path / "out") == []


def test_blank_text_is_left_out_and_counted(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    files = three(tmp_path, train=lines("1", "2", "3") + "g\tf\ty\t9\t1\ta\t  \n\n")
    task = built("sts-b", files, tokenizer, tmp_path / "out")
    assert task.splits["full"]["train"] == ["train-0", "train-1", "train-2"]
    told = capsys.readouterr().err
    assert f"a text of it is blank: 1, the first: {files['train']}, line 4" in told
    assert f"blank line: 1, the first: {files['train']}, line 5" in told


def test_counts_and_files_are_checked(tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = three(tmp_path)
    with pytest.raises(DataError, match=r"train\.txt: 5 records in the file 'train'; expected 5,749, as its publisher"):
        built("sts-b", files, tokenizer, tmp_path / "out", counts="official")
    assert left_behind(tmp_path / "out") == []
    with pytest.raises(ConfigError, match=r"needs the files train \(sts-train\.csv\), dev .*found train, dev"):
        built("sts-b", {name: files[name] for name in ("train", "dev")}, tokenizer, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"'dev' and 'test' are one file"):
        built("sts-b", files | {"test": files["dev"]}, tokenizer, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"no option 'held'; it has none"):
        built("sts-b", files, tokenizer, tmp_path / "out", held=1)
    with pytest.raises(ConfigError, match=r"'stsb' is unknown.*did you mean 'sts-b'"):
        built("stsb", files, tokenizer, tmp_path / "out")


@needs("stsb")
def test_the_real_benchmark(tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = {
        part: MIRROR / f"stsb/sts-{part}.csv{'.gz' if part == 'train' else ''}" for part in ("train", "dev", "test")
    }
    task = built("sts-b", files, tokenizer, tmp_path / "out", counts="official")
    assert {part: len(ids) for part, ids in task.splits["full"].items()} == {"train": 5749, "valid": 1500, "test": 1379}
    texts, score, _ = task.examples["dev-0"]
    assert (texts, score) == (["A man with a hard hat is dancing.", "A man wearing a hard hat is dancing."], [5.0])
    # A line of nine fields with a blank at the end of both sentences, and a line with a quote that is not closed.
    texts, score, _ = task.examples["test-625"]
    assert ([text[:26] for text in texts], score) == (["I remained under the banya"] * 2, [3.0])
    assert all(text.endswith("the men every two hours. ") or text.endswith("cats every two hours. ") for text in texts)
    assert task.examples["train-2001"][0] == ['"Then the captain was gone.', "Then the captain came back."]


@needs("stsb")
def test_the_layouts_of_the_real_benchmark_agree() -> None:
    for part in ("train", "dev", "test"):
        end = ".gz" if part == "train" else ""
        paths = [MIRROR / f"stsb/{name}-{part}.csv{end}" for name in ("sts", "stsb-en")]
        assert [layout_of(path) for path in paths] == ["official", "sentences"]
        official, sentences = (list(read_stsb(path, Warnings())) for path in paths)
        assert [one.label for one in official] == pytest.approx([one.label for one in sentences])
        same = sum(
            [a.strip() for a in one.texts] == [b.strip() for b in other.texts]
            for one, other in zip(official, sentences, strict=True)
        )
        assert 0.97 * len(official) < same < len(official)
