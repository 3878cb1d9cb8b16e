"""The configuration: every mistake ends with one line, and a job's options hold nothing but its work.

Seen to fail when: the schema is not consulted; names are not compared with what they refer to; the nearest name is left out;
the seed or the list of tables gets into a job's options; a circle of starts is followed for ever, or a start of another shape let
through; `only` changes what jobs make, or is not looked at; an encoder's options come before the scale's; a budget is not looked
for; a metric of another kind of data set, a layer that the body has not, or options that do not go together are found by the
job alone, or by nobody; a grade is part of a cut.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pretrieve.base import paths
from pretrieve.base.errors import ConfigError, nearest
from pretrieve.evaluation import example_metrics
from pretrieve.evaluation.metrics import check_metric
from pretrieve.models.config import BodyConfig
from pretrieve.pretraining.presets import resolve
from pretrieve.references.tables import load_table
from pretrieve.reporting.tables.results import Setting
from pretrieve.workflow import configuration
from pretrieve.workflow.commands import DEFAULT_SCALE
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.configuration import check_config, config_hash
from pretrieve.workflow.job_options import (
    chain_of,
    encoder_options,
    fits,
    from_outside,
    recipe_options,
    started_from,
)
from pretrieve.workflow.plan import Plan, alternation, as_argument

ROOT = Path(__file__).parents[1]
DELETED = object()
MLM, ICT, RETROMAE = "encoders.transformer-mlm", "encoders.transformer-ict", "encoders.retromae"
BUDGETS, SCALE_OPTIONS = "scales.demo.pretraining.budgets", "scales.demo.pretraining.options"
FINETUNING = "scales.demo.finetuning"


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """Read once, and found to be right: a mistake that a test makes is the only one."""
    whole = read_config(ROOT / "config.yaml")
    load(whole)
    return whole


@pytest.fixture
def config(whole) -> dict[str, Any]:
    return copy.deepcopy(whole)


def load(config: dict[str, Any]) -> Plan:
    return Plan.load(config, ROOT / "references", ROOT / "resources/sources.tsv")


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    place = config
    for part in parents:
        place = place[part]
    if value is DELETED:
        del place[last]
    else:
        place[last] = value
    return config


def test_no_encoder_is_the_alias_of_another() -> None:
    """``--config 'encoders={bert: {...}}'`` would change both: Snakemake changes the one object that YAML made of them."""
    encoders = read_config(ROOT / "config.yaml")["encoders"]
    assert len({id(entry) for entry in encoders.values()}) == len(encoders) > 20


def test_parts_of_a_mean_share_their_retriever_and_their_conventions(config) -> None:
    """Also the parts of the means in it."""
    config["datasets"]["again"] = config["datasets"]["descriptions"] | {"trained_on": "questions"}
    sizes = {size: config["datasets"]["questions"]["sizes"][size] for size in ("1pct", "full")}
    config["datasets"]["again"]["sizes"] = config["datasets"]["descriptions"]["sizes"] = sizes
    for name in ("descriptions-open", "fanoutqa"):
        config["datasets"][name] |= {"trained_on": "questions", "sizes": sizes}
    config["scales"]["demo"]["means"] = {"all": ["again", "more"], "more": ["descriptions"]}
    with pytest.raises(ConfigError) as error:
        load(config)
    expected = "config: scales.demo.means.all: 'descriptions' has trained_on 'descriptions', 'again' has 'questions'"
    assert str(error.value).startswith(expected)
    config["datasets"]["again"] |= {"trained_on": "descriptions", "conventions": ["drop-identical-ids"]}
    with pytest.raises(ConfigError, match=r"'descriptions' has conventions \[\], 'again' has \['drop-identical-ids'\]"):
        load(config)


def test_the_repositorys_configuration(config) -> None:
    plan = load(config)
    assert plan.root == "results/demo" and plan.table_files()
    for encoder in config["encoders"]:
        BodyConfig.from_dict(encoder_options(config, encoder).body)


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        ("sedes", [1], ["sedes: unknown key", "allowed: ", "did you mean 'seeds'?"]),
        ("scales.demo.body.hiden", 3, ["scales.demo.body.hiden: unknown key", "did you mean 'hidden'?"]),
        (f"{BUDGETS}.base.step", 3, [f"{BUDGETS}.base.step: unknown key", "did you mean 'steps'?"]),
        (f"{MLM}.lyers", "deep", [f"{MLM}.lyers: unknown key", "did you mean 'layers'?"]),
        ("scale", "dmo", ["scale: 'dmo' is not allowed", "allowed: demo", "did you mean 'demo'?"]),
        ("scale", 3, ["scale: 3 is not allowed; expected a text"]),
        ("mirror", [1, 2], ["mirror: [1, 2] is not allowed; expected a text or nothing"]),
        (
            "tables",
            ["pretraining_tasks/tabel3"],
            ["'pretraining_tasks/tabel3'", "did you mean 'pretraining_tasks/table3'?"],
        ),
        ("tables", "claims", ["tables: 'claims' is not allowed; expected a list"]),
        (f"{MLM}.objective", "mml", [f"{MLM}.objective: 'mml'", "allowed: none, mlm, ", "did you mean 'mlm'?"]),
        (
            f"{MLM}.objective",
            "seedencoder",
            ["'seedencoder'", "dupmae, or a list of ict, bfs, wlp", "did you mean 'seed-encoder'?"],
        ),
        (f"{MLM}.objective", 5, [f"{MLM}.objective: 5", "none, mlm, ", "or a list of ict, bfs, wlp"]),
        (f"{ICT}.objective", ["itc"], ["['itc'] is not allowed", "or a list of ict, bfs, wlp", "did you mean 'ict'?"]),
        (f"{ICT}.objective", [], [f"{ICT}.objective: []"]),
        (f"{ICT}.objective", ["ict", "ict"], ["non-unique"]),
        (f"{ICT}.dim", "ful", [f"{ICT}.dim: 'ful'", "allowed: full, half, quarter", "did you mean 'full'?"]),
        (f"{ICT}.dim", DELETED, [f"{ICT}.dim", "required for pair objectives"]),
        (f"{MLM}.dim", "full", [f"{MLM}.dim", "not allowed for others"]),
        (f"{MLM}.layers", DELETED, [MLM, "needs layers (deep, shallow)"]),
        ("encoders.bm25", {"body": "bow-mlp", "objective": "none"}, ["encoders.bm25: rows of this name are BM25's"]),
        (f"{FINETUNING}.all.bach", 3, [f"{FINETUNING}.all.bach: unknown option; it has ", "did you mean 'batch'?"]),
        ("encoders.bow-mlp-none.objective", "mlm", ["encoders.bow-mlp-none.objective", "mlm predicts words"]),
        # recipes
        ("recipes.reqa.dim", "full", ["recipes.reqa.dim: unknown key", "allowed: options, preset, recipe"]),
        (
            "recipes.reqa-half.options.dim",
            "hlf",
            ["recipes.reqa-half.options.dim: 'hlf'", "a whole number from 1", "or full"],
        ),
        ("recipes.reqa-half.recipe", "rqa", ["recipes.reqa-half.recipe: 'rqa'", "did you mean 'reqa'?"]),
        ("recipes.ance.preset", "papre", ["recipes.ance.preset: 'papre'", "did you mean 'paper'?"]),
        (
            "recipes.ance.options",
            {"refesh": 5},
            ["ance.options.refesh: unknown option of ance", "did you mean 'refresh'?"],
        ),
        ("recipes.ance.options", {"negatives": "bm25"}, ["ance.options.negatives: 'bm25'", "a list of names"]),
        (
            "recipes.ance.options",
            {"negatives": ["bm24"]},
            ["ance.options.negatives: ['bm24']", "bm25|mined:", "published"],
        ),
        ("recipes.ance.options", {"start": "seed-pair"}, ["recipes.ance.options", "'seed-pair'", "'seed-pairwise'?"]),
        ("recipes.dpr-bm25.options", {"start": "dpr-bm25"}, ["recipes.dpr-bm25: depends on itself."]),
        ("recipes.dpr-bm25.options", {"start": "dpr-hard"}, ["depends on itself through dpr-"]),
        (
            "recipes.ance.options",
            {"sharing": "ade"},
            ["recipes.ance.options.sharing: 'ade'", "'seed-pairwise' has 'sde'"],
        ),
        (
            "recipes.dpr-bm25.options",
            {"sharing": "ade-ste"},
            ["recipes.ance.options.sharing: 'ade' (data sets of variant open-qa)", "'dpr-bm25' has 'ade-ste'"],
        ),
        ("recipes.dupmae-2stage.options", {"teacher": "x"}, ["teacher: unknown option of dupmae-2stage"]),
        ("recipes.dupmae-teacher", DELETED, ["recipes.dupmae-3stage.options", "'dupmae-teacher' is not allowed"]),
        # What a job would find, or nobody would: after hours of other training, or by a traceback
        (
            f"{BUDGETS}.pairs",
            {"batch": 8, "epochs": 2, "learning_rate": 1.0},
            ["transformer-ict.budget: pairs has epochs"],
        ),
        (f"{BUDGETS}.base.heads_rate", 1.0e-3, [f"{BUDGETS}.base.heads_rate: 0.001 without heads_steps"]),
        ("encoders.cocondenser.length", 32, ["cocondenser.length: 32; for", "cocondenser has its option span_length"]),
        ("encoders.t5-base", {"body": "t5", "layers": "base", "objective": "mlm", "budget": "t5"}, ["body is t5"]),
        (f"{MLM}.options", {"mask": 0.95}, [f"{MLM}: mlm: mask 0.95 and random 0.1 are 1.05", "at most 1"]),
        ("encoders.seed-3-2.options", {"decoder_weight": 0}, ["seed-3-2: seed-encoder: decoder_weight is 0"]),
        (f"{SCALE_OPTIONS}.dupmae", {"bow_weight": 0}, ["encoders.dupmae: dupmae: bow_weight is 0; expected more"]),
        (f"{SCALE_OPTIONS}.optimus.latent_size", 16, ["optimus: latent_size is 16, but with kl_weight 0"]),
        ("encoders.transformer-ict-quarter.options", {"head": "none"}, ["quarter.dim: quarter is 32", "body's 128"]),
        (f"{MLM}.layers_of_start", 2, [f"config: {MLM}: encoder options: layers_of_start 2 without a start"]),
        ("recipes.seed-pairwise.options", {"steps": 9, "schedule_steps": 8}, [".schedule_steps: 8, but steps is 9"]),
        (
            f"{FINETUNING}.glue",
            {"epochs": 3, "schedule_steps": 8},
            ["glue.schedule_steps: 8, but steps is without a limit"],
        ),
        (
            "recipes.dupmae-3stage.options",
            {"windows": 4},
            ["windows: 4 does not go with training of kind distillation"],
        ),
        ("recipes.dpr-bm25.options", {"margin": 0.2}, ["margin: 0.2 does not go with loss: softmax; expected 1.0"]),
        ("recipes.dupmae-teacher.options", {"curve": 2}, ["curve: 2 does not go with training of kind cross-encoder"]),
        (f"{FINETUNING}.all.few_epochs", [5], ["all.few_epochs: [5] does not go with training of kind cross-encoder"]),
        ("recipes.dupmae-1stage.options", {"dim": 64}, ["dim: 64 does not go with a joint representation"]),
        (f"{FINETUNING}.all.pooling", "mean", ["all.pooling: 'mean' does not go with", f"set {FINETUNING}."]),
        (f"{FINETUNING}.all.sharing", "ade", ["all.sharing: 'ade' does not go with", "sharing: sde"]),
        (
            "recipes.all",
            {"recipe": "dupmae-3stage", "options": {"windows": 4}},
            ["recipes.all.options.windows: 4 does"],
        ),
        (
            "recipes.reqa.options",
            {"representation": "joint"},
            ["'joint' does not go with recipe 'reqa', which has no parts"],
        ),
        ("recipes.sts.options", {"sharing": "ade"}, ["sts.options.sharing: 'ade' does not go with", "expected 'sde'"]),
        ("recipes.glue.options", {"start": "dpr-bm25"}, ["start: 'dpr-bm25' does not go with", "expected 'encoder'"]),
        (
            "recipes.sts.options",
            {"start": "reqa"},
            ["start: 'reqa' trains a model of kind ranking; expected", "regression"],
        ),
        ("recipes.dupmae-3stage.options", {"teacher": "reqa"}, ["teacher: 'reqa' trains", "kind cross-encoder"]),
        ("recipes.dpr-hard.options", {"negatives": ["mined:sts"]}, ["negatives: 'sts' trains", "of kind ranking"]),
        ("recipes.seed-pairwise.options", {"head": "linear"}, ["recipes.ance.options.head: 'none', but its start"]),
        (
            "recipes.dupmae-2stage.options",
            {"top": 32},
            ["dupmae-2stage.options.top: 32, but its start 'dupmae-1stage' has 64"],
        ),
        ("recipes.reqa.options", {"negatives": ["bm25"]}, ["reqa.options.negatives: ['bm25'], but group is 1"]),
        ("recipes.reqa.options", {"refresh": 5}, ["recipes.reqa.options: group 1 leaves a query no negative"]),
        (
            "recipes.reqa.options",
            {"group": 4},
            ["reqa.pool (from the recipe's preset): 1 for a query, at random", "3 negatives"],
        ),
        (f"{FINETUNING}.dpr-bm52", {}, [f"{FINETUNING}: 'dpr-bm52'", "did you mean 'dpr-bm25'?"]),
        (f"{FINETUNING}.dpr-bm25.bath", 8, [f"{FINETUNING}.dpr-bm25.bath: unknown option", "did you mean 'batch'?"]),
        (f"{FINETUNING}.all.clas", 8, [f"{FINETUNING}.all.clas: unknown option"]),
        (f"{FINETUNING}.dpr-bm25.batch", 0, ["dpr-bm25.options.batch: 0", "a whole number from 1"]),
        (
            "datasets.descriptions-open.open",
            "articles",
            [
                "datasets.descriptions-open.open: 'articles'",
                "'descriptions' has no articles",
                "squad, natural-questions",
            ],
        ),
        ("datasets.questions-open.variant", "open", ["datasets.questions-open.variant: 'open'", "open-qa"]),
        ("encoders.t5-base.layers", "bse", ["encoders.t5-base.layers: 'bse'", "did you mean 'base'?"]),
        ("datasets.questions.reader", "sqad", ["datasets.questions.reader: 'sqad'", "did you mean 'squad'?"]),
        (
            "datasets.questions.files",
            DELETED,
            ["datasets.questions: squad: it needs the files train, test, or file alone"],
        ),
        (
            "datasets.questions.sizes.80pct",
            0.9,
            ["datasets.questions.sizes.80pct: 0.9", "impossible split", "at most 0.805"],
        ),
        # Keys that other readers look at were taken, and changed nothing.
        (
            "datasets.questions.max_documents",
            500,
            [
                "datasets.questions.max_documents: the reader 'squad' would ignore 500; of such keys it takes open, max_extra"
            ],
        ),
        (
            "datasets.link-clicks.rerank",
            "bm25",
            ["datasets.link-clicks.rerank: the reader", "it takes max_examples: remove"],
        ),
        (
            "datasets.fanoutqa.title",
            "prefix",
            ["datasets.fanoutqa.title: the reader 'fanoutqa' would", "it takes bm25, "],
        ),
        ("datasets.questions.sizes.80pct", -0.1, ["80pct: -0.1"]),
        ("datasets.questions.sizes.80pct", "most", ["80pct: 'most'"]),
        ("datasets.questions.sizes.1k", 1.5, ["1k: 1.5"]),
        ("datasets.fanoutqa.trained_on", "description", ["trained_on: 'description'", "did you mean 'descriptions'?"]),
        ("datasets.fanoutqa.sizes", {"2pct": 0.1}, ["datasets.fanoutqa.sizes: '2pct'", "allowed: 10pct"]),
        (f"{BUDGETS}.base.batch", 1, [f"{BUDGETS}.base.batch: 1", "minimum of 2"]),
        (f"{BUDGETS}.base.batch", 2.5, ["batch: 2.5", "a whole number"]),
        (f"{BUDGETS}.base.batch", True, ["batch: True", "a whole number"]),
        (
            f"{BUDGETS}.base.steps",
            DELETED,
            [f"{BUDGETS}.base", "found batch, learning_rate; expected either steps or epochs"],
        ),
        (f"{BUDGETS}.base.learning_rate", 0, ["learning_rate: 0", "minimum of 0"]),
        (f"{BUDGETS}.base.warmup", 1.5, ["warmup: 1.5", "maximum of 1"]),
        (f"{BUDGETS}.base", DELETED, ["encoders.base.budget: 'base' is not allowed", "allowed: continued, pairs, t5"]),
        # budgets of encoders
        (f"{MLM}.budget", "pair", [f"{MLM}.budget: 'pair'", "did you mean 'pairs'?"]),
        (f"{MLM}.budget", DELETED, [f"{MLM}.budget: is missing", "expected one of base, continued"]),
        ("encoders.transformer-none.budget", "pairs", ["transformer-none.budget: objective none trains nothing"]),
        # presets and options
        (f"{RETROMAE}.preset", "papre", [f"{RETROMAE}.preset: 'papre'", "did you mean 'paper'?"]),
        (f"{RETROMAE}.preset", 5, [f"{RETROMAE}.preset: 5", "a text"]),
        (f"{RETROMAE}.options", ["rate"], [f"{RETROMAE}.options: ['rate']", "keys and values"]),
        (
            f"{RETROMAE}.options",
            {"decoder_rat": 0.5},
            [f"{RETROMAE}.options.decoder_rat: unknown option of retromae", "did you mean 'decoder_rate'?"],
        ),
        (f"{RETROMAE}.options", {"rate": 1.5}, [f"{RETROMAE}.options.rate: 1.5", "a number from 0.01 to 0.95"]),
        (f"{RETROMAE}.options", {"unit": "words"}, ["options.unit: 'words'", "allowed: token, word"]),
        (
            "encoders.seed-3-2.options",
            {"span": "al"},
            ["seed-3-2.options.span: 'al'", "a whole number from 1", "or all"],
        ),
        ("encoders.seed-3-2.options", {"decoder_layers": 1.5}, ["decoder_layers: 1.5", "a whole number from 1 to 12"]),
        ("encoders.condenser.options", {"late_mlm": 1}, ["condenser.options.late_mlm: 1", "allowed: false, true"]),
        (f"{ICT}.options", {"temperature": 0}, [f"{ICT}.options.temperature: 0"]),
        (f"{ICT}.options", {"similarity": "cosin"}, ["options.similarity: 'cosin'", "allowed: dot, cosine"]),
        (f"{ICT}.options", {"towers": "two"}, ["options.towers: 'two'", "allowed: shared, separate"]),
        ("encoders.transformer-none.options", {"rate": 0.1}, ["unknown option of none; it has none"]),
        (
            f"{SCALE_OPTIONS}.condensor",
            {"skip_layer": 1},
            ["pretraining.options: 'condensor'", "did you mean 'condenser'?"],
        ),
        (f"{SCALE_OPTIONS}.pairs", {"ict_kep": 0.1}, ["ict_kep: unknown option of pairs", "did you mean 'ict_keep'?"]),
        # starts
        ("encoders.bert.start", "bse", ["encoders.bert.start: 'bse'", "hub:OWNER/NAME", "did you mean 'base'?"]),
        ("encoders.bert.start", "", ["encoders.bert.start: ''"]),
        ("encoders.base.start", "base", ["encoders.base.start: base → base is a cycle"]),
        ("encoders.base.start", "bert", ["base → bert → base is a cycle; one of them must have no start"]),
        ("encoders.bert.layers", "shallow", ["encoders.bert.layers: 'shallow', but its start 'base' has 'deep'"]),
        (f"{MLM}.layers", "scrach", [f"{MLM}.layers: 'scrach'", "deep, shallow"]),
        ("encoders.bert.layers", DELETED, ["encoders.bert.layers: None, but its start 'base' has 'deep'"]),
        ("encoders.bow-mlp-ict-bfs-wlp.start", "base", ["bow-mlp-ict-bfs-wlp.body: 'bow-mlp', but its start 'base'"]),
        ("scales.demo.originals", ["nq-opn"], ["scales.demo.originals: 'nq-opn'", "did you mean 'nq-open'?"]),
        ("scales.demo.temperature", -0.1, ["scales.demo.temperature: -0.1"]),
        ("scales.demo.temperature", DELETED, ["scales.demo", "'temperature' is a required property"]),
        ("scales.demo.body.heads", 3, ["scales.demo.body.heads: 3", "hidden=128"]),
        ("scales.demo.query_length", 300, ["scales.demo.query_length: 300", "max_positions=128"]),
        (
            "scales.demo.finetuning.all.passage_length",
            256,
            ["scales.demo.finetuning.all.passage_length: 256 tokens", "body.max_positions is 128"],
        ),
        ("scales.demo.passage_length", 6, ["scales.demo.passage_length: 6", "less than the minimum of 7"]),
        ("recipes.dpr-hard.options", {"passage_length": 5}, ["dpr-hard.options.passage_length: 5 tokens; expected 7"]),
        (
            "encoders.bert.layers_of_start",
            3,
            ["bert.layers_of_start: 3, but its start has 2 layers; expected at most 2"],
        ),
        ("scales.demo.finetuning.news.query_length", 130, ["finetuning.news.query_length: 130", "at most 128"]),
        (
            "scales.demo.pretraining.options.cocondenser.span_length",
            200,
            ["encoders.cocondenser: span_length of cocondenser is 200", "max_positions is 128"],
        ),
        (
            f"{SCALE_OPTIONS}.condenser.skip_layer",
            2,
            ["encoders.condenser: skip_layer of condenser is 2", "layers.deep is 2; expected less than 2"],
        ),
        ("datasets.questions.metrics", ["spearman"], ["questions.metrics: 'spearman' needs examples", "'squad'"]),
        ("datasets.descriptions.metrics", ["hits@5"], ["descriptions.metrics: 'hits@5' needs questions with answers"]),
        ("datasets.link-clicks.metrics", ["recall@5"], ["link-clicks.metrics: 'recall@5' is not allowed", "auc, mrr"]),
        ("mining_depth", 50, [".pool (from variant open-qa): 100 documents", "mining_depth is 50"]),
        (
            "recipes.dpr-hard.options",
            {"pool_from": ["all", 300]},
            ["recipes.dpr-hard.options.pool_from: 300 documents", "mining_depth is 200"],
        ),
        ("recipes.dpr-hard.options", {"pool_from": ["all"]}, ["pool_from: ['all'] has 1 entries", "negatives has 2"]),
        ("scales.demo.corpus", "x", ["scales.demo.corpus: 'x'", "allowed: encyclopedia-demo"]),
        ("scales.demo.roles.reqa-squad", "question", ["roles.reqa-squad: 'question'", "did you mean 'questions'?"]),
        (
            "scales.demo.roles.reqa-squadd",
            "questions",
            ["'reqa-squadd' is not a role of any table or figure", "did you mean 'reqa-squad'?"],
        ),
        ("scales.demo.means", ["questions"], ["scales.demo.means: ['questions'] is not allowed; expected keys"]),
        ("scales.demo.means", {"all": []}, ["scales.demo.means.all: [] is not allowed", "non-empty"]),
        ("scales.demo.means", {"all": 2 * ["questions"]}, ["scales.demo.means.all: ", "non-unique"]),
        (
            "scales.demo.means",
            {"all": ["question"]},
            ["scales.demo.means.all: 'question' is not allowed", "did you mean 'questions'?"],
        ),
        (
            "scales.demo.means",
            {"questions": ["descriptions"]},
            ["scales.demo.means.questions: 'questions' is in datasets too", "another name"],
        ),
        ("scales.demo.means", {"encyclopedia-demo": ["questions"]}, ["'encyclopedia-demo' is in corpora too"]),
        ("scales.demo.means", {"a": ["b"], "b": ["a"]}, ["scales.demo.means.a: 'a' is a part of itself"]),
        (
            "scales.demo.means",
            {"all": ["structure-sts"]},
            ["scales.demo.means.all: 'structure-sts' has the reader 'structure-sts'", "are not ranked"],
        ),
        (
            "scales.demo.means",
            {"all": ["descriptions", "questions-rerank"]},
            [
                "means.all: 'questions-rerank' has metrics ['mrr@10', 'recall@10'], 'descriptions' has ['mrr', ",
                "the same",
            ],
        ),
        (
            "scales.demo.means",
            {"all": ["descriptions", "descriptions-open"]},
            ["means.all: 'descriptions-open' has sizes ['1pct', '5pct', '80pct'], 'descriptions' has ['10pct', "],
        ),
        (
            "corpora.encyclopedia-demo.dump",
            "enwiki-fragmnt",
            ["dump: 'enwiki-fragmnt'", "neither a file nor a name in", "did you mean 'enwiki-fragment'?"],
        ),
        ("only", ["bm52"], ["only: 'bm52'", "did you mean 'bm25'?"]),
        ("only", ["bert.stss"], ["only: 'stss'", "did you mean 'sts'?"]),
        ("only", [], ["only: []"]),
        ("seeds", [], ["seeds: []"]),
        ("seeds", [1, 1], ["seeds: [1, 1]", "non-unique"]),
        ("seeds", [-1], ["seeds.0: -1", "minimum of 0"]),
        ("scales.demo.seeds", DELETED, ["scales.demo: no seeds", "such as seeds: [1, 2, 3]"]),
        ("scales.demo.seeds", [1.5], ["seeds.0: 1.5"]),
        ("metrics", ["recal@1"], ["metrics.0: 'recal@1'", "recall|mrr"]),
        ("datasets.questions.metrics", ["recal@1"], ["datasets.questions.metrics.0: 'recal@1'"]),
        (
            "datasets.questions-rerank.metrics",
            ["mrr@10", "recall@1000"],
            ["datasets.questions-rerank.depth: 100 hits", "'recall@1000'", "at least 1000", "or take the metric out"],
        ),
        (
            "datasets.questions-rerank.metrics",
            ["mrr@10-l2", "recall@1000-l2"],
            [
                "datasets.questions-rerank.depth: 100 hits",
                "'recall@1000-l2'",
                "at least 1000",
                "or take the metric out",
            ],
        ),
        ("datasets.questions.metrics", ["recall@10-l0"], ["datasets.questions.metrics.0: 'recall@10-l0'"]),
        ("datasets.questions.metrics", ["hits@10-l2"], ["datasets.questions.metrics.0: 'hits@10-l2'"]),
        ("scales", None, ["scales: None", "keys and values"]),
    ],
)
def test_mistakes(config, path: str, value: Any, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load(changed(config, path, value))
    message = str(error.value)
    assert message.startswith("config: ") and "\n" not in message
    for part in parts:
        assert part in message, message


def test_a_metric_may_say_which_grades_are_relevant(config) -> None:
    metrics = ["mrr@10-l2", "recall@100-l2", "ndcg@10-l2", "mrr-l2", "map-l3", "hits@10"]
    for metric in metrics:
        check_metric(metric)
    load(changed(config, "datasets.questions-open.metrics", metrics))


def test_one_more_hit_is_kept_where_the_query_itself_is_dropped(config) -> None:
    config["datasets"]["questions-rerank"]["conventions"] = ["drop-identical-ids"]
    load(changed(config, "datasets.questions-rerank.depth", 11))
    with pytest.raises(ConfigError, match="depth: 10 hits of a query are kept, .*'mrr@10'; expected at least 11"):
        load(changed(config, "datasets.questions-rerank.depth", 10))


def test_nearest() -> None:
    assert nearest("tabel3", ["table3", "claims"]) == "; did you mean 'table3'?"
    assert nearest("zzz", ["table3", "claims"]) == "" and nearest(5, ["table3"]) == ""


def test_what_a_job_gets_is_as_small_as_its_work(config) -> None:
    other = copy.deepcopy(config)
    other["seeds"] = [1, 2, 3]
    other["tables"] = other["tables"][:1]
    other["mirror"] = "/somewhere"
    other["metrics"] = ["recall@3"]
    other["encoders"]["new"] = {"body": "transformer", "layers": "deep", "objective": "none"}
    load(other)
    for encoder in config["encoders"]:
        assert as_argument(encoder_options(config, encoder).to_dict()) == as_argument(
            encoder_options(other, encoder).to_dict()
        )
    for recipe in config["recipes"]:
        assert as_argument(recipe_options(config, recipe, "questions")) == as_argument(
            recipe_options(other, recipe, "questions")
        )
    assert config_hash(changed(config, "mirror", "/somewhere")) == config_hash(config)
    assert config_hash(changed(config, "seeds", [1, 2])) != config_hash(config)


def test_seeds_are_the_scales_unless_the_run_names_others(config) -> None:
    assert load(config).seeds == config["scales"]["demo"]["seeds"] == [1]
    small = load(changed(config, "scale", "small"))
    assert small.seeds == config["scales"]["small"]["seeds"] == [1, 2, 3]
    assert load(changed(config, "seeds", [4, 2])).seeds == [4, 2]


def test_options_by_hand(config) -> None:
    scale = config["scales"]["demo"]
    ict = encoder_options(config, "transformer-ict-quarter").to_dict()
    assert ict["dim"] == scale["dims"]["quarter"] and ict["body"]["layers"] == scale["layers"]["deep"]
    assert ict["objective"]["tasks"] == ["ict"] and ict["objective"]["temperature"] == scale["temperature"]
    assert ict["budget"] == scale["pretraining"]["budgets"]["pairs"] and ict["similarity"] == scale["similarity"]
    assert ict["objective"]["ict_keep"] == scale["pretraining"]["options"]["pairs"]["ict_keep"] and "start" not in ict
    shallow, bag = encoder_options(config, "shallow-wlp").to_dict(), encoder_options(config, "bow-mlp-none").to_dict()
    assert shallow["body"]["layers"] == scale["layers"]["shallow"] and bag["body"]["kind"] == "bow-mlp"
    assert bag["objective"] == {"name": "none"}
    own = changed(changed(config, "scales.demo.layers", scale["layers"] | {"scratch": 5}), f"{MLM}.layers", "scratch")
    assert encoder_options(own, MLM.partition(".")[2]).body["layers"] == 5
    mlm = encoder_options(config, "transformer-mlm").to_dict()
    examples = {"examples": scale["pretraining"]["examples"]}
    assert mlm["objective"] == {"name": "mlm", "length": scale["passage_length"], **resolve("mlm", None, examples, "")}
    bert, none = encoder_options(config, "bert").to_dict(), encoder_options(config, "transformer-none").to_dict()
    assert bert["start"] == "base" and bert["objective"] == mlm["objective"] and "budget" not in none
    # What is compared in one table differs in the objective alone.
    assert mlm["body"] == ict["body"] == encoder_options(config, "transformer-none").body
    assert recipe_options(config, "reqa-half", "questions")["dim"] == scale["dims"]["half"]


def test_options_of_recipes_by_hand(config) -> None:
    """The preset, then the data set's variant, then the scale's for all, the scale's for the recipe, and the recipe's own."""
    other = copy.deepcopy(config)
    other["scales"]["demo"]["finetuning"] = {"all": {"learning_rate": 0.5, "classes": 7}, "dpr-hard": {"steps": 3}}
    other["recipes"]["dpr-hard"] = {"options": {"batch": 4}}
    other["scales"]["demo"]["body"]["max_positions"], other["mining_depth"] = (
        512,
        1000,
    )  # for the presets' lengths and pools
    load(other)
    web, open_qa = (recipe_options(other, "dpr-hard", dataset) for dataset in ("questions", "questions-open"))
    assert (web["kind"], web["group"], web["pool"], web["epochs"]) == ("ranking", 8, 200, 3)  # condenser A.1
    assert (open_qa["group"], open_qa["pool"], open_qa["epochs"]) == (2, 100, 40)  # condenser A.1
    for options in (web, open_qa):
        assert (options["learning_rate"], options["steps"], options["batch"]) == (
            0.5,
            3,
            4,
        ) and "classes" not in options
        assert chain_of(options) == ["dpr-bm25"] and options["negatives"] == ["bm25", "mined:dpr-bm25"]
    assert recipe_options(other, "glue", "question-entailment")["classes"] == 7
    assert recipe_options(other, "seed-pairwise", "questions")["loss"] == "pairwise"  # the released code, not the hinge
    assert (
        recipe_options(changed(other, "recipes.seed-pairwise.preset", "paper"), "seed-pairwise", "questions")["loss"]
        == "hinge"
    )
    chain = {"dupmae-2stage", "dupmae-teacher", "dupmae-1stage"}
    assert set(chain_of(recipe_options(other, "dupmae-3stage", "questions"))) == chain


def test_a_recipe_is_for_one_kind_of_task(config) -> None:
    fitting = {
        dataset: {recipe for recipe in config["recipes"] if fits(config, recipe, dataset)}
        for dataset in config["datasets"]
    }
    assert fitting["structure-sts"] == {"sts"} and fitting["link-clicks"] == {"news"}
    assert fitting["section-triplets"] == {"sections"} and fitting["question-entailment"] == {"glue"}
    assert fitting["questions"] == fitting["fanoutqa"] == set(config["recipes"]) - {"sts", "sections", "glue", "news"}


def test_trained_sizes(config) -> None:
    """A family is trained on the sizes that tables ask for, and so is what it is made from."""
    plan = load(config)
    sizes = plan.trained_sizes
    assert sizes["transformer-mlm.reqa", "questions"] == ("1pct", "5pct", "80pct")
    assert sizes["bert.dpr-hard", "questions"] == ("full",) and sizes["bert.dpr-bm25", "questions"] == (
        "1k",
        "10k",
        "full",
    )
    assert sizes["dupmae.dupmae-1stage", "questions"] == ("full",)  # no table asks for the first stage by itself
    assert sizes["cocondenser.seed-pairwise", "questions"] == tuple(config["datasets"]["questions"]["sizes"])
    assert sizes["bert.sts", "structure-sts"] == ("500", "1k", "full")
    assert ("bert.sts", "questions") not in sizes and ("bert.reqa", "fanoutqa") not in sizes
    # the same whichever tables are built
    assert load(changed(config, "tables", ["pretraining_tasks/table3"])).trained_sizes == sizes


def test_a_pattern_of_families_matches_them_and_no_others(config) -> None:
    import re

    plan = load(config)
    for dataset, options in config["datasets"].items():
        groups = plan.families(dataset, scored=False)
        every = [family for families in groups.values() for family in families]
        assert len(set(every)) == len(every) >= len(plan.config["encoders"])
        for families in groups.values():
            pattern = re.compile(
                rf"(?P<family>{plan.family_pattern(families)})-(?P<size>{'|'.join(options['sizes'])})/x"
            )
            for family in every:
                for size in options["sizes"]:
                    match = pattern.fullmatch(f"{family}-{size}/x")
                    assert bool(match) == (family in families) and (not match or match["family"] == family)


def test_what_a_retriever_is_made_of(config) -> None:
    plan = load(config)
    root, there = "results/demo", "questions/seed3"
    made = plan.made_of("dupmae.dupmae-3stage", "questions", "full", 3)
    assert made == {
        "start": f"{root}/retrievers/dupmae.dupmae-2stage-full/{there}",
        "teacher": f"{root}/retrievers/dupmae.dupmae-teacher-full/{there}",
        "negatives": {"mined:dupmae-1stage": f"{root}/negatives/dupmae.dupmae-1stage-full/{there}.jsonl.gz"},
    }
    assert plan.made_of_files("bert.dpr-hard", "questions", "full", 3) == [
        f"{root}/negatives/bm25/questions/seed0.jsonl.gz",
        f"{root}/negatives/bert.dpr-bm25-full/{there}.jsonl.gz",
    ]
    assert plan.made_of_files("bert.reqa", "questions", "full", 3) == []


def test_options_come_from_preset_scale_and_encoder(config) -> None:
    """The later one wins; an encoder's change is its own, a scale's is that of all encoders of the objective."""

    def condenser(**entry: Any) -> dict[str, Any]:
        other = copy.deepcopy(config)
        other["encoders"]["condenser"] |= entry
        load(other)
        return encoder_options(other, "condenser").objective

    paper, code = condenser(preset="paper"), condenser(preset="official_code")
    assert condenser() == paper and (paper["late_mlm"], code["late_mlm"]) == (True, False)
    assert (
        paper["skip_layer"]
        == code["skip_layer"]
        == config["scales"]["demo"]["pretraining"]["options"]["condenser"]["skip_layer"]
    )
    assert condenser(options={"skip_layer": 0, "head_layers": 1}) == paper | {"skip_layer": 0, "head_layers": 1}
    assert condenser(preset="official_code", options={"late_mlm": True})["late_mlm"] is True
    own = changed(
        config, f"{ICT}.options", {"similarity": "dot", "temperature": 1.0, "head": "orqa", "towers": "separate"}
    )
    ict, other = (encoder_options(own, f"transformer-ict{rest}").to_dict() for rest in ("", "-quarter"))
    assert (ict["similarity"], ict["head"], ict["objective"]["towers"]) == ("dot", "orqa", "separate")
    assert (other["similarity"], other["head"], other["objective"]["towers"]) == ("cosine", "linear", "shared")


@pytest.mark.parametrize("start", ["hub:owner/name", "dir:some/where"])
def test_starts_from_outside(config, start: str) -> None:
    """They bring their own shape, so that layers can be left out; and no job of ours makes them."""
    other = changed(changed(config, "encoders.base.start", start), "encoders.base.layers", DELETED)
    for name, entry in other["encoders"].items():
        if entry.get("start") == "base":
            del other["encoders"][name]["layers"]
    t5 = {
        "body": "t5",
        "start": start,
        "objective": ["ict"],
        "dim": "full",
        "budget": "pairs",
        "options": {"head": "none"},
    }
    other["encoders"]["t5-outside"] = t5
    load(other)
    assert encoder_options(other, "base").start == start and "layers" not in encoder_options(other, "base").body
    assert started_from(other, "base") is None and started_from(other, "bert") == "base"
    assert started_from(config, "base") is None and from_outside(start) and not from_outside("base")


def test_a_chain_of_starts(config) -> None:
    third = {"body": "transformer", "layers": "deep", "start": "bert", "objective": "condenser", "budget": "continued"}
    load(changed(config, "encoders.third", third))
    with pytest.raises(ConfigError, match="base → third → bert → base is a cycle"):
        load(changed(changed(config, "encoders.third", third), "encoders.base.start", "third"))


def test_as_argument() -> None:
    assert as_argument({"b": 1, "a": [2]}) == as_argument({"a": [2], "b": 1}) == """'{"a":[2],"b":1}'"""


def test_table_inputs(config) -> None:
    plan = load(changed(config, "seeds", [1, 2]))
    assert plan.table_inputs("pretraining_tasks", "table1") == ["results/demo/pairs/encyclopedia-demo/stats.json"]
    files = plan.table_inputs("pretraining_tasks", "table3")
    assert len(files) == len(set(files))
    root = "results/demo/metrics"
    for system in ("transformer-mlm.reqa-1pct", "transformer-ict-bfs-wlp.reqa-80pct"):
        found = [file for file in files if f"/{system}/" in file]
        assert found == [f"{root}/{system}/questions/seed1.json", f"{root}/{system}/questions/seed2.json"]
    assert [file for file in files if "/bm25.reqa-1pct/" in file] == [f"{root}/bm25.reqa-1pct/questions/seed0.json"]
    none = load(changed(config, "scales.demo.roles", {"pretraining-pairs": "encyclopedia-demo"}))
    assert none.table_inputs("pretraining_tasks", "table3") == []  # no data set plays the role: cells are not run
    with_sizes = load(
        changed(changed(config, "analyses", {}), "datasets.questions.sizes", {"1pct": 0.01, "full": "all"})
    )
    assert {
        file.split("/")[3].rpartition("-")[2] for file in with_sizes.table_inputs("pretraining_tasks", "table3")
    } == {"1pct"}


def test_only_some_rows(config) -> None:
    """What is left out is not measured and not fine-tuned; what a job makes does not depend on it, so nothing runs again."""
    whole, some = load(config), load(changed(config, "only", ["bm25", "transformer-mlm"]))
    files = some.table_inputs("pretraining_tasks", "table3")
    assert {paths.parse_system(file.split("/")[3]).encoder for file in files} == {"bm25", "transformer-mlm"}
    assert set(files) < set(whole.table_inputs("pretraining_tasks", "table3"))
    assert some.table_inputs("pretraining_tasks", "table1") == whole.table_inputs("pretraining_tasks", "table1")
    kept = [place for place in whole.retrievers() if "/transformer-mlm." in place]
    assert kept and some.retrievers() == kept
    for what in ("asked_sizes", "trained_sizes", "watched_sizes"):
        assert getattr(some, what) == getattr(whole, what)
    assert all(some.bm25_systems(name) == whole.bm25_systems(name) for name in config["datasets"])
    setting = Setting.of(some.setting("pretraining_tasks"))
    table = load_table(*(ROOT / f"references/pretraining_tasks/{name}" for name in ("paper.yaml", "table3.csv")))
    reasons = {setting.why_not_measured(table, cell) for cell in table.cells if cell.system}
    left = ("bow-mlp-none", "bow-mlp-ict-bfs-wlp", "transformer-none", "transformer-ict-bfs-wlp")
    assert reasons == {"", *(f"encoder {name} is not among those that this run makes (only)" for name in left)}
    assert list(dict.fromkeys(path for cell in table.cells for path in setting.files_of(table, cell))) == files


def test_only_some_recipes_of_an_encoder(config) -> None:
    """``ENCODER.RECIPE`` keeps the rows of one recipe; the encoder's others say that they are not it that is missing."""
    plan = load(changed(config, "only", ["bert.sts", "condenser"]))
    files = plan.table_inputs("condenser", "table1") + plan.table_inputs("condenser", "table2")
    assert {paths.parse_system(file.split("/")[3]).family for file in files} == {
        "bert.sts",
        "condenser.sts",
        "condenser.sections",
    }
    assert [place for place in plan.retrievers() if "/bert." in place]
    assert all("/bert.sts-" in place for place in plan.retrievers() if "/bert." in place)
    setting = Setting.of(plan.setting("condenser"))
    table = load_table(*(ROOT / f"references/condenser/{name}" for name in ("paper.yaml", "table2.csv")))
    reasons = {setting.why_not_measured(table, cell) for cell in table.cells if cell.system}
    assert reasons == {"", "bert.sections is not among those that this run makes (only)"}


