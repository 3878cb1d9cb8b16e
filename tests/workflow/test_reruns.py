"""What runs again after a finished run: nothing without a change, and after a change what depends on it.

Mutations seen to fail: `code=` dropped from the bm25 rule; docstrings, or the arguments of errors, taken for code;
`pretrieve.base.disk` or `pretrieve.finetuning.trainers` taken out of NO_RESULT; the mirror put back into the params of `fetch`;
SEEDS in the params of `pretrain`; `sources.tsv` no longer `ancient`; `start` left out of the inputs of `pretrain`; every
objective's file among the code of all encoders.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from miniature import PROJECT, Workflow, clone
from tiny_science import CONTINUED, ENCODERS, MLM_STEPS, TABLES, change_config

from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.stage_code import stage_sources

NOTHING = "Nothing to be done"
#: All jobs of the miniature behind an encoder, for one encoder and one seed.
CHAIN = {"finetune_questions": 1}

METRICS = read_config(PROJECT / "config.yaml")["datasets"]["questions"]["metrics"]


def twice(jobs: dict[str, int]) -> dict[str, int]:
    return {name: 2 * count for name, count in jobs.items()}


@pytest.fixture(scope="module")
def shared(finished: Workflow, folders: Path) -> Workflow:
    """A finished miniature whose files are changed and put back, test by test."""
    return clone(finished, folders / "shared")


@contextmanager
def changed(workflow: Workflow, name: str, change: Callable[[Path], None]):
    path = workflow.folder / name
    content, status = path.read_bytes(), path.stat()
    change(path)
    try:
        yield
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def edit(path: Path) -> None:
    """A change of the file's bytes that leaves it valid: in Python, a statement more."""
    more = {".py": "CHANGED = True\n", ".csv": ""}
    path.write_text(f"{path.read_text()}\n{more.get(path.suffix, '# changed')}")


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text, (path, old)
        path.write_text(text.replace(old, new, 1))

    return change


def labels(text: str) -> list[str]:
    return re.findall(r"^Job \d+: (.*)$", text, flags=re.MULTILINE)


def test_the_miniature_measured_something(finished):
    """Nothing below is about empty tables."""
    tables = finished.files("tables/**/*.csv")
    assert sorted(tables) == sorted(f"tables/{name}.csv" for name in TABLES)
    assert tables["tables/pretraining_tasks/table3.csv"].count(b",scale-differs,") == 30
    assert tables["tables/pretraining_tasks/table1.csv"].count(b",scale-differs,") == 12
    assert len(finished.files("encoders/*/seed1/model.safetensors")) == len(ENCODERS)


def test_a_second_run_does_nothing(warm):
    before = {path: path.stat().st_mtime_ns for path in (warm.folder / "results").rglob("*")}
    ended = warm.run()
    assert (ended.code, NOTHING in ended.text) == (0, True), ended.text
    assert {path: path.stat().st_mtime_ns for path in (warm.folder / "results").rglob("*")} == before


def test_touching_everything_reruns_nothing(warm):
    """A fresh checkout gives every file a new time."""
    touched = [
        path
        for part in (
            "src",
            "workflow_scripts",
            "rules",
            "references",
            "resources",
            "envs",
            "docs",
            "profiles",
        )
        for path in (warm.folder / part).rglob("*")
        if path.is_file()
    ]
    assert len(touched) > 100
    for path in [*touched, warm.folder / "Snakefile", warm.folder / "config.yaml"]:
        path.touch()
    assert NOTHING in warm.plan().text


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("src/pretrieve/retrieval/bm25.py", {"bm25_questions": 1, "table": 1}),
        ("src/pretrieve/reporting/tables/render.py", {"table": 2}),
        ("references/pretraining_tasks/table1.csv", {"table": 1}),
        # One program trains all encoders, but each depends on its own objective's file alone.
        ("src/pretrieve/pretraining/mlm.py", {"pretrain": 1, **CHAIN, "table": 1}),
        ("src/pretrieve/training/step.py", {"pretrain": 2, **twice(CHAIN), "table": 1}),
        ("src/pretrieve/finetuning/ranking.py", {**twice(CHAIN), "table": 1}),
        ("src/pretrieve/retrieval/search.py", {**twice(CHAIN), "table": 1}),
        ("src/pretrieve/commands/pair_statistics.py", {"pair_statistics": 1, "table": 1}),
        (
            "src/pretrieve/benchmarks/official/squad_reqa.py",
            {"task_with_answers": 1, "bm25_questions": 1, **twice(CHAIN), "table": 1},
        ),
    ],
)
def test_an_edit_reruns_what_uses_the_file(shared, name, jobs):
    with changed(shared, name, edit):
        assert shared.plan().jobs == jobs


