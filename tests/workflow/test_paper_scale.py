"""The scale `paper`, as planned: every role is played or listed as left out, every cell of a played role is measured, shared
stages are one job, and the numbers that the papers print are the ones that jobs get. And a rehearsal of it has the same jobs.

The numbers below are read off the papers, not off config.yaml.

Seen to fail when: a role is taken out of config.yaml; a data set of SEED-Encoder's takes the scale's vocabulary; an encoder's
length is not followed; a rehearsal keeps the budgets; a tenth of MS MARCO's training queries validates what chooses nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from miniature import Workflow, copy_project

from pretrieve.base.paths import parse_system
from pretrieve.benchmarks.readers import READERS
from pretrieve.finetuning.fine_tuning import options_of_size
from pretrieve.finetuning.groups import steps_for
from pretrieve.operations.rehearsal.made import FORMS
from pretrieve.reporting.tables.results import Setting
from pretrieve.tasks.splits import share_of
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import encoder_options, recipe_options
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.rehearsal import BATCH, FOLDER, STEPS, WIDTH, rehearsed
from pretrieve.workflow.scales import corpus_of, vocabulary_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/paper-scale.md"
#: Encoders that are played with another vocabulary than the data set of a cell (docs/paper-scale.md).
OTHER_VOCABULARY = {"base", "seed-3-2"}
#: Recipe, data set, and what the paper says of it.
RECIPES: list[tuple[str, str, dict[str, Any]]] = [
    # pretraining_tasks §4.1 and table 5
    ("reqa", "squad-reqa", {"batch": 512, "steps": 2000, "learning_rate": 5e-5, "dim": 512}),
    ("reqa", "nq-reqa", {"query_length": 64, "passage_length": 288, "similarity": "dot", "temperature": 1.0}),
    ("reqa-quarter", "nq-reqa", {"dim": 128}),
    # dual_encoders §4
    (
        "dual-t5-ade-spl",
        "msmarco-answers",
        {"batch": 512, "steps": 20_000, "learning_rate": 1e-3, "sharing": "ade-spl"},
    ),
    ("dual-t5-sde", "multireqa-nq-train", {"similarity": "cosine", "optimiser": "adafactor", "sharing": "sde"}),
    # condenser A.1, A.2, A.3
    ("dpr-bm25", "msmarco-titled", {"batch": 8, "group": 8, "epochs": 3, "learning_rate": 5e-6}),
    ("dpr-bm25", "nq-open", {"batch": 128, "group": 2, "epochs": 40, "learning_rate": 1e-5}),
    ("sts", "sts-b", {"epochs": 4, "learning_rate": 2e-5}),
    ("sections", "wiki-sections", {"epochs": 1, "learning_rate": 2e-5}),
    # seed_encoder §4.3, A.2
    ("seed-pairwise", "msmarco-untitled", {"pool": 100, "negatives": ["bm25"]}),
    ("ance", "msmarco-document-ance", {"passage_length": 512, "start": "seed-pairwise"}),
    ("glue", "glue-mnli", {"classes": 3, "epochs": 3}),
    ("glue", "glue-qqp", {"classes": 2}),
    # dupmae §4, table 3
    ("dupmae-2stage", "msmarco-titled", {"cls_dim": 384, "top": 384}),
    ("dupmae-2stage-equal-storage", "msmarco-titled", {"cls_dim": 384, "top": 260}),
]


def plan_of(**changes: Any) -> Plan:
    config = read_config(ROOT / "config.yaml") | {"scale": "paper"} | changes
    return Plan.load(config, ROOT / "references", ROOT / "resources/sources.tsv")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of()


@pytest.fixture(scope="module")
def rehearsal() -> Plan:
    return plan_of(rehearsal=1)


@pytest.mark.parametrize(("recipe", "steps"), [("seed-pairwise", 90_000), ("seed-pairwise-long", 144_000)])
def test_seed_encoders_steps_are_not_cut_by_epochs(plan, recipe, steps) -> None:
    """run_warmup.py counts two epochs of 35 million triples; 90,000 steps of 256 are far fewer, but many passes over the
    questions."""
    for dataset in ("msmarco-untitled", "msmarco-document-ance"):
        assert steps_for(280_000, recipe_options(plan.config, recipe, dataset)) == steps


def test_trec_dl_counts_grades_of_2_and_more_as_relevant(plan) -> None:
    """For all but nDCG: trec_eval -l 2, as its overviews report MRR and recall of passages."""
    for dataset in ("dl19-titled", "dl20-titled"):
        assert plan.metrics_of(dataset) == ["ndcg@10", "recall@1000-l2"]


def paper_tables(plan: Plan) -> list[str]:
    return [name for name in plan.config["tables"] if not name.startswith("pretrieve/")]


def listed(heading: str) -> set[str]:
    """What stands in backticks in the first column of the first table below a line of docs/paper-scale.md."""
    below = PAGE.read_text(encoding="utf-8").partition(heading)[2].split("\n\n")[1]
    return {name for line in below.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


def test_every_role_is_played_or_listed_as_left_out(plan) -> None:
    roles = {
        (cell["paper"], cell["dataset"]) for name in paper_tables(plan) for cell in plan.cells[name] if cell["dataset"]
    }
    roles |= {
        (one.paper, measure.role)
        for one in plan.figures.values()
        for _, series in one.all_series()
        for measure in series.measures()
    }
    left_out = {role for paper, role in roles if plan.dataset_of(role, paper) is None}
    assert len(paper_tables(plan)) == 29 and len(roles) == 57
    assert left_out == listed("Roles without a data set")


def test_a_cell_of_a_played_role_is_measured_or_its_encoder_reads_other_words(plan) -> None:
    for name in paper_tables(plan):
        paper = name.split("/")[0]
        setting = Setting.of(json.loads(json.dumps(plan.setting(paper))))
        played = [cell for cell in plan.cells[name] if cell["system"] and cell["dataset"] in setting.roles]
        not_run = [cell for cell in played if plan.measured(cell) is None]
        assert {parse_system(cell["system"]).encoder for cell in not_run} <= OTHER_VOCABULARY, name
        assert bool(played) == bool(plan.table_inputs(*name.split("/"))), name
    unlisted = {encoder for encoder in OTHER_VOCABULARY if encoder not in listed("Cells of a role with a data set")}
    assert not unlisted


def test_the_numbers_of_the_papers(plan) -> None:
    def encoder(name: str) -> tuple:
        made = encoder_options(plan.config, name).to_dict()
        budget, objective, body = made.get("budget", {}), made["objective"], made["body"]
        return (
            made.get("start", "").removeprefix("hub:").partition("@")[0],
            objective["name"],
            *(budget.get(key) for key in ("batch", "steps", "learning_rate")),
            objective.get("length"),
            corpus_of(plan.config, name),
            body["vocabulary_size"],
            body.get("layers"),
        )

    both, bert = "wikipedia-bookcorpus", "google-bert/bert-base-uncased"
    assert encoder("transformer-ict-bfs-wlp") == ("", "pairs", 8192, 100_000, 1e-4, None, "wikipedia", 30522, 12)
    assert encoder("shallow-ict")[-1] == 4
    assert encoder("seed-3-2") == ("", "seed-encoder", 256, 1_000_000, 1e-4, 512, f"{both}-seed", 32768, 12)
    assert encoder("seed-mlm")[2:] == encoder("seed-3-2")[2:] == encoder("optimus")[2:], "compared on equal footing"
    assert encoder("bert") == (bert, "none", None, None, None, None, both, 30522, 12)
    assert encoder("condenser")[:3] == (bert, "condenser", 1024) and encoder("condenser")[4:7] == (1e-4, 128, both)
    assert encoder("dupmae-general")[:3] == (bert, "dupmae", 256) and encoder("dupmae-general")[5:7] == (512, both)
    assert encoder("dupmae")[0] == "dupmae-general" and encoder("dupmae")[5:7] == (150, "msmarco-passages")
    assert encoder("dupmae")[2:] == encoder("retromae")[2:] == encoder("dupmae-cls")[2:]
    assert encoder("t5-large")[:2] == ("google/t5-v1_1-large", "none")
    seed = encoder_options(plan.config, "seed-3-2").objective
    assert (seed["decoder_layers"], seed["span"], seed["rate"]) == (3, 2, 0.15)
    condenser = encoder_options(plan.config, "condenser").objective
    assert (condenser["skip_layer"], condenser["head_layers"], condenser["late_mlm"]) == (6, 2, True)
    retromae = encoder_options(plan.config, "retromae-general").objective
    assert (retromae["rate"], retromae["decoder_rate"]) == (0.3, 0.5)

    for name, dataset, expected in RECIPES:
        made = recipe_options(plan.config, name, dataset)
        assert {key: made[key] for key in expected} == expected, f"{name} on {dataset}"


def test_each_encoder_has_negatives_of_its_own(plan) -> None:
    assert {(f"{name}.dpr-bm25", "msmarco-titled") for name in ("bert", "condenser")} <= plan.mined


def test_seed_encoder_has_fairseqs_epsilon(plan) -> None:
    """1e-5 in every encoder of that paper that is trained here, decoder included: it is made of the body's configuration."""
    for name, eps in (("seed-mlm", 1e-5), ("seed-3-2", 1e-5), ("optimus", 1e-5), ("transformer-mlm", None)):
        assert encoder_options(plan.config, name).body.get("layer_norm_eps") == eps, name


