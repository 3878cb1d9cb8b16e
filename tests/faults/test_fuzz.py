"""Hostile inputs made at random: every one is taken, or refused with a sentence. No traceback, no hang, no file elsewhere.

Three to five hundred cases each, the same in every run, of the configuration, of a corpus folder, of files of every kind that
documents are read from, and of a checkpoint's configuration.
What the look at a folder takes, its reader must take, too: nothing fails later that could fail at once.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "corpora"))

import pyarrow as pa
import pyarrow.parquet as pq
from config_cases import checked, project_config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_pdf import pdf
from published_files import bert_lm, write

from pretrieve.base.errors import DataError, PretrieveError
from pretrieve.benchmarks.official.beir_folder import look_at
from pretrieve.benchmarks.reading import build_collection
from pretrieve.corpora.any_corpus import DOCUMENTS, Wanted, converted
from pretrieve.models.published import read_start
from pretrieve.references.figures import load_figures
from pretrieve.references.tables import cell_lines, load_table
from pretrieve.workflow import config_files, plan

#: Seconds that a case may take; on a machine that is busy elsewhere, too.
PATIENCE = 30
CASES = settings(
    max_examples=500, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)

TEXT = st.text(max_size=8) | st.sampled_from(
    ["", " ", "../x", "/etc/passwd", "a b", "{x}", "true", "1e999", "=1", "\x00", "é" * 300]
)
NUMBERS = (
    st.integers()
    | st.sampled_from([0, -1, 1, 2**31, 2**63, 10**30])
    | st.floats()
    | st.sampled_from([3.0, 1e300, -0.0])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with a home and a temporary folder; at the end they have nothing new but what stands under ``data`` and
    ``results``."""
    for name in ("checkout/data", "checkout/results", "home", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    own = Path(__file__).resolve().parents[2]
    before = listed(tmp_path), listed(own, top=True)
    yield tmp_path / "checkout"
    assert (listed(tmp_path), listed(own, top=True)) == before


def listed(folder: Path, top: bool = False) -> set[str]:
    """All that stands in a folder, but not under data and results; ``top``: in itself alone, for pytest writes below."""
    found = set()
    for place, folders, files in os.walk(folder):
        folders[:] = [] if top else [name for name in folders if name not in ("data", "results")]
        found.update(os.path.join(place, name) for name in files)
    return found


def ends_well(action: Callable[[], Any]) -> Any:
    """What an action gives, or None where it was refused in one sentence."""
    begin = time.monotonic()
    try:
        return action()
    except PretrieveError as error:
        assert str(error).strip()
        return None
    finally:
        assert time.monotonic() - begin < PATIENCE


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def change(value: Any, path: tuple, draw: Callable[[st.SearchStrategy], Any]) -> Any:
    """A copy with one place changed: another value, a near one, none, or one more beside it."""
    value = copy.deepcopy(value)
    if not path:
        return draw(VALUES)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    old, how = holder[path[-1]], draw(st.sampled_from(["other", "near", "gone", "more"]))
    if how == "gone":
        del holder[path[-1]]
    elif how == "near" and isinstance(old, (int, float)) and not isinstance(old, bool):
        holder[path[-1]] = draw(
            st.sampled_from([float(old), str(old), -old, old + 0.5, old * 10**9, [old], {"x": old}, bool(old)])
        )
    elif how == "more" and isinstance(holder, dict):
        holder[draw(TEXT)] = old
    else:
        holder[path[-1]] = draw(VALUES)
    return value


def test_configurations(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = project_config()
    paths = sorted(places(config), key=str)
    # What does not change is read once for all, and before the first case, whose time is measured.
    figures = cache(load_figures)
    monkeypatch.setattr(config_files, "read_part", cache(config_files.read_part))
    monkeypatch.setattr(plan, "_read_rows", cache(plan._read_rows))
    lines, tables = cache(lambda file: [*cell_lines(file)]), cache(load_table)
    monkeypatch.setattr(plan, "cell_lines", lines)
    monkeypatch.setattr(plan, "load_table", lambda paper, cells, _: tables(paper, cells))
    monkeypatch.setattr(plan, "load_figures", lambda files: figures(tuple(files)))
    checked(project_config())
    taken = []

    @CASES
    @given(st.data())
    def every_case(data: st.DataObject) -> None:
        changed = change(config, data.draw(st.sampled_from(paths)), data.draw)
        if isinstance(changed, dict):
            made = ends_well(lambda: checked(changed))
            assert made is None or made.root.startswith("results/")
            taken.append(made is not None)

    every_case()
    assert 50 < sum(taken) < len(taken) - 50


RECORDS = st.fixed_dictionaries(
    {}, optional={"_id": TEXT | NUMBERS, "title": TEXT | VALUES, "text": TEXT | VALUES, "more": VALUES}
).map(json.dumps)
JUDGED = st.tuples(
    st.sampled_from(["q 1", "q2", "q9"]), st.sampled_from(["d1", "d 2.md", "d9"]), TEXT | st.just("2")
).map("\t".join)
#: A folder that has a little of everything that is odd and allowed.
FOLDER = {
    "corpus.jsonl": [
        json.dumps({"_id": f"d{n}", "text": f"One two three {n}. Four five six seven."}) for n in range(12)
    ]
    + [
        '{"_id": "d 2.md", "text": "文字文字文字文字。文字文字文字文字。"}',
        '{"_id": "empty", "title": null, "text": ""}',
    ],
    "queries.jsonl": [json.dumps({"_id": f"q{n}", "text": "three?"}) for n in range(9)]
    + ['{"_id": "q 1", "text": "???"}'],
    "qrels/train.tsv": ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(5))],
    "qrels/test.tsv": ["query-id\tcorpus-id\tscore", "q 1\td 2.md\t1", "q7\tempty\t1"],
}


