"""Dry runs of the real configuration: what is planned, how often, and what it costs to find out.

Mutations seen to fail: `Plan.trained_on` returning the data set itself (more fine-tuning jobs); BM25 with the seeds of the
others; `import torch` at the top of configuration.py; a function in tasks.smk (lint).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from miniature import PROJECT, READERS_OF_TABLES, environment

from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.rule_data import DataRules
from pretrieve.workflow.rule_models import ModelRules

TABLE3 = ("tables=[pretraining_tasks/table3]", "figures=[]")
#: The tables of one paper, and that of the project's own.
ONE_PAPER = (
    "tables=[" + ",".join([f"pretraining_tasks/table{n}" for n in range(1, 7)] + ["pretrieve/transfer"]) + "]",
)
#: Work that a second seed adds nothing to.
UNSEEDED = (
    "fetch",
    "corpus",
    "vocabulary",
    "token_store",
    "task",
    "task_with_answers",
    "example_task",
    "bm25",
    "pair_statistics",
)
#: Jobs that look at all seeds together.
OVER_SEEDS = ("table", "figure", "analyse")


@pytest.fixture(scope="module")
def everything(dry_run):
    return dry_run()


@pytest.fixture(scope="module")
def one_paper(project):
    return project.plan("--config", *ONE_PAPER, "figures=[]")


@pytest.fixture(scope="module")
def table3(project):
    return project.plan("--config", *TABLE3)


def test_table_3_needs_five_encoders_and_one_task(table3):
    assert table3.jobs == {
        "fetch": 2,
        "corpus": 1,
        "vocabulary": 1,
        "token_store": 1,
        "task_with_answers": 1,
        "bm25_questions": 1,
        "pretrain": 5,
        "finetune_questions": 5,
        "table": 1,
    }


def test_the_default_target_is_every_table_and_figure_of_five_papers(project, everything):
    config = read_config(project.folder / "config.yaml", code_folder=project.folder)
    references = project.folder / "references"
    assert everything.jobs["table"] == len(list(references.glob("*/table*.csv"))) + 4 == len(config["tables"]) == 33
    # One more is our own, and made by name.
    assert everything.jobs["figure"] == len(list(references.glob("*/figure*.yaml"))) - 1 == 9
    # An encoder is trained once, whichever tables use it. coCondenser came after the five papers: no table of theirs has it, and
    # none has ICT from the shared start. minilm has another vocabulary than the demo.
    assert everything.count("pretrain") == len(config["encoders"].keys() - {"cocondenser", "ict", "minilm"})
    assert everything.count("finetune") > 80 and sum(everything.jobs.values()) < 220


def test_all_tables_share_every_stage(one_paper, table3):
    everything = one_paper
    assert everything.jobs["table"] == 7
    assert everything.count("pretrain") == 12, "an encoder is trained once, whichever tables use it"
    assert {name: n for name, n in everything.jobs.items() if name.startswith("bm25")} == {
        "bm25_questions": 1,
        "bm25_descriptions": 1,
        "bm25_descriptions_open": 1,
        "bm25_fanoutqa": 1,
    }
    for stage in ("corpus", "vocabulary", "token_store", "task_with_answers", "pair_statistics"):
        assert everything.jobs[stage] == 1, stage
    assert everything.jobs["finetune_questions"] == table3.jobs["finetune_questions"], (
        "no other table needs more of them"
    )
    # Tasks without training questions of their own take the retrievers of another one.
    assert {name for name in everything.jobs if name.startswith("finetune")} == {
        "finetune_questions",
        "finetune_descriptions",
    }
    searched = ("descriptions_open", "fanoutqa")
    assert {name for name in everything.jobs if name.startswith("retrieve")} == {
        f"retrieve_{name}" for name in searched
    }


def test_no_job_is_planned_twice(everything):
    named = Counter(re.findall(r"^Job \d+: (.*)$", everything.text, flags=re.MULTILINE))
    assert named.pop("All is there: results/demo") == 1, "the rule that collects the others"
    assert sum(named.values()) - len(READERS_OF_TABLES) == sum(everything.jobs.values()) > 100
    assert [name for name, times in named.items() if times > 1] == []


def test_a_seed_doubles_what_is_trained_and_nothing_else(project, everything):
    both = project.plan("--config", "seeds=[1,2]")
    assert both.jobs.keys() == everything.jobs.keys()
    for name, count in everything.jobs.items():
        if name.startswith((*UNSEEDED, *OVER_SEEDS)):
            assert both.jobs[name] == count, name
        else:
            assert both.jobs[name] == 2 * count, name


def test_one_cell_can_be_asked_for(project):
    ended = project.plan("results/demo/metrics/bow-mlp-none.reqa-80pct/questions/seed1.json")
    assert ended.count("pretrain") == ended.count("finetune") == 1
    assert not ended.count("retrieve") and not ended.count("bm25") and not ended.count("table")


def test_analyses_are_one_job_each_over_all_their_models(project):
    ended = project.plan("analyses", "--config", "seeds=[1,2]")
    made = {name: number for name, number in ended.jobs.items() if name.startswith("analyse_")}
    assert made == {
        f"analyse_{name}": 1 for name in ("attention_entropy", "pair_similarity", "decoder_states", "cls_use")
    }
    named = read_config(project.folder / "config.yaml", code_folder=project.folder)["analyses"]["demo"]
    assert ended.jobs["finetune_questions"] == 2 * len(named["attention_entropy"]["encoders"])
    looked_at = {name for entry in named.values() for name in entry["encoders"]}
    assert ended.count("pretrain") >= 2 * len(looked_at) and not ended.count("table")


def test_the_graph_of_rules_names_every_stage(project):
    ended = project.run("--rulegraph")
    assert ended.code == 0
    label = dict(re.findall(r'^\s*(\d+)\[label = "(\w+)"', ended.stdout, flags=re.MULTILINE))
    label = {
        number: re.sub(r"(_(\d+pct|\d+k?|full|scored|mined))+(_together_\w+)?$", "", name)
        for number, name in label.items()
    }
    edges = {(label[a], label[b]) for a, b in re.findall(r"^\s*(\d+) -> (\d+)", ended.stdout, flags=re.MULTILINE)}
    assert {
        ("corpus", "vocabulary"),
        ("token_store", "pretrain"),
        ("pretrain", "finetune_questions"),
        ("finetune_descriptions", "retrieve_fanoutqa"),
        ("bm25_questions", "table"),
        ("pair_statistics", "table"),
    } <= edges
    assert ("finetune_questions", "retrieve_fanoutqa") not in edges


def test_a_chain_of_recipes_is_planned_with_all_that_it_needs(project):
    """DupMAE's third stage: in-batch → mined negatives → second stage, and a teacher → third stage; each once."""
    system, where = "dupmae.dupmae-3stage-full", "questions/seed1"
    ended = project.plan(f"results/demo/retrievers/{system}/{where}/pretrieve.json")
    assert ended.jobs["finetune_questions"] == 4 and not ended.count("retrieve")
    assert "bm25_questions" not in ended.jobs and ended.count("pretrain") == 2
    hard = project.plan(f"results/demo/retrievers/bert.dpr-hard-full/{where}/pretrieve.json")
    assert (hard.jobs["finetune_questions"], hard.jobs["bm25_questions"]) == (2, 1)
    news = project.plan("results/demo/metrics/seed-3-2.news-full/link-clicks/seed1.json")
    assert news.jobs["finetune_link_clicks"] == news.jobs["example_task"] == 1 and not news.count("predict")


