"""MIND: impressions, histories and articles by hand; the users of a split stay together; files that are refused.

Seen to fail when: labels are cut off at the first dash; candidates are titles where the paper has titles and
abstracts; the history is reversed, or has abstracts; an article without an abstract has two texts; dev trains; a
user's impressions are split apart; an impression without a click passes to the writer; an unlabelled impression
counts as not clicked; an unknown article is dropped; dev's articles are looked up among the training set's; an id
that appears twice passes; an article with other words in the other file takes the first one's; the files of a failed
task stay behind.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from official_files import built, left_behind, put, tsv
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError


def article(news_id: str, title: str, abstract: str = "") -> str:
    return f'{news_id} | sports | golf | {title} | {abstract} | https://x | [{{"Label": "A"}}] | []'


def impression(number: int, user: str, history: str, shown: str) -> str:
    return f"{number} | {user} | 11/15/2019 10:22:32 AM | {history} | {shown}"


NEWS = [
    article("N1", "PGA Tour winners", "A gallery of recent winners."),
    article("N2", 'The "Brands" of naïve 猫'),
    article("N3", "Third", "Words of the third."),
    article("N4", "", "Only an abstract."),
    article("N5", " ", ""),
]
TRAIN = [
    impression(91, "U1", "N3 N1", "N2-0 N3-1 N1-0"),
    impression(92, "U2", "", "N1-1 N2-0"),
    *(impression(100 + i, f"U{i % 40}", "N1", "N1-0 N2-1") for i in range(200)),
]
DEV = [impression(91, "U1", "N2 N1", "N1-1 N-9-0 N3-1"), impression(92, "U8", "N-9", "N4-1 N-9-0")]
DEV_NEWS = [*NEWS, article("N-9", "Of dev only", "New.")]


def folder(directory: Path, **changed: list[str]) -> dict[str, Path]:
    rows = {"train": TRAIN, "train_news": NEWS, "dev": DEV, "dev_news": DEV_NEWS} | changed
    return put(directory, **{name: tsv(*lines) for name, lines in rows.items()})


def test_task(tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    task = built("mind-small", folder(tmp_path), tokenizer, tmp_path / "out", held_out_share=0.2)
    first, third = "PGA Tour winners A gallery of recent winners.", "Third Words of the third."
    brands = 'The "Brands" of naïve 猫'
    assert task.data.kind == "clicks"
    assert task.examples["train-91"] == ([brands, third, first], [0, 1, 0], ["Third", "PGA Tour winners"])
    assert task.examples["train-92"] == ([first, brands], [1, 0], [])
    assert task.examples["dev-91"] == ([first, "Of dev only New.", third], [1, 0, 1], [brands, "PGA Tour winners"])
    assert task.examples["dev-92"] == (["Only an abstract.", "Of dev only New."], [1, 0], ["Of dev only"])
    # Two texts of N1, N3 and N-9; one of N2, which has no abstract, and N4, which has no title; none of N5.
    assert task.data.store.n_passages == 8
    assert "article without a title: 2, the first:" in capsys.readouterr().err


def test_users_stay_together_and_dev_tests(tmp_path: Path, tokenizer: Tokenizer) -> None:
    task = built("mind-large", folder(tmp_path), tokenizer, tmp_path / "out", held_out_share=0.2)
    splits = task.splits["full"]
    assert splits["test"] == ["dev-91", "dev-92"]
    user_of = {f"train-{row.split(' | ')[0]}": row.split(" | ")[1] for row in TRAIN}
    users = [{user_of[i] for i in splits[part]} for part in ("train", "valid", "dev")]
    assert all(users) and sum(map(len, users)) == len(set(user_of.values()))


def test_titles_alone(tmp_path: Path, tokenizer: Tokenizer) -> None:
    task = built("mind-small", folder(tmp_path), tokenizer, tmp_path / "out", candidate="title", held_out_share=0.2)
    assert task.examples["train-91"][0] == ['The "Brands" of naïve 猫', "Third", "PGA Tour winners"]
    assert "dev-92" not in task.examples, "N4 has no title, and nothing else was clicked"
    with pytest.raises(ConfigError, match=r"candidate: 'body' is not allowed; allowed: title and abstract, title"):
        built("mind-small", folder(tmp_path), tokenizer, tmp_path / "out", candidate="body")


def test_what_is_left_out_is_counted(tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [
        impression(1, "U1", "N5", "N1-1 N3-1"),
        impression(2, "U1", "", "N1-0"),
        impression(3, "U1", "", "N5-1 N1-0"),
    ]
    changed = [*NEWS[1:], article("N1", "Another title")]
    files = folder(tmp_path, train=TRAIN + odd, dev=DEV[:1], dev_news=[*changed, DEV_NEWS[-1]])
    task = built("mind-small", files, tokenizer, tmp_path / "out", held_out_share=0.2)
    assert not {"train-1", "train-2", "train-3"} & set(task.examples)
    assert task.examples["dev-91"][0][0] == "Another title"
    assert task.examples["train-92"][0][0].startswith("PGA")
    told = capsys.readouterr().err
    assert f"all or none of it was clicked: 3, the first: {files['train']}, line 203" in told
    assert f"article with other words in another file: 1, the first: {files['dev_news']}, line 5, N1" in told


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "dev",
            [impression(1, "U1", "", "N1 N2")],
            r"line 1: impression 'N1'; expected a news id that ends in -1.*no labels: give",
        ),
        ("dev", [impression(1, "U1", "", "N1-1 N2-2")], r"line 1: impression 'N2-2'"),
        ("dev", [impression(1, "U1", "", "N1-1 N77-0")], r"line 1: article 'N77' is not in the news file 'dev_news'"),
        (
            "train",
            [*TRAIN, impression(7, "U1", "N-9", "N1-1 N2-0")],
            r"line 203: article 'N-9' is not in .*'train_news'",
        ),
        ("dev", ["1 | U1 | N1 | N1-1 N2-0"], r"line 1: 4 fields; expected 5"),
        ("train", [*TRAIN, TRAIN[0]], r"line 203: impression id '91' appears twice; expected one line"),
        ("train_news", [*NEWS, NEWS[0]], r"line 6: news id 'N1' appears twice"),
        ("train_news", [NEWS[0] + " | x"], r"line 1: 9 fields; expected 8"),
        ("train_news", [article("N 1", "a")], r"line 1: news id 'N 1'; expected an id without blanks"),
    ],
)
def test_bad_files(name: str, rows: list[str], message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=rf"{name}\.txt: .*{message}"):
        built("mind-small", folder(tmp_path, **{name: rows}), tokenizer, tmp_path / "out", held_out_share=0.2)
    assert left_behind(tmp_path / "out") == []


def test_counts_of_impressions_and_articles(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"5 articles in the file 'train_news'; expected 51,282"):
        built("mind-small", folder(tmp_path), tokenizer, tmp_path / "out", counts="official")
