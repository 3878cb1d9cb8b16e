"""Names, files that appear whole or not at all, and how programs end.

Seen to fail when: a system's name is split at its first dash; BM25 has a pre-training cost; ``whole_file`` writes in place,
or replaces a pipe; a PretrieveError keeps its traceback or exits 0; the log misses standard error; all processes of a group
write one log; NaN gets into JSON.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from pretrieve.base import paths
from pretrieve.base.errors import ConfigError, DataError, PretrieveError
from pretrieve.base.files import whole_file, write_json
from pretrieve.base.program import Tee, once_each, one_each


def test_systems() -> None:
    system = paths.parse_system("transformer-ict-bfs-wlp-quarter.reqa-quarter-10pct")
    assert system == ("transformer-ict-bfs-wlp-quarter", "reqa-quarter", "10pct")
    assert system.name == "transformer-ict-bfs-wlp-quarter.reqa-quarter-10pct"
    assert system.family == "transformer-ict-bfs-wlp-quarter.reqa-quarter"
    for wrong in ("bm25", "bm25.reqa", ".reqa-1pct", "bm25.-1pct", "bm25.reqa-", ""):
        with pytest.raises(ValueError, match="is not a system name"):
            paths.parse_system(wrong)


def test_layout() -> None:
    root, system = "results/demo", "e.reqa-1pct"
    assert paths.encoder_dir(root, "e", 1) == "results/demo/encoders/e/seed1"
    assert paths.retriever_dir(root, system, "d", 2) == "results/demo/retrievers/e.reqa-1pct/d/seed2"
    assert paths.metrics_file(root, system, "d", 2) == "results/demo/metrics/e.reqa-1pct/d/seed2.json"
    assert paths.run_file(root, system, "d", 2) == "results/demo/runs/e.reqa-1pct/d/seed2.trec.gz"
    assert paths.table_file(root, "p", "table1", "md") == "results/demo/tables/p/table1.md"
    assert list(paths.cost_files(root, "bm25.reqa-1pct", "d", "d", 0)) == ["search"]
    costs = paths.cost_files(root, system, "open", "d", 3)
    assert costs == {
        "pretrain": "results/demo/encoders/e/seed3/cost.json",
        "finetune": "results/demo/retrievers/e.reqa-1pct/d/seed3/cost.json",
        "embed": "results/demo/embeddings/e.reqa-1pct/open/seed3/cost.json",
        "search": "results/demo/runs/e.reqa-1pct/open/seed3.cost.json",
    }


def test_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.bin"
    with whole_file(path) as stream:
        stream.write(b"one")
        assert not path.exists()
    assert path.read_bytes() == b"one"
    with pytest.raises(RuntimeError), whole_file(path) as stream:
        stream.write(b"two")
        raise RuntimeError
    assert path.read_bytes() == b"one" and [p.name for p in path.parent.iterdir()] == ["b.bin"]
    os.mkfifo(pipe := tmp_path / "pipe")
    for place in (pipe, Path("/dev/pretrieve-has-no-such-device")):
        with pytest.raises(DataError, match=f"{place}: is a device or pipe"), whole_file(place) as stream:
            stream.write(b"three")
    assert pipe.is_fifo()


def test_write_json(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": "é"})
    write_json(tmp_path / "b.json", {"a": "é", "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": "é", "b": 1}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": "é", "b": 1}


PROGRAM = """
import sys
from pretrieve.base.program import run_program
from pretrieve.base.errors import DataError

def main():
    print("to stdout", sys.argv[1:])
    print("to stderr", file=sys.stderr)
    sys.stderr.write("\\rbar 50%")
    if "data" in sys.argv:
        raise DataError("x.json: broken\\n  at line 3")
    if "bug" in sys.argv:
        raise KeyError("bug")

run_program(main)
"""


@pytest.mark.parametrize("kind", ["fine", "data", "bug"])
def test_how_a_program_ends(program, tmp_path: Path, kind: str) -> None:
    script, log = tmp_path / "p.py", tmp_path / "logs" / "p.log"
    script.write_text(PROGRAM)
    done = program(script, "--log", log, kind)
    assert done.returncode == (0 if kind == "fine" else 1)
    assert done.stdout == f"to stdout ['{kind}']\n"  # without --log
    written = log.read_text()
    assert "to stdout" in written and "to stderr" in written
    assert "bar 50%" in done.stderr and "bar 50%" not in written, (
        "a traceback has paths, which may have any word in them"
    )
    line = "DataError: x.json: broken at line 3\n"
    assert (line in done.stderr) == (line in written) == (kind == "data")
    assert ("Traceback" in done.stderr) == ("Traceback" in written) == (kind == "bug")


def test_processes_of_a_group_write_logs_of_their_own(program, tmp_path: Path) -> None:
    script, log = tmp_path / "p.py", tmp_path / "p.log"
    script.write_text(PROGRAM)
    for rank in ("0", "1"):
        assert program(script, "--log", log, f"rank{rank}", RANK=rank).returncode == 0
    assert "rank0" in log.read_text() and "rank1" not in log.read_text()
    assert "rank1" in (tmp_path / "p.1.log").read_text()


def test_every_error_of_the_user_is_a_pretrieve_error() -> None:
    from pretrieve.training.loop import TrainingError

    assert all(issubclass(kind, PretrieveError) for kind in (ConfigError, DataError, TrainingError))


def test_tee_is_a_terminal_where_its_stream_is() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log = io.StringIO()
    assert Tee(Terminal(), log).isatty() and not Tee(io.StringIO(), log).isatty()


def test_one_each() -> None:
    one_each(runs=[1, 2], out=[3, 4])
    with pytest.raises(ConfigError, match="--runs has 2, --out has 1"):
        one_each(runs=[1, 2], out=[3])
    one_each(runs=["a", "a"], outputs=["b", "c"])  # one run may be scored by two sizes
    with pytest.raises(ConfigError, match="--negatives: .*/n stands there twice"):
        once_each(runs=["a", "c"], negatives=["n", "n"])
    with pytest.raises(ConfigError, match="--runs: .*/a stands there twice"):
        once_each(runs=["a", "x/../a"])  # of a command that writes them
    with pytest.raises(ConfigError, match="--outputs: .*/b stands there twice, and the last would remain"):
        once_each(outputs=["b", "x/../b"])
