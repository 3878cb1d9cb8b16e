"""Values of the configuration are data: whatever is in them reaches a program as it is, or is refused before any shell sees it.

The workflow runs as it is, but for a ``python`` that writes down what it is given and makes empty outputs. Every value that may
hold any text holds something that a shell would run, split or expand. A list of all places where the schema lets any text
pass keeps this complete: a new one fails until it is named here.

Seen to fail when: `{input.train}` lacks `:q`; braces are let through; a make function has a name that make has itself; a value of
a make goal is not quoted; a linked `.venv` is emptied; `make clean SCALE=../..` is let through.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_cases import project_config
from miniature import PROJECT, TIMEOUT, Workflow, clone, environment
from snakemake.cli import parse_config

from pretrieve.base.errors import PretrieveError
from pretrieve.raw import hub
from pretrieve.workflow import rehearsal
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.configuration import check_config
from pretrieve.workflow.job_environment import NAME, TUNABLES
from pretrieve.workflow.plan import Plan

#: What a shell would make of it: a file ``canary-…`` from a substitution, another command, two words, a variable, a pattern.
POISON = "a  b'\"; touch canary-1; $(touch canary-2) `touch canary-3` $HOME * & \\ é\n| touch canary-4 #"
#: Stands for ``python`` in the shell lines: writes down arguments and surroundings, and makes the job's outputs, which
#: stand in a file named by its log.
RECORDER = """#!/bin/bash
record=$(mktemp "$RECORDS/call-XXXXXX")
printf '%s\\0' "$PRETRIEVE_MIRROR" "$GLIBC_TUNABLES" "$@" > "$record"
previous=
for word in "$@"; do
    if [ "$previous" = --log ]; then
        while IFS= read -r output; do
            case "${output##*/}" in
                *.*) mkdir -p "$(dirname "$output")"; : > "$output" ;;
                *) mkdir -p "$output" ;;
            esac
        done < "$RECORDS/$(printf %s "$word" | tr / +)"
    fi
    previous=$word
done
"""
#: Behind the Snakefile of the copy: which outputs belong to which log.
OUTPUTS = """

onstart:
    for job in workflow.dag.jobs:
        for log in job.log:
            with open(os.path.join(os.environ["RECORDS"], log.replace("/", "+")), "w") as stream:
                stream.writelines(f"{output}\\n" for output in job.output)