def test_commands_name_what_is_not_the_default(config) -> None:
    assert config["scale"] == DEFAULT_SCALE and "only" not in config
    assert Setting.of(load(config).setting()).command("a", "b") == "snakemake a b"
    mirrored = Setting.of(load(changed(config, "mirror", "some/folder")).setting())
    assert mirrored.command("a") == "snakemake a --config mirror=DIR", "that of this machine says nothing to others"
    usual, others = (load(changed(config, "seeds", seeds)).setting() for seeds in ([1], [4, 2]))
    assert Setting.of(usual).command("a") == "snakemake a"  # as the scale has them
    assert Setting.of(others).command("a") == "snakemake a --config 'seeds=[4,2]'"
    other = changed(changed(config, "scale", "paper"), "rehearsal", True)
    assert Setting.of(load(other).setting()).command("a") == "snakemake a --config scale=paper rehearsal=1"


def test_alternation() -> None:
    import re

    pattern = re.compile(alternation(["a", "a.b", "ab"]))
    assert [bool(pattern.fullmatch(name)) for name in ("a", "ab", "a.b", "axb", "")] == [True, True, True, False, False]
    assert not re.compile(alternation([])).match("anything")


def test_the_metrics_of_examples_are_those_that_are_computed():
    assert configuration.METRICS == example_metrics.METRICS


def test_layers_of_a_start_that_is_there_are_counted(config: dict, tmp_path: Path) -> None:
    """Its ``config.json`` says how many there are; the job that found out came after the corpus and its vocabulary."""
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 6}))
    config["encoders"]["base"] |= {"start": f"dir:{tmp_path}", "layers_of_start": 3}
    config["encoders"]["bert"]["layers_of_start"] = 2
    check_config(config, config["tables"])
    for encoder, wanted, found in (("bert", 3, 2), ("base", 7, 6)):
        config["encoders"][encoder]["layers_of_start"] = wanted
        with pytest.raises(
            ConfigError, match=rf"{encoder}.layers_of_start: {wanted}, but its start has {found} layers"
        ):
            check_config(config, config["tables"])
    for text in ("[]", "{}"):
        (tmp_path / "config.json").write_text(text)
        check_config(config, config["tables"])