def test_corpus_folders(watched: Path) -> None:
    folder, taken = watched / "data/mine", []
    (folder / "qrels").mkdir(parents=True)

    @CASES
    @given(st.data())
    def every_case(data: st.DataObject) -> None:
        files = {name: list(lines) for name, lines in FOLDER.items()}
        for _ in range(data.draw(st.integers(1, 3))):
            lines = files[data.draw(st.sampled_from(sorted(files)))]
            line, how = (
                data.draw(st.integers(0, len(lines))),
                data.draw(st.sampled_from(["more", "other", "gone", "twice"])),
            )
            if how in ("more", "other"):
                lines[line : line + (how == "other")] = [data.draw(RECORDS | JUDGED | TEXT)]
            else:
                lines[line : line + 1] = lines[line : line + 1] * (2 if how == "twice" else 0)
        for name, lines in files.items():
            (folder / name).write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
        found = ends_well(lambda: look_at(folder))
        if found is not None and found.has_queries:
            read = {name: Path(file) for name, file in found.files.items()}
            made = build_collection("beir", read, watched / "results/collection", {"test_share": found.test_share})
            assert made.stats["kept"]["queries"] > 0
            if found.pairs:
                build_collection(found.pairs, {"corpus": read["corpus"]}, watched / "results/pairs")
            taken.append(made)

    every_case()
    assert 50 < len(taken) < 450


def table(**columns: list) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


#: A file of every kind that documents are read from.
KINDS = {
    "a.txt": b"One two three.\n\nFour five six seven.\n",
    "a.md": b"---\ntitle: T\n---\n# One\n\nTwo [three](../x.md).\n\n## Four\n\nFive.",
    "a.html": b"<meta charset=latin-1><title>T</title><h1>One</h1><p>Two <b>three<td>four<!-- x --><script>five",
    "a.pdf": pdf([["One two", "three."], ["Four."]], "T"),
    "a.csv": b'id;title;text\n1;a;"one\ntwo"\n2;;three\n',
    "a.tsv": b"text\tname\none\ta\ntwo\tb\n",
    "a.jsonl": b'{"id": 1, "contents": "one"}\n{"id": "x", "contents": null}\n',
    "a.parquet": table(docid=[1, 2], body=["one", None], other=[[1], [2]]),
}


def test_files_of_every_kind(watched: Path) -> None:
    folder, made, taken = watched / "data/mine", watched / "results/made", []
    folder.mkdir(parents=True)

    @settings(CASES, max_examples=300)
    @given(st.data())
    def every_case(data: st.DataObject) -> None:
        name, other = (data.draw(st.sampled_from(sorted(KINDS))) for _ in range(2))
        content = bytearray(KINDS[name if data.draw(st.integers(0, 9)) else other])
        for _ in range(data.draw(st.integers(0, 3))):
            place, length = data.draw(st.integers(0, len(content))), data.draw(st.integers(0, 9))
            content[place : place + length] = data.draw(st.binary(max_size=9) | TEXT.map(str.encode))
        (folder / name).write_bytes(content)
        found = ends_well(lambda: converted(str(folder), made, Wanted(data.draw(st.sampled_from(DOCUMENTS)))))
        (folder / name).unlink()
        if found is not None:
            looked = ends_well(lambda: look_at(folder, found.corpus))
            taken.append(looked is not None)

    every_case()
    assert sum(taken) > 100 and len(taken) < 295


def test_checkpoint_configurations(watched: Path) -> None:
    model, place = bert_lm(), watched / "data/checkpoint"
    good = model.config.to_dict()
    write(place, model.state_dict(), good, "model.safetensors")  # a pickle takes longer to read
    paths = sorted(places(good), key=str)

    @CASES
    @given(st.data())
    def every_case(data: st.DataObject) -> None:
        shown = change(good, data.draw(st.sampled_from(paths)), data.draw)
        (place / "config.json").write_text(json.dumps(shown), encoding="utf-8")
        start = ends_well(lambda: read_start(place))
        assert start is None or start.config.hidden == 16

    every_case()
    (place / "config.json").write_text(json.dumps(good))
    assert read_start(place).config.layers == 2
    with pytest.raises(DataError):
        (place / "config.json").write_text("[")
        read_start(place)
