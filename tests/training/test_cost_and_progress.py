"""What a stage cost, and what it prints.

Seen to fail when: the log gets carriage returns; the last line is left out; ``wall_s`` is not of the block; a continued
training's cost lacks what came before.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import ModuleType

import pytest
from small_body import small_options

from pretrieve.base.program import make_parser
from pretrieve.base.progress import Progress
from pretrieve.commands import finetune, pretrain
from pretrieve.training.cost import Cost, Spent
from pretrieve.training.loop import Outcome


def test_cost(tmp_path: Path) -> None:
    time.sleep(0.05)  # before the block: not counted
    begun = time.perf_counter()
    with Cost("stage", threads=3) as cost:
        cost.tokens = 17
        sum(range(200_000))
    around = time.perf_counter() - begun
    cost.write(tmp_path / "cost.json", ["other.json"])
    found = json.loads((tmp_path / "cost.json").read_text())
    assert (found["stage"], found["threads"], found["tokens"]) == ("stage", 3, 17)
    assert 0 < found["wall_s"] <= round(around, 3) and found["peak_gb"] > 0 and found["gpu_h"] == 0
    page = (Path(__file__).resolve().parents[2] / "docs/architecture.md").read_text(encoding="utf-8")
    told = page.partition("\n### Cost\n")[2].partition("\n#")[0].partition("beside files:")[2]
    assert sorted(re.findall(r"`(\w+)`", told)) == sorted(found)


def test_what_earlier_processes_took_is_part_of_the_cost() -> None:
    with Cost("stage") as cost:
        cost.earlier = Spent(100.0, 50.0)
    assert 100 < cost.wall_s < 160 and 50 < cost.cpu_s < 110


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (pretrain, ["--store", "s", "--options", json.dumps(small_options({"name": "mlm"}, 8, 4))]),
        (finetune, ["--encoder", "e", "--task", "t", "--sizes", "full", "--options", "{}"]),
    ],
)
def test_a_training_that_was_continued(tmp_path: Path, monkeypatch, command: ModuleType, words: list[str]) -> None:
    name = command.__name__.rpartition(".")[2]
    monkeypatch.setattr(command, name, lambda *given: Outcome(tokens=7, earlier=Spent(1000.0, 2000.0)))
    words = [*words, "--seed", "1", "--checkpoints", "c", "--out", str(tmp_path)]
    command.main(make_parser(command).parse_args(words))
    cost = json.loads((tmp_path / "cost.json").read_text())
    assert cost["wall_s"] >= 1000 and cost["cpu_s"] >= 2000 and cost["tokens"] == 7


def test_progress_in_a_log(capsys) -> None:
    with Progress("work", total=2000, initial=500) as progress:
        for _ in range(3):
            progress.advance(500, "loss 1.5")
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "\r" not in printed
    assert printed.startswith("work: 2,000/2,000 steps, ") and printed.endswith("loss 1.5\n")
    try:
        with Progress("work"):
            raise KeyError
    except KeyError:
        pass
    assert capsys.readouterr().err == ""
