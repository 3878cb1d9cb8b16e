"""Manifests of slices, indices of weights and of checkpoints that nobody would think of: 500 of each, the same ones in every run.

Each ends with a result or with one sentence; never with a traceback, a hang, or a file outside of results/ and data/ (a recursive
listing before and after). Whoever changes a manifest can compute its checksum anew, and so do these.
"""

from __future__ import annotations

import copy
import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from made_slices import ENCODER, RUN, listing, make_home, make_slice, summed_again, two_jobs

from pretrieve.base.errors import PretrieveError
from pretrieve.operations.bundle.results import checksum
from pretrieve.operations.bundle.unpack import unbundle
from pretrieve.raw.hub import check_recorded, fetch_checkpoint

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

#: What an attacker would write, between what chance does.
NAMES = [
    "../../Snakefile",
    "/etc/passwd",
    "src/pretrieve/cli.py",
    "a\0b",
    "x" * 5000,
    ".",
    "",
    "~",
    "CON",
    ENCODER,
    RUN,
]
NAMES += [
    "/dev/zero",
    "pipe",
    "way/precious",
    "WEIGHTS-00001.safetensors",
    "weights-00001.safetensors",
    "\u202egpj.exe",
]
NUMBERS = st.one_of(st.integers(), st.sampled_from([0, -1, 2**31, 2**63, 10**30, 1e308, float("inf"), float("nan")]))
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(NAMES), st.text(max_size=20))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), inner, max_size=3),
    ),
    max_leaves=6,
)
CASES = hypothesis.settings(
    max_examples=500,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@st.composite
def changes(draw: Callable[..., Any]) -> list[tuple[list[float], str, Any]]:
    """How to change a JSON value: where (a share of the way through the keys, at each level), what is done there, and with
    what."""
    one = st.tuples(
        st.lists(st.floats(0, 0.999), min_size=1, max_size=6),
        st.sampled_from(["set", "set", "set", "remove", "rename", "add", "twin"]),
        VALUES,
    )
    return draw(st.lists(one, min_size=1, max_size=3))


def changed(value: Any, todo: list[tuple[list[float], str, Any]]) -> Any:
    """A changed copy of a JSON value."""
    value = copy.deepcopy(value)
    for way, what, new in todo:
        holder, key = None, None
        at = value
        for share in way:
            keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else []
            if not len(keys):
                break
            holder, key = at, keys[int(share * len(keys))]
            at = at[key]
        if holder is None:
            value = new
        elif what == "set" or isinstance(holder, list):
            holder[key] = new
        elif what == "remove":
            del holder[key]
        elif what == "rename":
            holder[str(new)] = holder.pop(key)
        elif what == "twin":
            holder[str(key).swapcase()] = at
        else:
            holder[str(new)] = copy.deepcopy(at)
    return value


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout, and an end to every hang."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").write_text("thesis")

    def ring(*_: object) -> None:
        raise TimeoutError("a case hangs")

    before = signal.signal(signal.SIGALRM, ring)
    yield make_home(tmp_path / "home", two_jobs(), monkeypatch)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def ends_well(home: Path, work: Callable[[], object], inputs: Path) -> bool:
    """Do one case; whether it was taken."""
    ours = (str(home.relative_to(home.parent) / "results"), "home/data", inputs.name)
    before = {name: what for name, what in listing(home.parent).items() if not name.startswith(ours)}
    signal.alarm(60)
    try:
        work()
        taken = True
    except PretrieveError as error:
        taken = False
        assert str(error) and "\n" not in str(error) and len(str(error)) < 3000
    signal.alarm(0)
    after = {name: what for name, what in listing(home.parent).items() if not name.startswith(ours)}
    assert after == before
    left = [path for path in home.rglob(".*") if path.name.endswith(".part")]
    assert not left, "something half-written is left"
    return taken


def test_manifests_of_slices(home: Path, tmp_path: Path) -> None:
    folder = make_slice(tmp_path / "there", two_jobs())
    whole = json.loads((folder / "manifest.json").read_text())
    counts = {True: 0, False: 0}

    @CASES
    @hypothesis.given(todo=changes(), again=st.sampled_from([True, True, True, False]))
    def run(todo: Any, again: bool) -> None:
        manifest = changed(whole, todo)
        if again and isinstance(manifest, dict):
            with suppress(ValueError):  # NaN has none
                manifest["checksum"] = checksum(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        counts[ends_well(home, lambda: unbundle(folder), tmp_path / "there")] += 1
        shutil.rmtree(home / "results/demo")
        (home / "results/demo").mkdir()

    run()
    assert sum(counts.values()) >= 500 and counts[False] > 200, counts


def test_indices_of_weights(home: Path, tmp_path: Path) -> None:
    folder = make_slice(tmp_path / "there", two_jobs())
    whole = json.loads((folder / "weights.index.json").read_text())
    counts = {True: 0, False: 0}

    @CASES
    @hypothesis.given(todo=changes())
    def run(todo: Any) -> None:
        (folder / "weights.index.json").write_text(json.dumps(changed(whole, todo)))
        summed_again(folder, "weights.index.json")
        counts[ends_well(home, lambda: unbundle(folder), tmp_path / "there")] += 1
        shutil.rmtree(home / "results/demo")
        (home / "results/demo").mkdir()

    run()
    assert sum(counts.values()) >= 500 and counts[False] > 200, counts


def test_indices_of_checkpoints(home: Path, tmp_path: Path) -> None:
    """Of parts, and the record beside them, in a mirror; texts that are no JSON among them."""
    model = tmp_path / "mirror/hub/evil/model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "way").symlink_to(tmp_path / "outside")
    parts = {"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}, "metadata": {"total_size": 8}}
    record = {
        "repository": "evil/model",
        "revision": "5e1f",
        "files": {"config.json": {"sha256": "0" * 64, "bytes": 2}},
    }
    for name in parts["weight_map"].values():
        (model / name).write_bytes(b"PK\x03\x04")
    target = Path("data/hub/evil--model")
    counts = {True: 0, False: 0}

    def fetch() -> None:
        fetch_checkpoint("hub:evil/model", target, tmp_path / "mirror")
        check_recorded(target)
        check_recorded(model)

    @CASES
    @hypothesis.given(todo=changes(), other=st.sampled_from(["index", "index", "record"]), cut=st.floats(0.5, 1.5))
    def run(todo: Any, other: str, cut: float) -> None:
        texts = {"index": json.dumps(parts), "record": json.dumps(record)}
        texts[other] = json.dumps(changed(parts if other == "index" else record, todo))
        texts[other] = texts[other][: int(cut * len(texts[other]))]
        (model / "pytorch_model.bin.index.json").write_text(texts["index"])
        (model / "manifest.json").write_text(texts["record"])
        counts[ends_well(home, fetch, tmp_path / "mirror")] += 1
        shutil.rmtree(home / "data", ignore_errors=True)

    run()
    assert sum(counts.values()) >= 500 and counts[False] > 200, counts
