"""GLUE's four sets: columns by name, classes by number, who trains and who tests, and files that are refused.

Seen to fail when: columns are found by place; QNLI's classes are swapped; MNLI's classes are in BERT's order; quotes
are read as quoting; a broken record of QQP ends the reading, or passes uncounted; hypotheses of one premise are split
apart; the dev set trains; a labelled test file is dev; a test file without labels passes; a repeated id passes; an
unknown label passes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mirror import MIRROR, needs
from official_files import built, left_behind, put, tsv
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.glue import LAYOUTS, read_glue
from pretrieve.benchmarks.reading import build_task
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.splits import Target

_PARSES = (
    "index | promptID | pairID | genre | sentence1_binary_parse | sentence2_binary_parse | sentence1_parse | "
    "sentence2_parse"
)
MNLI = f"{_PARSES} | sentence1 | sentence2 | label1 | gold_label"
MNLI_DEV = f"{_PARSES} | sentence1 | sentence2 | label1 | label2 | label3 | label4 | label5 | gold_label"
QQP = "id | qid1 | qid2 | question1 | question2 | is_duplicate"


def mnli(number: int, premise: str, hypothesis: str, label: str, dev: bool = False) -> str:
    votes = " | neutral" * (5 if dev else 1)
    return f"{number} | 1 | 1e | slate | ( a ) | ( b ) | (A) | (B) | {premise} | {hypothesis}{votes} | {label}"


def sst(*rows: str, header: str = "sentence | label") -> str:
    return tsv(header, *rows)


def many(count: int, begin: str = "s") -> str:
    return sst(*(f"{begin} {i} | {i % 2}" for i in range(count)))


@pytest.mark.parametrize(
    ("task", "content", "expected"),
    [
        (
            "mnli",
            tsv(MNLI, mnli(7, '"He said', "No", "contradiction"), mnli(8, "n/a", "naïve 猫", "entailment")),
            [("7", ('"He said', "No"), "contradiction"), ("8", ("n/a", "naïve 猫"), "entailment")],
        ),
        ("mnli", tsv(MNLI_DEV, mnli(0, "a", "b", "neutral", dev=True)), [("0", ("a", "b"), "neutral")]),
        ("qqp", tsv(QQP, "133273 | 2 | 3 | Why? | How come? | 1"), [("133273", ("Why?", "How come?"), "duplicate")]),
        (
            "qnli",
            tsv("index | question | sentence | label", "0 | Who? | He. | not_entailment"),
            [("0", ("Who?", "He."), "not_entailment")],
        ),
        ("sst-2", sst("a charming '' journey .  | 1"), [("0", ("a charming '' journey . ",), "positive")]),
        ("sst-2", "\ufeff" + tsv("label | sentence", "0 | cliché", end="\r\n"), [("0", ("cliché",), "negative")]),
    ],
)
def test_records(task: str, content: str, expected: list, tmp_path: Path) -> None:
    records = list(read_glue(put(tmp_path, file=content)["file"], task, Warnings()))
    classes = LAYOUTS[task].classes
    assert [(r.record_id, r.texts, classes[int(r.label or 0)]) for r in records] == expected


def test_numbers_of_the_classes() -> None:
    """Those of huggingface.co/datasets/nyu-mll/glue, so that logits of other models can be compared."""
    assert {task: layout.classes for task, layout in LAYOUTS.items()} == {
        "mnli": ("entailment", "neutral", "contradiction"),
        "qqp": ("not_duplicate", "duplicate"),
        "qnli": ("entailment", "not_entailment"),
        "sst-2": ("negative", "positive"),
    }


def test_broken_records_of_qqp_are_counted(tmp_path: Path) -> None:
    cut = ["1 | 1 | 2 | How do I", " start? | Where | 0", "2 | 3 | 4 | Why? | What for? | 0", "3 | 5 | 6 | A? |  | 1"]
    path, warnings = put(tmp_path, train=tsv(QQP, *cut))["train"], Warnings()
    assert [record.record_id for record in read_glue(path, "qqp", warnings)] == ["2", "3"]
    assert warnings.summary() == f"broken record left out: 2, the first: {path}, line 2, 4 of 6 fields"


def test_dev_tests_and_a_share_of_train_is_held_out_by_premise(tmp_path: Path, tokenizer: Tokenizer) -> None:
    hypotheses = [
        mnli(3 * i + j, f"premise {i}", f"hypothesis {j}", LAYOUTS["mnli"].labels[j])
        for i in range(200)
        for j in range(3)
    ]
    dev = tsv(MNLI_DEV, mnli(0, "premise 1", "other", "neutral", dev=True))
    files = put(tmp_path, train=tsv(MNLI, *hypotheses), dev=dev)
    task = built("mnli-matched", files, tokenizer, tmp_path / "out", held_out_share=0.2)
    assert task.data.classes == ["entailment", "neutral", "contradiction"]
    assert task.examples["train-4"] == (["premise 1", "hypothesis 1"], [1.0], [])
    splits = task.splits["full"]
    assert splits["test"] == ["dev-0"]
    premises = {part: {task.examples[i][0][0] for i in splits[part]} for part in ("train", "valid", "dev")}
    assert sum(len(own) for own in premises.values()) == 200, "a premise is in one split"
    assert all(25 < len(premises[part]) < 55 for part in ("valid", "dev")), "about 40 of 200"
    again = built("mnli-matched", files, tokenizer, tmp_path / "again", held_out_share=0.2)
    assert again.splits == task.splits


def test_a_labelled_test_file_tests(tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = put(tmp_path, train=many(60), dev=many(2, "d"), test=many(3, "t"))
    splits = built("sst-2", files, tokenizer, tmp_path / "out", held_out_share=0.3).splits["full"]
    assert (splits["dev"], splits["test"]) == (["dev-0", "dev-1"], ["test-0", "test-1", "test-2"])
    assert {name.split("-")[0] for name in splits["train"] + splits["valid"]} == {"train"}
    assert len(splits["train"] + splits["valid"]) == 60


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (
            "sst-2",
            tsv("index | sentence", "0 | good"),
            r"no column 'label'.*GLUE's test sets have no labels: give the dev",
        ),
        ("sst-2", sst("good | 1", "bad | -1"), r"line 3: label '-1'; expected one of '0', '1'"),
        ("sst-2", sst("good | 1", "bad"), r"line 3: 1 fields; expected 2"),
        ("sst-2", sst("good | 1", "bad | 0 | 0"), r"line 3: 3 fields; expected 2"),
        ("sst-2", tsv("text | label", "good | 1"), r"no columns 'sentence'; expected one.* has 'text', 'label'"),
        ("sst-2", tsv("sentence | label | label", "good | 1 | 1"), r"2 columns 'label'; expected one"),
        ("sst-2", "", r"line 1: nothing; expected a header"),
        ("sst-2", sst(), r"no record that can be used in the file 'dev'; expected one or more"),
        ("sst-2", sst(" | 1", "  | 0"), r"no record that can be used in the file 'dev': a text of all 2 is blank"),
        ("qqp", tsv(QQP, "1 | 1 | 2 | a"), r"no record that can be used in the file 'dev'"),
        ("sst-2", sst("good | 1").encode("latin-1") + b"caf\xe9\t1\n", r"line 3, byte 4: 0xe9 is not UTF-8"),
        ("mnli-matched", tsv(MNLI, mnli(1, "a", "b", "-")), r"line 2: label '-'; expected one of 'entailment'"),
        (
            "mnli-mismatched",
            tsv(MNLI, mnli(1, "a", "b", "neutral"), mnli(1, "c", "d", "neutral")),
            r"line 3: id '1' appears twice; expected one record for each id",
        ),
        ("qqp", tsv(QQP, "1 | 1 | 2 | a | b | c | 0"), r"line 2: 7 fields; expected 6"),
    ],
)
def test_bad_files(reader: str, content: str | bytes, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    good = {"sst-2": many(9), "qqp": tsv(QQP, "1 | 1 | 2 | a | b | 0")}.get(
        reader, tsv(MNLI, mnli(1, "a", "b", "neutral"))
    )
    files = put(tmp_path, train=good, dev=content)
    with pytest.raises(DataError, match=rf"dev\.txt: .*{message}"):
        built(reader, files, tokenizer, tmp_path / "out")
    assert left_behind(tmp_path / "out") == []


def test_share_that_leaves_nothing(tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = put(tmp_path, train=many(9), dev=many(2))
    for share in (0.5, 0):
        with pytest.raises(
            ConfigError, match=r"reader_options\.held_out_share: .* is not allowed; allowed: a number from"
        ):
            built("sst-2", files, tokenizer, tmp_path / "out", held_out_share=share)


@needs("sst2")
def test_the_real_sst2(tmp_path: Path, tokenizer: Tokenizer) -> None:
    files = {"train": "train_full.tsv.gz", "dev": "dev.tsv", "test": "test-labeled.tsv"}
    paths = {name: MIRROR / "sst2" / file for name, file in files.items()}
    splits = build_task("sst-2", paths, Target(tokenizer, tmp_path, {"full": "all"}))["splits"]["full"]
    assert (splits["dev"], splits["test"], splits["train"] + splits["valid"]) == (872, 1821, 67349)
    dev, test = (list(read_glue(paths[name], "sst-2", Warnings())) for name in ("dev", "test"))
    assert (dev[0].texts, dev[0].label) == (("it 's a charming and often affecting journey . ",), 1.0)
    assert test[436].texts[0].startswith("so clichéd that , at one point ,")


@needs("sst2")
def test_parts_of_the_real_sst2_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    names = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
    files = {name: MIRROR / "sst2" / file for name, file in names.items()}
    with pytest.raises(DataError, match=r"train\.tsv: 1,000 records in the file 'train'; expected 67,349"):
        built("sst-2", files, tokenizer, tmp_path, counts="official")
    with pytest.raises(DataError, match=r"test\.tsv: line 1: no column 'label'; the line has 'index', 'sentence'"):
        built("sst-2", files, tokenizer, tmp_path)