"""


@dataclass(frozen=True)
class Call:
    """What a program was given."""

    mirror: str
    tunables: str
    words: list[str]

    @property
    def program(self) -> str:
        return next((Path(word).name for word in self.words if word.startswith("workflow_scripts/")), "")

    def after(self, option: str) -> list[str]:
        """The words between an option and the next one."""
        rest = self.words[self.words.index(option) + 1 :]
        end = next((place for place, word in enumerate(rest) if re.match(r"--[a-z]", word)), len(rest))
        return rest[:end]


def run_recorded(workflow: Workflow, folder: Path, *targets: str) -> list[Call]:
    """Run the workflow with :data:`RECORDER`; its calls."""
    records = folder / "records"
    (folder / "bin").mkdir(parents=True)
    records.mkdir()
    recorder = folder / "bin/python"
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    # Jobs take the `python` beside Snakemake's: the same environment, with the recorder in its folder.
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    interpreter = folder / "bin/interpreter"
    interpreter.symlink_to(sys.executable)
    with open(workflow.folder / "Snakefile", "a") as stream:
        stream.write(OUTPUTS)
    ended = subprocess.run(
        [interpreter, "-m", "snakemake", "--cores", "2", "--latency-wait", "0", *targets],
        cwd=workflow.folder,
        env=environment() | {"RECORDS": str(records)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    calls = []
    for record in sorted(records.glob("call-*")):
        mirror, tunables, *words = record.read_bytes().decode().split("\0")[:-1]
        calls.append(Call(mirror, tunables, words))
    return calls


def canaries(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("canary-*")]


@pytest.fixture
def recorded(untouched: Workflow, fault_folders: Path, tmp_path: Path, request) -> Iterator[Workflow]:
    workflow = clone(untouched, tmp_path / "project")
    yield workflow
    shutil.rmtree(workflow.folder)


def poisoned(config: dict[str, Any], project: Path) -> dict[str, Any]:
    """The miniature's configuration with poison in every value that may hold any text; files are put there."""
    config = copy.deepcopy(config)
    odd = project / f"odd {POISON[:30]}"
    odd.mkdir()
    place = lambda name: f"{odd.name}/{name} {POISON}"

    def put(name: str, content: str = "{}") -> str:
        (project / place(name)).write_text(content)
        return place(name)

    config["mirror"] = f"mirror {POISON} {{x}}"
    questions = config["datasets"]["questions"]
    for part, path in questions["files"].items():
        questions["files"][part] = put(part, (project / path).read_text())
    corpus = config["corpora"]["encyclopedia-demo"]
    corpus.pop("dump"), corpus.pop("leads")
    corpus |= {
        "reader": "plain",
        "files": {"text": put("text.txt"), f"text-{POISON}": put("more.txt")},
        "exclude": put("titles"),
    }
    config["scales"]["demo"]["vocabulary_file"] = put("vocab.txt")
    published = odd / f"published {POISON}"
    published.mkdir()
    (published / "config.json").write_text("{}")
    (published / "model.safetensors").write_bytes(b"")
    first = next(name for name, encoder in config["encoders"].items() if encoder["body"] == "transformer")
    config["encoders"][first]["start"] = f"dir:{published.relative_to(project)}"
    config["datasets"]["reading"] = {
        "reader": "beir",
        "files": {name: put(name) for name in ("corpus", "queries", "test")},
        "trained_on": "questions",
        "sizes": {"80pct": 0.8},
    }
    config["datasets"]["sentences"] = {
        "reader": "sts-b",
        "files": {name: put(f"sts-{name}") for name in ("train", "dev", "test")},
        "metrics": ["spearman"],
        "sizes": {"full": "all"},
    }
    config["datasets"]["one-file"] = {"reader": "squad", "files": {"file": put("one")}, "sizes": {"full": "all"}}
    return config


def test_every_value_reaches_its_program_as_it_is(recorded: Workflow, tmp_path: Path):
    folder = recorded.folder
    config = poisoned(read_config(folder / "config.yaml", code_folder=folder), folder)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    tasks = [f"results/demo/tasks/{name}/stats.json" for name in ("reading", "sentences", "one-file")]
    calls = run_recorded(recorded, tmp_path / "calls", "--", "all", *tasks)
    assert canaries(recorded.folder, tmp_path) == []
    assert {call.mirror for call in calls} == {config["mirror"]}
    assert {call.tunables for call in calls} == {os.environ.get(NAME, TUNABLES)}

    def the(program: str, *words: str) -> Call:
        (found,) = [call for call in calls if call.program == program and all(word in call.words for word in words)]
        return found

    corpus, datasets = config["corpora"]["encyclopedia-demo"], config["datasets"]
    part = the("corpus.py").after("--part")
    assert part == ["encyclopedia-demo=plain", *(f"{name}={path}" for name, path in corpus["files"].items())]
    assert the("corpus.py").after("--exclude") == [corpus["exclude"]]
    assert the("tokens.py", "vocabulary").after("--given") == [config["scales"]["demo"]["vocabulary_file"]]
    squad = the("task.py", "squad", "results/demo/tasks/questions")
    assert squad.after("--files") == [f"{name}={path}" for name, path in datasets["questions"]["files"].items()]
    one = the("task.py", "squad", "results/demo/tasks/one-file").after("--files")
    assert one == [f"file={datasets['one-file']['files']['file']}"]
    reading = the("collection.py", "beir").after("--files")
    assert reading == [f"{name}={path}" for name, path in datasets["reading"]["files"].items()]
    sentences = the("task.py", "sts-b").after("--files")
    assert sentences == [f"{name}={path}" for name, path in datasets["sentences"]["files"].items()]
    starts = [call.after("--start") for call in calls if call.program == "pretrain.py" and "--start" in call.words]
    (outside,) = [
        start for entry in config["encoders"].values() if (start := entry.get("start", "")).startswith("dir:")
    ]
    assert [outside.removeprefix("dir:")] in starts
    options = [json.loads(call.after("--options")[0]) for call in calls if call.program == "pretrain.py"]
    assert outside in [entry.get("start") for entry in options]
    sources = set(the("table.py").after("--sources"))
    assert {*corpus["files"].values(), *datasets["questions"]["files"].values()} <= sources
    assert json.loads(the("report.py").after("--config")[0])["corpora"]["encyclopedia-demo"] == corpus


