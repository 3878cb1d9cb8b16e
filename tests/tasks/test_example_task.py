"""Example tasks: what the writer refuses, what the reader gives back, how texts are packed, and nested training sets.

Seen to fail when: the cut takes the longer text's tokens last, or half of the room from each; the history keeps the
oldest titles, cuts a title in two, or forgets the [SEP] in between; segments are all 0; a pair's closing [SEP] is of
segment 0; -1 for a missing second text wraps around to the last text; test examples differ between sizes; a larger size
is not a superset; validation is drawn from the training pool; labels of another number or value pass; a repeated id
passes; a blank text passes; another vocabulary passes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from example_reader import Examples, tree_bytes
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.tasks.example_packing import pair_lengths
from pretrieve.tasks.example_splits import (
    SHARES,
    drawn,
    hold_out,
    make_example_splits,
    parts_of_groups,
)
from pretrieve.tasks.example_task import Example, ExampleContents, ExampleData, ExampleTask, Text, write_example_task
from pretrieve.tasks.splits import Target, parse_sizes
from pretrieve.text.packing import Packed
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file

WORDS = [f"w{i}" for i in range(10)]
#: Text i is "w0 w1 … wi": i + 1 tokens.
TEXTS = [Text(f"x{i}", " ".join(WORDS[: i + 1])) for i in range(10)]
#: Example ids a … f, of which a, b train, c validates, d tests and e is dev; f is not used.
PART_OF = dict(zip("abcdef", ["train", "train", "valid", "test", "dev", "none"], strict=True))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *WORDS]))
    return from_vocab_file(path)


def write(directory: Path, words: Tokenizer, kind: str, examples: list[Example], **changes) -> ExampleData:
    given = {"texts": TEXTS, "part_of": PART_OF, "classes": ("yes", "no") if kind == "classification" else ()} | changes
    task = ExampleTask(kind, iter(given.pop("texts")), iter(examples), **given)
    write_example_task(Target(words, directory, {"full": "all"}), task)
    return ExampleData(directory)


def pairs(*texts: list[int], label: float = 1.0) -> list[Example]:
    """Examples a … f, the given texts in turn."""
    return [Example(name, texts[i % len(texts)], [label]) for i, name in enumerate("abcdef")]


def shown(data: ExampleData, packed: Packed) -> list[tuple[str, str]]:
    """Words and segments of each sequence, in the caller's order; [CLS] is <, [SEP] is |."""
    special = data.store.special
    names = {special.cls: "<", special.sep: "|"} | {len(SPECIAL_TOKENS) + i: str(i) for i in range(10)}
    result = [("", "")] * len(packed.order)
    for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        own = slice(start, start + length)
        tokens = "".join(names[token] for token in packed.tokens[own])
        result[packed.order[i]] = (tokens, "".join(map(str, packed.segments[own])))
    return result


def test_round_trip(tmp_path: Path, words: Tokenizer) -> None:
    candidates = [Example(n, [0, 1, 2 + i], [0, 1, i % 2], list(range(i))) for i, n in enumerate("abcdef")]
    data = write(tmp_path, words, "clicks", candidates)
    assert (data.kind, data.example_ids) == ("clicks", list("abcdef"))
    texts, labels = data.candidates(3)
    assert texts.tolist() == [0, 1, 5] and labels.tolist() == [0, 1, 1]
    assert data.history[data.history_starts[3] : data.history_starts[4]].tolist() == [0, 1, 2]
    assert {part: data.split("full", part).tolist() for part in ("train", "valid", "test", "dev")} == {
        "train": [0, 1],
        "valid": [2],
        "test": [3],
        "dev": [4],
    }
    assert data.store.n_passages == data.store.n_sentences == 10
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert (stats["examples"], stats["texts"], stats["text_tokens"], stats["history"]) == (6, 10, 5.5, 2.5)
    assert stats["splits"]["full"] == {"train": 2, "valid": 1, "test": 1, "dev": 1}
    with pytest.raises(DataError, match=r"no size '10pct'; it has \['full'\]"):
        data.split("10pct", "train")


