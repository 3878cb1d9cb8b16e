"""A bundle from end to end: packed from a miniature, run in slices where nothing but the allowed packages can be
imported, taken home; two jobs at a time in the last slice.

Its weights and runs are those of the workflow, byte for byte, though of the corpus it has only the tokens that are read; and
then Snakemake has only tables left.

Seen to fail when: `import yaml` stands in bundle/jobs.py; a run that BM25 made for the rerank setting is not packed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from miniature import TIMEOUT, Workflow, clone, environment
from tiny_science import CHAINS, ENCODERS, change_config

from pretrieve.operations.bundle import contents
from pretrieve.operations.bundle.contents import Asked, remaining
from pretrieve.operations.bundle.jobs import Job
from pretrieve.operations.bundle.results import MANIFEST, slices_in
from pretrieve.operations.bundle.unpack import choose
from pretrieve.training.device import cpu_multiplies_bf16
from pretrieve.workflow.config_files import read_config

MLM = ENCODERS[0]
ROOT = "results/demo"
FILES = [f"{ROOT}/metrics/{name}/seed1.json" for name in CHAINS]
TABLE = "pretraining_tasks/table3"
STORE = f"{ROOT}/corpora/encyclopedia-demo/tokens/tokens.bin"

#: Refuses every import but the standard library's, the allowed packages' and what these require; yaml, too, which
#: transformers brings.
GUARD = """
import importlib.metadata as metadata, re, runpy, sys
names, waiting = set(), ["torch", "transformers", "tokenizers", "numpy", "pyarrow", "scikit-learn", "safetensors"]
norm = lambda name: re.sub(r"[-_.]+", "-", name).lower()
while waiting:
    name = norm(waiting.pop())
    if name not in names:
        names.add(name)
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [re.match(r"[A-Za-z0-9._-]+", line)[0] for line in needed if "extra ==" not in line]
refused = {"pyyaml", "faiss-cpu", "ranx", "snakemake", "numba", "pandas", "pyserini", "jsonschema"}
owned = metadata.packages_distributions().items()
modules = {module for module, owners in owned if {norm(owner) for owner in owners} & (names - refused)}
allowed = modules | set(sys.stdlib_module_names) | {"pretrieve", "__main__"}

class Only:
    '''A finder that knows the allowed modules only: any other is as if it were not installed.'''

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        known = name.split(".")[0] in allowed or name.startswith("_sysconfigdata")  # of the standard library, by machine
        return self.finder.find_spec(name, path, target) if known else None

    def __getattr__(self, name):
        return getattr(self.finder, name)

for name in [name for name in sys.modules if name.split(".")[0] not in allowed]:
    del sys.modules[name]
sys.meta_path[:] = map(Only, sys.meta_path)
for module in ("yaml", "faiss", "ranx", "snakemake", "numba", "jnius"):
    try:
        __import__(module)
        sys.exit(module + " can be imported: it is not refused")
    except ImportError:
        pass