def assert_nothing_runs_again(
    workflow: Workflow, changes: list[tuple[str, Callable[[Path], None]]], words: str = ""
) -> None:
    """Makes all changes together; if a job would run, makes each alone, to name it. ``words``: in what the dry run prints."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(changed(workflow, *change))
        ended = workflow.plan()
    if not ended.jobs and words in ended.text:
        return
    for name, change in changes:
        with changed(workflow, name, change):
            alone = workflow.plan()
            assert not alone.jobs and words in alone.text, name
    raise AssertionError(f"together these changes run {ended.jobs}")


def test_an_edit_of_what_others_use_reruns_nothing(shared):
    others = [
        # One program trains all encoders, fine-tunes by all recipes, makes all tasks: each depends on its own files alone.
        "pretraining/retromae.py",
        "finetuning/train_ance.py",
        "finetuning/sentences.py",
        "benchmarks/official/multireqa.py",
        "benchmarks/official/beir.py",
        "raw/sources.py",  # raw files are known by their checksum
    ]
    assert_nothing_runs_again(shared, [(f"src/pretrieve/{name}", edit) for name in others], NOTHING)


def test_an_edit_that_changes_no_result_reruns_nothing(shared):
    changes = [
        # A comment, line breaks, a docstring; the text of an error, raised or made by a function; that of --help.
        ("training/step.py", lambda path: path.write_text("# changed\n\n\n" + path.read_text())),
        ("training/step.py", replaced('"""', '"""Changed. ')),
        ("training/loop.py", replaced("Lower the learning rate", "Take a lower learning rate")),
        ("raw/raw_text.py", replaced('DataError(f"', 'DataError(f"changed ')),
        # What decides no result: how programs end and log, texts of errors.
        ("base/program.py", edit),
        ("base/errors.py", edit),
        ("base/disk.py", edit),
        ("base/progress.py", edit),
        # One more objective, kind of training, recipe, format of data sets or corpora.
        (
            "pretraining/presets.py",
            replaced('    "mlm": _BERT_MASKING,', '    "new": _BERT_MASKING, "mlm": _BERT_MASKING,'),
        ),
        ("finetuning/trainers.py", replaced('    "clicks": ', '    "new": "pretrieve.finetuning.new:New", "clicks": ')),
        (
            "finetuning/recipes.py",
            replaced('    "seed-pairwise": _PAIRWISE,', '    "new": _DPR, "seed-pairwise": _PAIRWISE,'),
        ),
        (
            "benchmarks/readers.py",
            replaced('    "beir": ', '    "new": Reader("pretrieve.benchmarks.new:read"),\n    "beir": '),
        ),
        (
            "corpora/readers.py",
            replaced('    "plain": ', '    "new": Reader("pretrieve.corpora.new:read", ()), "plain": '),
        ),
    ]
    # The report may be written again: it lists all options.
    assert_nothing_runs_again(shared, [(f"src/pretrieve/{name}", change) for name, change in changes])


def test_the_entry_of_a_format_is_part_of_its_tasks_code(shared):
    for name, jobs in (("natural-questions", 0), ("squad", 1)):
        change = replaced(f'"{name}": Reader(', f'"{name}": Reader(licence="changed", read=')
        with changed(shared, "src/pretrieve/benchmarks/readers.py", change):
            assert shared.plan().jobs.get("task_with_answers", 0) == jobs


def test_a_new_pair_task_trains_nothing_again(shared):
    """The statistics of pairs have a row more, and so have the tables that show them."""
    file = shared.folder / "src/pretrieve/pretraining/pairs/new.py"
    file.write_text((file.parent / "bfs.py").read_text())
    entry = '    "new": "pretrieve.pretraining.pairs.new:BodyFirstSelection",\n    "ict": '
    with changed(shared, "src/pretrieve/pretraining/objectives.py", replaced('    "ict": ', entry)):
        assert shared.plan().jobs == {"pair_statistics": 1, "table": 1}
    file.unlink()


def test_vectors_know_nothing_of_the_search():
    """An edit of the search or of a metric runs the job again, which then embeds nothing."""
    behind = stage_sources("pretrieve.retrieval.embed_task")
    assert {"pretrieve.retrieval.embed", "pretrieve.models.dual_encoder"} <= behind.keys()
    assert not [name for name in behind if name.startswith("pretrieve.evaluation") or "search" in name]


#: Prints the code of a stage and how many modules were read for it.
READS = """
import ast, sys
from pathlib import Path
from pretrieve.workflow import stage_code
parse, read = ast.parse, []
ast.parse = lambda content: read.append(content) or parse(content)
stage_code.remember(Path(sys.argv[1]))
print(stage_code.stage_code("mine.py"), len(read))
"""


def test_a_module_is_read_once_by_all_calls_of_snakemake(program, tmp_path):
    """And again where what was kept is damaged, or was kept by other code; the words are the same."""
    kept = tmp_path / "code.json"
    code, read = program("-c", READS, kept).stdout.split()
    assert int(read) > 50
    assert program("-c", READS, kept).stdout.split() == [code, "0"]
    whole = json.loads(kept.read_text())
    for damaged in ("", "[]", json.dumps(whole | {"reader": "another"}), json.dumps({**whole, "sources": [1]})):
        kept.write_text(damaged)
        assert program("-c", READS, kept).stdout.split() == [code, read]
        assert json.loads(kept.read_text()) == whole
    assert program("-c", READS, "/dev/null/code.json").stdout.split() == [code, read], "a folder that cannot be written"


def test_the_first_run_in_a_folder_reads_no_module_that_another_run_has_read(project, tmp_path):
    """It is kept where Python keeps compiled code."""
    kept, dates = project.folder / "src/pretrieve/__pycache__/stages.json", set()
    words = ("-n", "--quiet", "rules", "--snakefile", str(project.folder / "Snakefile"), "--directory")
    for folder in (tmp_path / "1", tmp_path / "2"):
        assert project.run(*words, str(folder), "results/demo/encoders/bert/seed1/config.json").code == 0
        assert not (folder / ".snakemake/pretrieve-code.json").exists()
        dates.add(kept.stat().st_mtime_ns)
    assert len(dates) == 1 and "pretrieve.training.loop" in kept.read_text()


def test_a_new_way_of_scoring_trains_nothing(warm):
    """The job that trains a family scores it; it runs again for its scores, and leaves its models as they are."""
    retrievers = warm.folder / "results/demo/retrievers"
    before = {file: file.read_bytes() for file in retrievers.rglob("*.safetensors")}
    scores = {file: file.stat().st_mtime_ns for file in (warm.folder / "results/demo/metrics").rglob("seed1.json")}
    files = sorted(str(file.relative_to(warm.folder)) for file in scores)
    with changed(warm, "src/pretrieve/retrieval/search.py", edit):
        ended = warm.run(*files)
        assert ended.code == 0 and ended.jobs["finetune_questions"] == 2, ended.text
        assert ended.text.count("nothing is trained") >= len(before) // 3 > 0
    assert before == {file: file.read_bytes() for file in retrievers.rglob("*.safetensors")}
    assert any(file.stat().st_mtime_ns > moment for file, moment in scores.items())
    assert warm.run(*files).code == 0


def test_a_new_seed_runs_alone(shared):
    ended = shared.run("-n", "--config", "seeds=[1,2]")
    assert ended.jobs == {"pretrain": 2, **twice(CHAIN), "table": 2}
    seeds = {re.search(r"seed (\d+)", label).group(1) for label in labels(ended.text) if "seed" in label}
    assert seeds == {"2"}


def test_what_is_no_science_reruns_nothing(shared):
    fewer = ("tables=[pretraining_tasks/table1]", "mirror=elsewhere", "checkpoint_seconds=5")
    assert not shared.plan("--config", *fewer).jobs  # but the report, which is on fewer tables


def test_a_new_table_trains_nothing_that_is_there(shared):
    ended = shared.plan(
        "--config", "tables=[pretraining_tasks/table1,pretraining_tasks/table2,pretraining_tasks/table3]"
    )
    assert ended.jobs == {"task": 1, "table": 1}


def test_a_new_source_in_the_list_fetches_nothing(shared):
    def add(path: Path) -> None:
        path.write_text(path.read_text() + "more\tmore.xml\tnone\tmore.xml\t" + 64 * "0" + "\t1\tCC0\tnothing\n")

    with changed(shared, "resources/sources.tsv", add):
        assert NOTHING in shared.plan().text


def test_one_encoder_changes_alone(shared):
    with changed(
        shared, "config.yaml", lambda path: change_config(path.parent, "encoders", ENCODERS[1], "objective", to=["ict"])
    ):
        ended = shared.run("-n")
    assert ended.jobs == {"pretrain": 1, **CHAIN, "table": 2}  # a table's manifest has the configuration's hash
    assert not [label for label in labels(ended.text) if ENCODERS[0] in label]


def test_an_encoder_that_goes_on_from_another(warm):
    """It needs the other one, and is trained again when that is; the other one is not trained for it."""
    target = f"results/demo/encoders/{CONTINUED}/seed1/config.json"
    assert warm.plan(target).jobs == {"pretrain": 1}
    ended = warm.run(target)
    assert ended.code == 0, ended.text
    folder = warm.folder / f"results/demo/encoders/{CONTINUED}/seed1"
    assert json.loads((folder / "pretrieve.json").read_text())["start"] == ENCODERS[0]
    before = json.loads((folder / "cost.json").read_text())["behind"]
    assert [path.split("/")[-3:] for path in before] == [[ENCODERS[0], "seed1", "cost.json"]], "its start counts, too"
    log = (warm.folder / f"results/demo/logs/pretrain/{CONTINUED}/seed1.log").read_text()
    assert "has no condenser head; it starts fresh" in log and "mlm head; it starts fresh" not in log
    assert NOTHING in warm.plan(target).text and NOTHING in warm.plan("encoders").text
    change_config(warm.folder, "scales", "demo", "pretraining", "budgets", "base", "steps", to=4)
    assert warm.plan("encoders").count("pretrain") == 2
    with changed(warm, "src/pretrieve/pretraining/condenser.py", edit):
        change_config(warm.folder, "scales", "demo", "pretraining", "budgets", "base", "steps", to=MLM_STEPS)
        assert warm.plan("encoders").count("pretrain") == 1


@pytest.mark.parametrize(
    ("path", "value", "jobs"),
    [
        (("bm25", "k1"), 1.2, {"bm25_questions": 1, "table": 2}),
        (("scales", "demo", "finetuning", "reqa", "epochs"), 3, {**twice(CHAIN), "table": 2}),
        # What decides the scores alone, of BM25 and of retrievers.
        (("datasets", "questions", "metrics"), [*METRICS, "ndcg@5"], {"bm25_questions": 1, **twice(CHAIN), "table": 2}),
        (("scales", "demo", "search"), {"joint_candidates": 50}, {**twice(CHAIN), "table": 2}),
    ],
)
def test_a_value_reruns_the_stages_that_read_it(shared, path, value, jobs):
    with changed(shared, "config.yaml", lambda file: change_config(file.parent, *path, to=value)):
        assert shared.plan().jobs == jobs


def test_the_report_is_one_file_that_needs_no_network(warm):
    ended = warm.run("--report", "report.html")
    assert ended.code == 0, ended.text
    page = (warm.folder / "report.html").read_text(encoding="utf-8")
    assert all(f"{name.partition('/')[2]}.{kind}" in page for name in TABLES for kind in ("csv", "html"))
    # Everything under a category, with its caption.
    assert '"Tables": {"pretraining_tasks": [' in page and '"Claims": {' in page and '"Report": {' in page
    captions = {
        "Published and measured values, one line for each cell": len(TABLES),
        "The table in the layout of its paper": len(TABLES),
        "What each claim was compared on": 1,
        "Everything of this run on one page that loads nothing": 1,
    }
    assert {caption: page.count(caption) for caption in captions} == captions
    outside = re.findall(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?https?://[^"'> ]+""", page)
    assert outside == []