def test_same_input_same_bytes(tmp_path: Path, words: Tokenizer) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, words, "regression", pairs([0, 1], [2, 3]))
    assert tree_bytes(tmp_path / "one") == tree_bytes(tmp_path / "two") and len(tree_bytes(tmp_path / "one")) > 8


def test_pairs_and_singles_are_packed(tmp_path: Path, words: Tokenizer) -> None:
    data = write(tmp_path, words, "classification", pairs([2, 1], [3], [9, 9], [9, 0]))
    assert data.text(np.arange(4), 1).tolist() == [1, -1, 9, 0]
    rows = np.array([3, 1, 0, 2])
    assert shown(data, data.pack_examples(rows, 10)) == [
        ("<012345|0|", "0000000011"),
        ("<0123|", "000000"),
        ("<012|01|", "00000111"),
        ("<0123|012|", "0000001111"),
    ]
    assert shown(data, data.pack_texts(np.array([4, 0, 9]), 6)) == [
        ("<0123|", "0" * 6),
        ("<0|", "0" * 3),
        ("<0123|", "0" * 6),
    ]
    without = ExampleData(tmp_path).read_by("t5")
    assert shown(without, without.pack_examples(rows[1:3], 10)) == [("0123|", "00000"), ("012|01|", "0000111")]
    assert shown(without, without.pack_texts(np.array([4]), 6)) == [("01234|", "000000")]


def test_cut_of_two_texts_is_berts() -> None:
    """Against the loop of google-research/bert: the longer text loses its last token, the second one when equal."""
    cut = 0
    for first in range(8):
        for second in range(8):
            for room in range(-1, 14):
                a, b = first, second
                while a + b > max(room, 0):
                    if a > b:
                        a -= 1
                    else:
                        b -= 1
                    cut += 1
                got = pair_lengths(np.array([first]), np.array([second]), np.array([room]))
                assert (int(got[0][0]), int(got[1][0])) == (a, b)
    assert cut > 1000


def test_the_newest_titles_of_a_history_are_kept(tmp_path: Path, words: Tokenizer) -> None:
    histories = [[0, 1, 2], [], [9], [1, 9, 0], [5, 1, 0, 1], [2, 3]]
    examples = [Example(n, [0, 1], [0, 1], h) for n, h in zip("abcdef", histories, strict=True)]
    data = write(tmp_path, words, "clicks", examples)
    rows = np.array([3, 0, 1, 2, 4, 5])
    got = [tokens for tokens, _ in shown(data, data.pack_histories(rows, 10))]
    # "9" has ten words: alone it is cut, behind another one it is left out, and so is everything older.
    assert got == ["<0|", "<0|01|012|", "<|", "<01234567|", "<01|0|01|", "<012|0123|"]
    assert [tokens for tokens, _ in shown(data, data.pack_histories(rows, 9))][1] == "<01|012|"
    assert [tokens for tokens, _ in shown(data, data.pack_histories(rows[2:3], 9))] == ["<|"]
    without = ExampleData(tmp_path).read_by("t5")
    assert [tokens for tokens, _ in shown(without, without.pack_histories(np.array([0, 1]), 9))] == ["0|01|012|", "|"]


def test_long_histories_against_a_loop(tmp_path: Path, words: Tokenizer) -> None:
    rng = np.random.default_rng(0)
    histories = [rng.integers(0, 10, rng.integers(0, 12)).tolist() for _ in range(200)]
    examples = [Example(f"e{i}", [0, 1], [0, 1], h) for i, h in enumerate(histories)]
    part_of = {f"e{i}": "test" for i in range(200)} | {"e0": "train", "e1": "train", "e2": "valid"}
    data = write(tmp_path, words, "clicks", examples, part_of=part_of)
    dropped = 0
    got = shown(data, data.pack_histories(np.arange(200), 24))
    for history, (tokens, segments) in zip(histories, got, strict=True):
        kept: list[str] = []
        for title in reversed(history):
            text = "0123456789"[: title + 1] + "|"
            if 1 + sum(map(len, kept)) + len(text) > 24:
                dropped += 1
                break
            kept.insert(0, text)
        assert tokens == "<" + ("".join(kept) or "|") and segments == "0" * len(tokens)
    assert dropped > 50