def test_only_what_is_chosen_by_validation_holds_queries_out(plan) -> None:
    """Of the training sets in official layouts, MS MARCO's and DPR's: a query is held out where ``few_epochs`` or ``snapshots``
    are chosen by it, and nowhere else."""
    seen = set()
    for (family, dataset), sizes in plan.asked_sizes.items():
        options = plan.config["datasets"][dataset]
        if not READERS[options["reader"]].collection:
            continue
        for size in sizes:
            made = options_of_size(recipe_options(plan.config, family.partition(".")[2], dataset), size, ())
            chosen = isinstance(made["epochs"], list) or made["snapshots"] > 0
            assert share_of(options["valid_share"], size) == (0.1 if chosen else 0), f"{family} on {dataset}, {size}"
            seen.add((dataset, size, chosen))
        assert options.get("dev_share") == 0 or {"dev", "test"} <= options["files"].keys(), dataset
    assert {("msmarco-titled", "1k", True), ("msmarco-titled", "full", False), ("nq-open", "1k", False)} <= seen
    assert {("msmarco-untitled", size, False) for size in ("label10", "label25", "label50", "full")} <= seen


def test_data_sets_are_the_papers(plan) -> None:
    """dual_encoders §4: "the answer candidates are individual sentences"; pretraining_tasks §4.4: "1M candidate pairs" are added;
    seed_encoder table 6 counts all 101,093 dev queries."""
    datasets = plan.config["datasets"]
    multireqa = [options for options in datasets.values() if options["reader"] == "multireqa"]
    assert len(multireqa) == 10 and all(options["reader_options"]["context"] is False for options in multireqa)
    opened = datasets["nq-reqa-open"]
    assert (opened["open"], opened["max_extra"]) == ("sentences", 1_000_000)
    counted = datasets[plan.dataset_of("msmarco-passage", "seed_encoder")]["files"]
    assert (counted["dev_queries"], counted["dev_qrels"]) == ("msmarco-queries-dev", "msmarco-qrels-dev")


