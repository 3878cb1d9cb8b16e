"""What a stage cost, and what it prints.

Seen to fail when: the log gets carriage returns; the last line is left out; ``wall_s`` is not of the block.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from pretrieve.base.progress import Progress
from pretrieve.training.cost import Cost


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
