"""``pretrieve make-example-corpus`` makes all of its folder, or says what is missing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pretrieve.__main__ import main
from pretrieve.benchmarks.official.beir_folder import look_at

QUESTIONS = Path(__file__).parents[2] / "resources/questions"


def make(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """The code, or the message, that the program ends with."""
    monkeypatch.setattr(sys, "argv", ["pretrieve", "make-example-corpus", "--out", "example", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_the_example_is_made_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not make(monkeypatch)
    assert look_at(tmp_path / "example").files.keys() == {"corpus", "queries", "train", "dev", "test"}


def test_a_missing_file_of_questions_is_not_an_empty_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "test"):
        shutil.copy(QUESTIONS / f"{name}.json", tmp_path)
    code = make(monkeypatch, "--questions", ".")
    assert "dev.json: no such file" in f"{code}{capsys.readouterr().err}" and not Path("example").exists()