sys.argv = ["runner", *sys.argv[1:]]
runpy.run_module("pretrieve.operations.bundle.runner", run_name="__main__", alter_sys=True)
"""


def program(workflow: Workflow, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pretrieve", script, *arguments]
    kept = environment() | {"PYTHONPATH": "src"}
    done = subprocess.run(command, cwd=workflow.folder, env=kept, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run_there(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = environment() | {"PYTHONPATH": str(folder / "src")}
    command = [sys.executable, "-c", GUARD]
    return subprocess.run(
        [*command, "--bundle", str(folder), "--device", "cpu", *arguments],
        cwd=folder.parent,
        env=kept,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def forget(workflow: Workflow) -> None:
    """Remove all that comes of one encoder."""
    for place in (workflow.folder / ROOT).glob(f"*/{MLM}*"):
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def home(chained: Workflow, folders: Path) -> Workflow:
    """A miniature with everything but what comes of one encoder, the tables, and a task that has to be built for it."""
    workflow = clone(chained, folders / "bundle_home")
    forget(workflow)
    for place in ("tables", "tasks/question-entailment"):
        shutil.rmtree(workflow.folder / ROOT / place)
    return workflow


@pytest.fixture(scope="module")
def there(home: Workflow, folders: Path) -> Path:
    """The bundle, unpacked elsewhere and run: one slice that ends while it pre-trains, and one to the end."""
    program(home, "bundle", "--scale", "demo", "--tables", TABLE, "--files", *FILES)
    folder = folders / "bundle_there"
    folder.mkdir()
    subprocess.run(["tar", "xJf", home.folder / "results/bundles/demo.tar.xz", "-C", folder], check=True)
    first = run_there(folder, "--minutes", "0", "--weights", "fp32")
    assert first.returncode == 0 and "jobs left (the time is over)" in first.stdout, first.stdout + first.stderr
    last = run_there(folder, "--minutes", "30", "--weights", "fp32", "--processes", "2")
    assert last.returncode == 0 and "left" not in last.stdout, last.stdout + last.stderr
    return folder


@pytest.fixture(scope="module")
def scores_only(home: Workflow, there: Path, folders: Path) -> Workflow:
    """The same, but searched and scored where ranx is, and brought to another home without the runs."""
    folder, other = shutil.copytree(there, folders / "bundle_with_ranx"), clone(home, folders / "bundle_scores")
    shutil.rmtree(folder / "out")
    for job in json.loads((folder / "jobs.json").read_text()):
        if job["call"]["program"] == "retrieve":
            (folder / "done" / f"{job['id']}.json").unlink()
            for run in job["call"]["options"]["runs"]:
                (folder / run).unlink()
    kept = environment() | {"PYTHONPATH": str(folder / "src")}
    words = ["--bundle", str(folder), "--device", "cpu", "--weights", "none", "--runs", "needed", "--processes", "2"]
    command = [sys.executable, "-m", "pretrieve.operations.bundle.runner", *words]
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0 and "left" not in done.stdout, done.stdout + done.stderr
    taken = program(other, "unbundle", "--file", str(folder / "out"))
    assert "0 are not taken" in taken.stdout, taken.stdout
    return other


@pytest.fixture(scope="module")
def unbundled(home: Workflow, there: Path, scores_only: Workflow) -> Workflow:
    done = program(home, "unbundle", "--file", str(there / "out"))
    assert "0 are not taken" in done.stdout, done.stdout
    return home


def test_no_texts_are_packed(home: Workflow, there: Path) -> None:
    import pyarrow.parquet as pq

    task = there / ROOT / "tasks/questions"
    assert pq.read_schema(task / "corpus.parquet").names == ["doc_id", "sentence_index", "passage_index"]
    assert pq.read_schema(task / "queries.parquet").names == ["query_id"]
    assert (
        not (task / "answers.parquet").exists()
        and not (there / ROOT / "corpora/encyclopedia-demo/tokenizer.json").exists()
    )
    assert all(file.stat().st_size <= 16 << 20 for file in (there / "out").rglob("*") if file.is_file())
    whole, thin = (np.fromfile(place / STORE, dtype=np.uint16) for place in (home.folder, there))
    assert len(whole) == len(thin) and 0 < (thin != whole).sum() == ((thin == 0) & (whole != 0)).sum()


def test_weights_and_runs_are_those_of_the_workflow(unbundled: Workflow, chained: Workflow) -> None:
    for pattern in ("encoders/*/*/*.safetensors", "runs/**/*.trec.gz", "negatives/**/*.jsonl.gz"):
        expected, found = chained.files(pattern), unbundled.files(pattern)
        assert len(found) > 1
        assert [name for name in found if found[name] != expected[name]] == []
    retrievers = unbundled.files("retrievers/**/*.safetensors")
    assert sum(f"/{MLM}." in f"/{name.partition('/')[2]}" for name in retrievers) >= 2 * (2 + 8)
    expected = chained.files("retrievers/**/*.safetensors")
    assert [name for name in retrievers if retrievers[name] != expected[name]] == []
    for name in [file.removeprefix(f"{ROOT}/") for file in FILES]:
        assert unbundled.files(name) == chained.files(name)


def test_only_tables_are_left(unbundled: Workflow) -> None:
    assert set(unbundled.plan("all", *FILES).jobs) == {"table"}


def test_scores_come_without_runs(scores_only: Workflow, chained: Workflow) -> None:
    for name in [file.removeprefix(f"{ROOT}/") for file in FILES]:
        assert scores_only.files(name) == chained.files(name)
    (file,) = (scores_only.folder / ROOT / "bundles").glob("*.json")
    needed = set(json.loads(file.read_text())["bundle"]["runs"])
    mine = {f"{ROOT}/{name}" for name in chained.files(f"runs/{MLM}*/**/*.trec.gz")}
    there = {run for run in mine if (scores_only.folder / run).is_file()}
    assert there == mine & needed and mine - there
    assert set(scores_only.plan("all", *FILES).jobs) == {"table"}


def test_where_and_how_it_was_made_is_kept(unbundled: Workflow) -> None:
    (file,) = (unbundled.folder / ROOT / "bundles").glob("*.json")
    manifest = json.loads(file.read_text())
    usual = "bf16" if cpu_multiplies_bf16() else "fp32"
    assert manifest["machine"]["precision"] == usual and manifest["machine"]["torch"]
    made = {entry["job"]["call"]["program"]: entry["made"] for entry in manifest["jobs"].values()}
    assert set(made) == {"pretrain", "finetune", "retrieve", "mine", "predict"}
    assert made["pretrain"]["seconds"] > 0 and made["pretrain"]["started"] <= made["pretrain"]["ended"]
    searches = [entry for entry in manifest["jobs"].values() if entry["job"]["call"]["program"] == "retrieve"]
    for entry in searches:
        scored = json.loads((unbundled.folder / entry["job"]["call"]["options"]["outputs"][0]).read_text())["metrics"]
        shown = entry["made"]["scores"]
        assert len(shown) > 1 and shown == pytest.approx({name: scored[name] for name in shown}, abs=1e-9)
    cost = json.loads((unbundled.folder / ROOT / f"encoders/{MLM}/seed1/cost.json").read_text())
    assert cost["stage"] == "pretrain" and cost["tokens"] > 0


def test_a_change_afterwards_is_seen(unbundled: Workflow, folders: Path) -> None:
    changed = clone(unbundled, folders / "bundle_changed")
    change_config(changed.folder, "scales", "demo", "finetuning", "reqa", "learning_rate", to=0.01)
    assert changed.plan().count("finetune") >= 1


def test_results_of_other_settings_or_data_are_not_taken(
    there: Path, unbundled: Workflow, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = clone(unbundled, folders / "bundle_other")
    forget(other)
    change_config(other.folder, "scales", "demo", "finetuning", "reqa", "learning_rate", to=0.01)
    task = other.folder / ROOT / "tasks/question-entailment/splits.parquet"
    task.write_bytes(task.read_bytes() + b" ")
    (slice_,) = slices_in(there / "out")
    manifest = json.loads((slice_ / MANIFEST).read_bytes())
    about = manifest["bundle"]
    monkeypatch.chdir(other.folder)
    monkeypatch.setattr(contents, "read_config", partial(read_config, code_folder=other.folder))
    asked = Asked(about["scale"], *(tuple(about[key]) for key in ("tables", "config", "files")))
    jobs = [Job.from_json(entry["job"]) for entry in manifest["jobs"].values()]
    taken = choose(jobs, remaining(asked, asked.cells(asked.plan())), about, {})
    assert {job.name for job in taken.jobs} >= {f"pretrain {MLM}/seed1"}
    assert not [job for job in taken.jobs if ".reqa-" in job.name or ".glue-" in job.name]
    reasons = set(taken.refused.values())
    assert "is not asked for with these arguments any more" in reasons
    assert [why for why in reasons if why.startswith(f"was made from other data than {ROOT}/tasks/question-entailment")]