BAD = [
    ("regression", Example("z", [0], [1]), "has 1 texts, expected 2"),
    ("regression", Example("z", [0, 10], [1]), "names text 10, expected a row of the 10 texts"),
    ("regression", Example("z", [0, 1], [5.5]), "has score 5.5, expected 0 to 5"),
    ("regression", Example("z", [0, 1], [float("nan")]), "has score nan"),
    ("regression", Example("z", [0, 1], [1, 2]), "has 2 labels, expected one"),
    ("regression", Example("z", [0, 1], [1], [2]), "has a history; only clicks have one"),
    ("regression", Example("a", [0, 1], [1]), "stands twice"),
    ("triplet", Example("z", [0, 1, 2], [1]), "has labels; a triplet has none"),
    ("triplet", Example("z", [0, 1]), "has 2 texts, expected 3"),
    ("classification", Example("z", [0], [2]), "has label 2, expected a class number from 0 to 1"),
    ("classification", Example("z", [0], [0.5]), "has label 0.5"),
    ("classification", Example("z", [0, 1, 2], [0]), "expected 1 to 2"),
    ("clicks", Example("z", [0, 1], [1, 1]), r"has labels \[1, 1\], expected a 0 or 1"),
    ("clicks", Example("z", [0, 1], [1]), r"has labels \[1\]"),
    ("clicks", Example("z", [0, 1], [1, 0], [-1]), "names text -1"),
]
GOOD = {
    "regression": lambda n: Example(n, [0, 1], [2.5]),
    "triplet": lambda n: Example(n, [0, 1, 2]),
    "classification": lambda n: Example(n, [0], [1]),
    "clicks": lambda n: Example(n, [0, 1], [1, 0]),
}