def test_the_path_of_ones_own_corpus_reaches_its_programs_as_it_is(recorded: Workflow, tmp_path: Path):
    own = tmp_path / f"own {POISON.replace('/', '')}"
    (own / "qrels").mkdir(parents=True)
    ids = range(12)
    document = (
        '{"_id": "d%d", "title": "T %d", "text": "# One\\nIt stands. It falls %d.\\n\\n# Two\\nIt goes. It comes."}\n'
    )
    (own / "corpus.jsonl").write_text("".join(document % (n, n, n) for n in ids))
    (own / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{n}", "text": f"what falls {n}"}) + "\n" for n in ids)
    )
    for split, part in (("train", ids[:8]), ("test", ids[8:])):
        rows = "".join(f"q{n}\td{n}\t1\n" for n in part)
        (own / f"qrels/{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    config = read_config(recorded.folder / "config.yaml", code_folder=recorded.folder)
    config["my_corpus"] = str(own)
    config["my_corpus_options"] |= {"objectives": ["bert"], "seeds": [1]}
    shutil.copy(PROJECT / "resources/sources.tsv", recorded.folder / "resources")
    (recorded.folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    calls = run_recorded(recorded, tmp_path / "calls", "my_corpus_report")
    assert canaries(recorded.folder, tmp_path) == []
    (table,) = [call for call in calls if call.program == "my_corpus_table.py"]
    assert json.loads(table.after("--request")[0])["folder"] == str(own)
    (export,) = [call for call in calls if call.program == "my_corpus_export.py"]
    assert f"my-corpus: {own}/corpus.jsonl" in export.after("--licences")
    (corpus,) = [call for call in calls if call.program == "corpus.py"]
    assert f"corpus={own}/corpus.jsonl" in corpus.after("--part")


# ----------------------------------------------------------------------------------------------- which values those are

#: Places of the configuration that take any text (``*``: any name, ``#``: any item). All but the last lines are given
#: poison above; those are compared with a list, or never reach a shell.
ANY_TEXT = {
    "mirror",
    "my_corpus",
    "corpora.*.files.*",
    "corpora.*.exclude",
    "corpora.*.vocabulary_file",  # as the scale's
    "corpora.*.dump",  # as files
    "corpora.*.leads",
    "scales.*.vocabulary_file",
    "datasets.*.files.*",
    "encoders.*.start",
    # Options of objects that the schema leaves open reach programs as JSON, in one word; so do texts for readers.
    "descriptions.*",
    "datasets.*.reader_options.*",
    # Compared with the recipes and objectives where there is a corpus of one's own.
    "my_corpus_options.recipe",
    "my_corpus_options.objectives.#",
    # Laid over the scale and the encoders, whose values are given poison above; the place of a file goes through quoting.
    "my_corpus_options.start",
    "my_corpus_options.scale.*",
    "my_corpus_options.scale.vocabulary_file",
    "my_corpus_options.timetable",
}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from leaves(part, (*path, key))
    if isinstance(value, str):
        yield path, value


def general(path: tuple) -> str:
    """``corpora.small.files.text`` → ``corpora.*.files.*``"""
    parts = ["#" if isinstance(part, int) else str(part) for part in path]
    if parts[0] in ("corpora", "datasets", "descriptions", "encoders", "recipes", "scales") and len(parts) > 1:
        parts[1] = "*"
    if len(parts) > 3 and parts[2] in ("files", "reader_options"):
        parts[3:] = ["*"]
    return ".".join(parts)


def with_value(config: dict[str, Any], path: tuple, value: str) -> dict[str, Any]:
    changed = copy.deepcopy(config)
    place = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return changed


def test_any_other_text_is_refused(untouched: Workflow, monkeypatch):
    """Poison in every other value of the project's own configuration, one for each kind of place, is a ConfigError."""
    monkeypatch.chdir(PROJECT)
    config = read_config(Path("config.yaml"))
    tables = [f"{file.parent.name}/{file.stem}" for file in Path("references").glob("*/*.csv")]
    check_config(config, tables)
    scale = config["scale"]
    passed, seen = set(), set()
    for path, _ in leaves(config):
        kind = general(path)
        # Of scales the one that is in use is checked.
        if kind in seen or (path[0] in ("scales", "analyses") and path[1] != scale):
            continue
        seen.add(kind)
        try:
            changed = with_value(config, path, POISON)
            check_config(changed, tables)
            Plan.load(changed)
        except PretrieveError:
            continue
        passed.add(kind)
    assert len(seen) > 40
    assert passed <= ANY_TEXT, f"these take any text, and no test says that a shell does: {sorted(passed - ANY_TEXT)}"


@pytest.mark.parametrize(
    "path",
    [
        ("my_corpus",),
        ("corpora", "encyclopedia-demo", "dump"),
        ("datasets", "questions", "files", "train"),
        ("encoders", "base", "start"),
        ("scales", "demo", "vocabulary_file"),
    ],
)
def test_braces_of_a_path_are_refused(path):
    """Snakemake would look for a wildcard between them."""
    config = project_config()
    with pytest.raises(PretrieveError, match=rf"config: {'.'.join(path)}: 'a/{{x}}.json' has a brace"):
        check_config(with_value(config, path, "a/{x}.json"), config["tables"])


@pytest.mark.parametrize("kind", ["scales", "corpora", "datasets", "encoders", "recipes"])
@pytest.mark.parametrize("name", ["a b", "a;touch canary-5", "$(touch canary-6)", "../up", "name\n", "-n", ""])
def test_names_are_plain(kind, name):
    config = project_config()
    some = next(iter(config[kind].values()))
    config[kind][name] = some
    with pytest.raises(PretrieveError, match="names become parts of paths and commands"):
        check_config(config, config["tables"])


def make(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, env=environment() | variables)


def test_values_of_make_are_words(tmp_path: Path):
    """``make fetch MIRROR=…`` and the others hand on one word, whatever is in it (a line break ends a recipe line)."""
    value = POISON.replace("\n", " ").replace("$", "$$").replace("#", "")
    makefile = PROJECT / "Makefile"
    script = tmp_path / "Makefile"
    script.write_text(makefile.read_text().split(".PHONY")[0] + "\nshow:\n\t@printf '%s\\n' $(call quoted,$(VALUE))\n")
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/requirements.lock").touch()
    shown = make(tmp_path, "show", f"VALUE={value}", HOME=str(tmp_path))
    assert shown.stdout == value.replace("$$", "$") + "\n", shown.stderr
    assert canaries(tmp_path) == []


def test_the_folder_of_a_checkout_is_a_word(tmp_path: Path):
    folder = tmp_path / "a';touch$IFS-canary;`id`;\"&|$HOME x"
    (folder / "envs").mkdir(parents=True)
    (folder / "envs/requirements.lock").touch()
    makefile = (PROJECT / "Makefile").read_text().split(".PHONY")[0]
    (folder / "Makefile").write_text(
        f"{makefile}\nshow:\n\t@$(SURROUNDINGS) printenv PATH XDG_CACHE_HOME XDG_CONFIG_HOME\n"
    )
    shown = make(folder, "show", HOME="/dev/null", XDG_CONFIG_HOME="")
    path, cache, settings = shown.stdout.splitlines()
    assert path.startswith(f"{folder}/.venv/bin:"), shown.stderr
    assert (cache, settings) == (f"{folder}/.snakemake/cache", f"{folder}/.snakemake/config")
    assert canaries(tmp_path) == []


VALUES = {
    "tables": ["SCALE", "MIRROR", "SEEDS", "ONLY"],
    "status": ["SCALE"],
    "fetch": ["TABLE", "SCALE", "MIRROR"],
    "estimate": ["TABLE", "SCALE", "GPUS", "GPU", "RATES", "MIRROR", "SEEDS", "ONLY"],
    "bundle": ["TABLE", "SCALE", "MIRROR", "SEEDS", "ONLY", "LIMIT", "OUT"],
    "unbundle": ["FILE"],
    "report": ["SCALE", "MIRROR", "SEEDS"],
    "my-corpus": ["SCALE", "DIR", "MINUTES"],
    "evaluate": ["MODEL", "TASKS", "OUT"],
    "compare": ["SCALE", "PUBLISHED"],
    "publish": ["SCALE", "MIRROR", "SEEDS", "ONLY", "TABLES"],
    "lock": ["UPGRADE"],
    "clean": ["SCALE"],
}


@pytest.mark.parametrize(("goal", "name"), [(goal, name) for goal, names in VALUES.items() for name in names])
def test_every_value_of_every_goal_is_a_word(goal, name):
    value = "a';touch$IFS-canary;`id`;\"&|x"
    told = make(PROJECT, "-n", goal, f"{name}={value.replace('$', '$$')}")
    assert told.returncode == 0, told.stderr
    as_yaml = value.replace("'", "''")  # of a folder: see the next test
    assert any(value in word or word.endswith(f"= '{as_yaml}' ") for word in shlex.split(told.stdout)), told.stdout


@pytest.mark.parametrize("name", ["notes #2", "2024", 'it\'s: [a], "b" \\ é', "'a'", "~", "- x"])
def test_a_folder_of_any_name_is_that_folder(name):
    """Snakemake reads the words of --config as YAML, without the quotes at their ends; so do programs beside it."""
    told = make(PROJECT, "-n", "my-corpus", f"DIR={name}", f"MIRROR={name}")
    assert told.returncode == 0, told.stderr
    for line in told.stdout.splitlines()[-2:]:
        words = [word for word in shlex.split(line) if word.startswith(("my_corpus=", "mirror="))]
        for read in (parse_config(words), read_config(words=words)):
            assert (read["my_corpus"], read["mirror"]) == (name, name), line


@pytest.mark.parametrize("word", ["seeds=[1", "mirror=a: b: c", "mirror=[a]/b", "seeds="])
def test_a_word_that_is_no_yaml_is_a_text_as_for_snakemake(word):
    key = word.partition("=")[0]
    assert read_config(words=[word]).get(key) == parse_config([word])[key]


def test_all_values_of_the_makefile_are_looked_at():
    makefile = PROJECT.joinpath("Makefile").read_text()
    recipes = makefile.partition(".DEFAULT_GOAL")[2]
    names = set(re.findall(r"\$\(([A-Z]+)\)", recipes)) | {"SCALE"}
    own = {
        "STAMP",
        "LOCKS",
        "VENV",
        "BIN",
        "PATHS",
        "PYTHON",
        "PIP",
        "SNAKEMAKE",
        "RUN",
        "CURDIR",
        "SCALED",
        "SETTINGS",
        "COMPARED",
        "DRY",
        "CHECK",
    }
    assert names - own == {name for names in VALUES.values() for name in names}


@pytest.mark.parametrize("scale", ["../..", ".", "", "a/b"])
def test_clean_removes_the_folder_of_a_scale_and_nothing_else(scale, tmp_path):
    makefile = PROJECT / "Makefile"
    shutil.copy(makefile, tmp_path)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/requirements.lock").touch()
    (tmp_path / "results/demo").mkdir(parents=True)
    ended = make(tmp_path, "clean", f"SCALE={scale}")
    assert ended.returncode != 0 and f"SCALE={scale} is no name of a scale" in ended.stdout
    assert (tmp_path / "results/demo").is_dir()


def test_clean_leaves_what_a_user_put_into_data(tmp_path):
    """Where docs/add-a-method.md has raw files of one's own."""
    shutil.copy(PROJECT / "Makefile", tmp_path)
    gone = {f"{folder}/x" for folder in ("results/demo", hub.HUB, hub.SOURCES, rehearsal.FOLDER)}
    for name in {"results/small/x", "data/faq.tsv", *gone}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert make(tmp_path, "clean").returncode == 0
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == {"Makefile", "results/small/x", "data/faq.tsv"}


def test_a_linked_environment_is_not_emptied(tmp_path):
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / "envs").mkdir()
    for name in ("requirements.lock", "torch.txt"):
        (tmp_path / "envs" / name).touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/kept").touch()
    (tmp_path / ".venv").symlink_to("other")
    ended = make(tmp_path, "venv")
    assert ended.returncode != 0 and ".venv is a link to other" in ended.stdout
    assert (tmp_path / "other/kept").exists()
