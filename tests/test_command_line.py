"""The program ``pretrieve``, its commands, and the workflow's thin scripts.

Seen to fail when: a command is not in the list, or has no module; a script imports the list of commands; a rule names a
script that is not there; the list imports what it lists; a wrong value is passed over, or ends in a traceback.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from pretrieve.__main__ import COMMANDS, main, overview
from pretrieve.base.arguments import json_object, named_values
from pretrieve.base.errors import ConfigError
from pretrieve.base.program import module_of, run_command
from pretrieve.workflow.stage_code import file_of, stage_sources

ROOT = Path(__file__).resolve().parents[1]
MODULES = {file.stem for file in (ROOT / "src/pretrieve/commands").glob("*.py")} - {"__init__"}
SCRIPTS = {file.stem for file in (ROOT / "workflow_scripts").glob("*.py")}


def test_every_command_is_listed_and_has_a_help(monkeypatch, capsys) -> None:
    assert {module_of(name).rpartition(".")[2] for name in COMMANDS} == MODULES and len(COMMANDS) == len(MODULES)
    for name in COMMANDS:
        monkeypatch.setattr(sys, "argv", ["pretrieve", name, "--help"])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr().out
        assert end.value.code == 0 and shown.startswith(f"usage: pretrieve {name} ") and "--log FILE" in shown
        summary = sys.modules[module_of(name)].__doc__.splitlines()[0]
        assert summary in shown and summary.endswith(".") and len(summary) < 130
        assert f"\n  {name} " in overview()


def test_a_name_that_is_no_command(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrieve", "retreive"])
    with pytest.raises(SystemExit, match="'retreive' is no command; did you mean 'retrieve'?"):
        main()


LIGHT = """
import sys
from pretrieve.__main__ import main
sys.argv = ["pretrieve", *{words!r}]
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = {{"torch", "pandas", "faiss", "numba", "matplotlib", "ranx"}} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["table", "--help"], ["status", "--help"]])
def test_only_the_command_is_imported(program, words: list[str]) -> None:
    done = program("-c", LIGHT.format(words=words))
    assert done.returncode == 0 and done.stdout, done.stderr


def test_a_script_of_a_rule_is_its_command_alone() -> None:
    for name in SCRIPTS:
        assert f'run_command("{name.replace("_", "-")}")' in (ROOT / f"workflow_scripts/{name}.py").read_text()
        assert file_of(f"{name}.py") == ROOT / f"src/pretrieve/commands/{name}.py"
        modules = stage_sources(f"{name}.py")
        assert not [module for module in modules if module.startswith(("pretrieve.commands", "pretrieve.__main__"))], (
            name
        )


def test_every_rule_has_a_script_and_every_script_a_rule() -> None:
    text = "".join(file.read_text() for file in (ROOT / "rules").glob("*.smk"))
    # Which of them a rule runs is a parameter, or depends on whether it is a rehearsal.
    chosen = {"retrieve", "predict", "fetch", "fetch_checkpoint", "make_rehearsal_data"}
    assert all(f'"{name}"' in text for name in chosen - {"retrieve", "predict"})
    assert set(re.findall(r"\{SCRIPTS\}/(\w+)\.py", text)) | chosen == SCRIPTS <= MODULES


def test_one_process_runs_two_commands(program, tmp_path: Path) -> None:
    """What the second is asked is checked before the first begins."""
    titles = tmp_path / "corpus.jsonl"
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("One text. It has two sentences.\n")
    first = ("-m", "pretrieve", "make-corpus", str(tmp_path / "texts"), "--out", str(titles), "--then")
    wrong = program(*first, "make_corpus", str(tmp_path / "texts"), "--outt", "x")
    assert wrong.returncode == 2 and "--out" in wrong.stderr and not titles.exists()
    both = program(*first, "make_corpus", str(tmp_path / "texts"), "--out", str(tmp_path / "again.jsonl"))
    assert both.returncode == 0, both.stderr
    assert (tmp_path / "again.jsonl").read_bytes() == titles.read_bytes()