def test_one_vocabulary_for_every_chain(plan) -> None:
    """What is measured is read with the words that it was written with; SEED-Encoder and T5 have words of their own."""
    assert vocabulary_of(plan.config, "wikipedia-bookcorpus").file == "bert-vocabulary"
    assert vocabulary_of(plan.config, "wikipedia-bookcorpus-seed").file == ""
    others = plan.setting("seed_encoder")["vocabularies"]
    assert {name for name in others if name.startswith("encoders.t5")} == {
        f"encoders.t5-{size}" for size in ("small", "base", "large")
    }
    assert all(
        others[f"encoders.{name}"] == "trained on wikipedia-bookcorpus-seed"
        for name in ("seed-mlm", "optimus", "seed-3-2")
    )
    assert plan.dataset_of("msmarco-passage-dev", "seed_encoder") == "msmarco-untitled"
    assert plan.dataset_of("msmarco-passage-dev", "condenser") == "msmarco-titled"


def files_of(plan: Plan, tables: Iterable[str]) -> list[str]:
    names = {file for name in tables for file in plan.table_sources(*name.split("/"))}
    of_file = {plan.source_file(name): name for name in plan.sources}
    return sorted(of_file[file] for file in names)


def test_only_official_files_are_read(plan) -> None:
    """Every file is a line of resources/sources.tsv that its publisher offers, or a member of an archive that is."""
    for name in files_of(plan, paper_tables(plan)):
        source = plan.sources[name]
        assert source["url"] or plan.sources[source["archive"]]["url"], name


# ------------------------------------------------------------------------------------------------------------- rehearsal


def test_a_rehearsal_has_every_file_of_every_table(plan, rehearsal) -> None:
    for name in plan.config["tables"]:
        real = [
            file.replace("results/paper/", "results/paper-rehearsal/") for file in plan.table_inputs(*name.split("/"))
        ]
        assert rehearsal.table_inputs(*name.split("/")) == real
    assert rehearsal.trained_sizes.keys() == plan.trained_sizes.keys()
    assert files_of(rehearsal, plan.config["tables"]) == files_of(plan, plan.config["tables"])