def test_a_recipe_with_a_dot_in_its_name_has_its_own_options():
    """``dpr-bm25.long`` was trained as ``dpr-bm25`` is."""
    entry = {"recipe": "dpr-bm25", "options": {"steps": 77, "query_length": 9}}
    config = read_config(PROJECT / "config.yaml")
    plan = Plan.load({**config, "recipes": {**config["recipes"], "dpr-bm25.long": entry}})
    models = ModelRules(plan, DataRules(plan))
    family = SimpleNamespace(family="bert.dpr-bm25.long", dataset="questions", seed=1)
    assert models.options_of("questions", family)["steps"] == 77
    assert models.length_arguments(family.family, "questions").startswith("--query-length 9 ")


def test_lint_and_format_are_clean(project):
    lint = project.run("--lint")
    assert (lint.code, "Lints for" in lint.text) == (0, False), lint.text
    formatted = subprocess.run(
        ["snakefmt", "--check", "Snakefile", "rules"],
        cwd=project.folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert formatted.returncode == 0, formatted.stderr


def test_parsing_needs_no_heavy_library(project):
    """`snakemake -n` must answer where torch, Java or faiss is missing or slow to load."""
    heavy = (
        "torch",
        "transformers",
        "tokenizers",
        "datasets",
        "faiss",
        "ranx",
        "numba",
        "pyserini",
        "jnius",
        "gensim",
        "scipy",
    )
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy!r}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Missing())
from pretrieve.workflow.config_files import read_config
from snakemake.cli import main
main(["-n", "--quiet", "rules"])
"""
    arguments = {"cwd": project.folder, "env": environment(), "capture_output": True, "text": True}
    ended = subprocess.run([sys.executable, "-c", program], **arguments)
    assert ended.returncode == 0, ended.stderr
    assert "pretrain " in ended.stdout + ended.stderr
    ours = "import sys, pretrieve.workflow.plan; print(*{name.partition('.')[0] for name in sys.modules})"
    arguments["env"] |= {"PYTHONPATH": str(PROJECT / "src")}
    loaded = subprocess.run([sys.executable, "-c", ours], **arguments).stdout.split()
    assert "jsonschema" in loaded
    assert not {*heavy, "numpy", "pandas", "pyarrow"} & set(loaded)