@pytest.mark.parametrize(("kind", "example", "message"), BAD)
def test_a_wrong_example_is_named(tmp_path: Path, words: Tokenizer, kind: str, example: Example, message: str) -> None:
    good = [GOOD[kind](name) for name in "abcdef"]
    write(tmp_path / "good", words, kind, good)
    with pytest.raises(DataError, match=rf"{kind} example '{example.example_id}' .*{message}"):
        write(tmp_path / "bad", words, kind, [*good, example])
    assert not (tmp_path / "bad" / "stats.json").exists()
    with pytest.raises(DataError, match="not a finished example task"):
        ExampleData(tmp_path / "bad")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": [*TEXTS, Text("x3", "w1")]}, "text_id 'x3' appears twice"),
        ({"texts": [*TEXTS, Text("x99", "  ")]}, "text 'x99' is empty"),
        ({"part_of": PART_OF | {"d": "dev"}}, "size 'full' has no test example"),
    ],
)
def test_wrong_texts_and_splits_are_named(tmp_path: Path, words: Tokenizer, changes: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        write(tmp_path, words, "regression", pairs([0, 1]), **changes)


def test_kind_and_vocabulary(tmp_path: Path, words: Tokenizer) -> None:
    data = write(tmp_path / "t", words, "regression", pairs([0, 1]))
    with pytest.raises(DataError, match="no examples"):
        write(tmp_path / "x", words, "regression", [])
    with pytest.raises(ConfigError, match="a task of kind 'regression', the recipe is for 'clicks'"):
        data.check_kind("clicks")
    data.check_vocabulary({"vocabulary_sha256": data.store.meta["vocabulary_sha256"]}, tmp_path)
    with pytest.raises(DataError, match="both must come from one tokenizer"):
        data.check_vocabulary({"vocabulary_sha256": "0" * 64}, tmp_path)


def test_contents_have_each_text_once() -> None:
    contents = ExampleContents()
    assert [contents.row(*pair) for pair in (("a", "A"), ("b", "B"), ("a", "A"))] == [0, 1, 0]
    assert list(contents.texts.values()) == [Text("a", "A"), Text("b", "B")]


def split_sets(ids: list[str], part_of: dict[str, str], sizes: dict, seed: int = 1) -> dict[str, dict[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for size, example_id, part in make_example_splits(ids, part_of, sizes, seed):
        members = found.setdefault(size, {}).setdefault(part, set())
        assert example_id not in members
        members.add(example_id)
    return found


def test_training_sets_are_nested_and_the_rest_is_the_same() -> None:
    ids = [f"e{i}" for i in range(1000)]
    counts = {f"g{i}": 10 for i in range(100)}
    parts = parts_of_groups(counts, SHARES, 3)
    part_of = {example_id: parts[f"g{i // 10}"] for i, example_id in enumerate(ids)}
    found = split_sets(ids, part_of, {"50": 50, "half": 0.5, "500": 500, "full": "all"})
    whole = {part: {i for i in ids if part_of[i] == part} for part in SHARES}
    assert {part: len(members) for part, members in whole.items()} == {
        "train": 720,
        "valid": 80,
        "dev": 100,
        "test": 100,
    }
    lengths = {size: (len(of["train"]), len(of["valid"])) for size, of in found.items()}
    assert lengths == {"50": (45, 5), "half": (360, 40), "500": (450, 50), "full": (720, 80)}
    for smaller, larger in (("50", "half"), ("half", "500"), ("500", "full")):
        for part in ("train", "valid"):
            assert found[smaller][part] < found[larger][part] <= whole[part]
    assert all(of["test"] == whole["test"] and of["dev"] == whole["dev"] for of in found.values())
    assert split_sets(ids[::-1], part_of, {"50": 50}) == {"50": found["50"]}  # the order of the input decides nothing
    assert split_sets(ids, part_of, {"50": 50}, seed=2)["50"]["train"] != found["50"]["train"]


def test_parts_are_balanced_by_examples() -> None:
    rng = np.random.default_rng(5)
    counts = {f"g{i}": int(size) for i, size in enumerate(rng.integers(1, 60, 80))}
    parts = parts_of_groups(counts, SHARES, 1)
    total = sum(counts.values())
    for part, share in SHARES.items():
        assert abs(sum(n for g, n in counts.items() if parts[g] == part) - share * total) < 60
    assert parts == parts_of_groups(dict(reversed(counts.items())), SHARES, 1)
    assert parts != parts_of_groups(counts, SHARES, 2)
    held = hold_out(counts, 1)
    assert 0 < sum(n for g, n in counts.items() if held[g] == "valid") < 0.1 * total + 60


@pytest.mark.parametrize("size", [0, -1, 2.5, 101, 0.001, "some", 2, 500])
def test_a_size_that_cannot_be_drawn(size: float | str) -> None:
    ids = [f"e{i}" for i in range(100)]
    part_of = {example_id: "train" if i < 90 else "valid" for i, example_id in enumerate(ids)}
    with pytest.raises(ConfigError, match="size 'x'"):
        make_example_splits(ids, part_of, {"x": size}, 1)
    with pytest.raises(ConfigError, match="no training-set size"):
        make_example_splits(ids, part_of, {}, 1)


def test_sizes_on_the_command_line_and_draws() -> None:
    assert parse_sizes(["a=0.5", "b=10", "c=all"]) == {"a": 0.5, "b": 10, "c": "all"}
    for entry in ("a", "=1", "a=some"):
        with pytest.raises(ConfigError, match="--sizes"):
            parse_sizes([entry])
    with pytest.raises(ConfigError, match="each size once"):
        parse_sizes(["a=1", "a=2"])
    ids = [f"e{i}" for i in range(50)]
    assert drawn(ids, None, 1) == set(ids) and len(drawn(ids, 7, 1)) == 7 and drawn(ids, 7, 1) == drawn(ids[::-1], 7, 1)


def test_the_reader_of_the_tests_reads(tmp_path: Path, words: Tokenizer) -> None:
    write(tmp_path, words, "regression", pairs([0, 1], label=2.5))
    read = Examples(tmp_path)
    assert read.examples["a"] == (["w0", "w0 w1"], [2.5], []) and read.splits["full"]["train"] == ["a", "b"]