def test_a_table_named_twice_counts_once(program) -> None:
    for tables in (["condenser/table5"], ["condenser/table5"] * 2):
        ended = program("-m", "pretrieve", "status", "--results", "results/demo", "--tables", *tables)
        assert ended.stdout.count("condenser/table5") == 1, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("check_config missing.yaml", "missing.yaml: no such file"),
        ("status --results results/dmo", "results/dmo: no such folder; expected a scale's, such as results/demo"),
        ("status --results results/published/2026-01-02.2-small-0123abc", "a published copy; expected the folder of a"),
        (
            "status --results results/demo --tables condenser/tabl5",
            "condenser/tabl5: no such table of the configuration",
        ),
        ("publish --date 1.2.2026", "argument --date: found '1.2.2026'; expected a day, as 2026-01-31"),
        ("publish --scale dmo", "scale: 'dmo' is not allowed; allowed: demo, paper, small; did you mean 'demo'?"),
        ("make_corpus . --documents section --out corpus.jsonl", "invalid choice: 'section'"),
        ("make_corpus . --out corpus.jsonl.gz", "--out corpus.jsonl.gz: expected a name that ends in .jsonl"),
        ("make_corpus . --out ./corpus.jsonl", "--out corpus.jsonl: is what would be read; remove or rename it"),
        ("bundle --limit nan", "--limit nan --cores 1: expected a number of MiB above 0"),
        (
            "estimate --config seeds=[1] scale=small",
            "'scale=small': expected no scale here; --scale or the file names it",
        ),
        (
            "overlap --corpus c --test t --out o.json --share 5",
            "share 5: expected a share of a paragraph's 8-grams, above",
        ),
        ("report_time --results r --elapsed -5", "--elapsed is -5; expected the run's wall seconds, above 0"),
        ("bundle --cores 0", "--cores 0: expected a number of MiB above 0, and 1 core or more"),
        ("bm25 --runs a.trec.gz --outputs ./a.trec.gz", "/a.trec.gz is a run, which would be overwritten; expected"),
        ("bm25 --depth 0", "--depth is 0, --mining-depth 200; expected 1 or more of each"),
        ("bm25 --mining-depth -1", "--depth is 100, --mining-depth -1; expected 1 or more of each"),
        ("bm25 --negatives n.jsonl", "'n.jsonl' does not end in .jsonl.gz; expected NAME.jsonl.gz"),
        ("retrieve --runs a.trec", "'a.trec' does not end in .trec.gz; expected NAME.trec.gz"),
        ("retrieve --depth 0", "argument --depth: found '0'; expected a whole number, 1 or more"),
        ("retrieve --mining-depth -1", "argument --mining-depth: found '-1'; expected a whole number"),
        (
            'retrieve --options {"query_length":9}',
            "--options: passage_length is missing; expected how many tokens are read",
        ),
        ("mine --depth 0", "argument --depth: found '0'; expected a whole number, 1 or more"),
        ("retrieve --threads 0", "argument --threads: found '0'; expected a whole number, 1 or more"),
        ('mine --options {"query_length":"9"}', "--options: query_length is '9'; expected how many tokens are read"),
        ('predict --options {"query_length":2}', "--options: query_length is 2; expected how many tokens are read"),
        ("evaluate_model --out a.md", "'a.md' does not end in .json; expected NAME.json"),
        ("task descriptions", "descriptions: is made of a corpus or open to one, and none is given"),
        ('task squad --files file=f --options {"open":true}', "squad: is made of a corpus or open to one, and none is"),
        (
            'task collection --files collection=c --options {"max_documents":"3"}',
            "max_documents is '3'; expected a whole",
        ),
        (
            'task collection --files collection=c --options {"titel":"none"}',
            "no option 'titel'; it has title, max_documents, test, valid_share, dev_share; did you mean 'title'?",
        ),
        ("task collection --tokenizer damaged.json", "damaged.json: not a tokenizer.json"),
    ],
)
def test_wrong_values_are_said(words: str, said: str, monkeypatch, capsys, tmp_path: Path, vocabulary) -> None:
    monkeypatch.chdir(tmp_path)
    vocabulary.save("tokenizer.json")
    Path("damaged.json").write_text("[]", encoding="utf-8")
    Path("corpus.jsonl").write_text('{"_id": "1", "text": "x"}\n', encoding="utf-8")
    scored = "--task t --sizes full --outputs o --metrics mrr"
    required = {
        "retrieve": f'{scored} --runs r.trec.gz --retrievers d --stores s --options {{"query_length":9,"passage_length":9}}',
        "bm25": f"{scored} --runs r --index-dir i --costs c --negatives n.jsonl.gz",
        "task": "--sizes full=all --tokenizer tokenizer.json --out t",
    }
    name, *given = words.split()
    with pytest.raises(SystemExit):
        run_command(name, [*required.get(name, "").split(), *given])
    assert said in " ".join(capsys.readouterr().err.split())


def test_forms_of_values() -> None:
    assert named_values(["train=a=b.tsv", "dev=c"], "--files") == {"train": "a=b.tsv", "dev": "c"}
    for entries in (["train"], ["=a"], ["train="]):
        with pytest.raises(ConfigError, match=r"--files: .* is not NAME=VALUE"):
            named_values(entries, "--files")
    with pytest.raises(ConfigError, match="'train' is given twice, as a and b; give each name once"):
        named_values(["train=a", "train=b"], "--files")
    for text, said in (("[1]", "is list; expected a JSON object"), ("{", "is not JSON")):
        with pytest.raises(ArgumentTypeError, match=said):
            json_object(text)