def test_a_rehearsal_is_small_and_stands_apart(plan, rehearsal) -> None:
    for name in rehearsal.config["encoders"]:
        made, real = (encoder_options(one.config, name).to_dict() for one in (rehearsal, plan))
        assert made.get("budget", {"batch": BATCH, "steps": STEPS}).items() >= {"batch": BATCH, "steps": STEPS}.items()
        assert made["body"].get("layers") == real["body"].get("layers") and made["body"].get("hidden", WIDTH) == WIDTH
        assert made["objective"].get("length", 48) <= 48 and set(made["objective"]) == set(real["objective"])
    for name in rehearsal.config["recipes"]:
        for dataset in rehearsal.tasks:
            made = recipe_options(rehearsal.config, name, dataset)
            assert made["batch"] <= BATCH and made["steps"] <= STEPS and made.get("group", 1) <= 2
    assert all(start.startswith("hub:rehearsal/") for start in rehearsal.checkpoints.values())
    assert len(rehearsal.checkpoints) == len(plan.checkpoints) == 5
    assert all(file.startswith(f"{FOLDER}/") for file in rehearsal.table_sources("condenser", "table5"))
    assert rehearsal.setting()["scale"] == "paper-rehearsal", "its numbers are compared with nothing"
    assert rehearsed(rehearsal.config) == rehearsal.config and rehearsed(plan.config) is plan.config


def test_every_source_has_a_made_file(rehearsal) -> None:
    assert [name for name in files_of(rehearsal, rehearsal.config["tables"]) if name not in FORMS] == []


# --------------------------------------------------------------------------------------------------------- with Snakemake


@pytest.fixture
def cold_project(tmp_path: Path) -> Iterator[Workflow]:
    """A copy of the project in which something may be run."""
    yield copy_project(tmp_path / "project")
    shutil.rmtree(tmp_path / "project")


def test_the_whole_graph_builds_and_shares_its_stages(project, plan) -> None:
    ended = project.plan("--config", "scale=paper", "seeds=[1,2]")
    asked = {
        parse_system(cell["system"]).encoder
        for rows in plan.cells.values()
        for cell in rows
        if plan.measured(cell) and cell["system"] != "statistics"
    }
    jobs = ended.jobs
    assert jobs["table"] == 33 and jobs["figure"] == 9
    wanted, waiting = (
        set(),
        [*asked - {"bm25"}, *(e for a in plan.config["analyses"]["paper"].values() for e in a["encoders"])],
    )
    waiting += [
        parse_system(m.system).encoder for f in plan.figures.values() for _, s in f.all_series() for m in s.measures()
    ]
    while waiting:
        name = waiting.pop()
        if name in plan.config["encoders"] and name not in wanted:
            wanted.add(name)
            waiting.append(plan.config["encoders"][name].get("start", ""))
    assert jobs["pretrain"] == 2 * len(wanted - {"base"}), "each encoder once for each seed"
    for stage in ("token_store", "vocabulary", "corpus"):
        assert jobs[stage] <= len(plan.config["corpora"]), stage
    assert 0 < jobs["collection"] < jobs["task"] + jobs["task_with_answers"]
    assert jobs["bm25_msmarco_titled"] == 1 and jobs["fetch_checkpoint"] == len(plan.checkpoints)
    assert 100 < jobs["fetch"] <= len(plan.sources)


def test_a_rehearsal_runs_from_made_files_to_a_score(cold_project) -> None:
    target = "results/paper-rehearsal/metrics/bert.sts-500/sts-b/seed1.json"
    ended = cold_project.run("--cores", "2", target, "--config", "scale=paper", "rehearsal=1")
    assert ended.code == 0, ended.text
    assert (
        ended.count("fetch") == 8
        and ended.count("pretrain") == ended.count("finetune") == 1
        and not ended.count("predict")
    )
    assert -1 <= json.loads((cold_project.folder / target).read_text(encoding="utf-8"))["metrics"]["spearman"] <= 1
    assert not (cold_project.folder / "data/sources").exists() and not (cold_project.folder / "results/paper").exists()
    said = (cold_project.folder / "results/paper-rehearsal/logs/fetch/stsb/stsb-en-train.csv.log").read_text(
        encoding="utf-8"
    )
    assert "made up for a rehearsal, not the publisher's" in said
