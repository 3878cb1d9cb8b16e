"""Dry runs of figures: each is made by name, from exactly the jobs it needs, and a default run makes the configured ones."""

from __future__ import annotations

from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan


def test_figure_6_of_seed_encoder(project):
    ended = project.plan("results/demo/figures/seed_encoder/figure6.svg")
    assert ended.jobs["figure"] == 1 and not ended.count("table")
    # the shared start, BERT and SEED-Encoder; each fine-tuned with BM25 negatives and by ANCE, for all parts of the labels;
    # BERT for longer, whose curve is its own search
    assert ended.count("pretrain") == 3
    # … and the two whose negatives ANCE begins with.
    assert ended.jobs["finetune_questions"] == 4 + 2 and ended.jobs["bm25_questions"] == 1
    assert not ended.count("retrieve") and not ended.count("mine"), (
        "the job that trains a family scores it, and mines with it"
    )


def test_figures_of_analyses_and_maps(project):
    ended = project.plan(
        "results/demo/figures/seed_encoder/figure5.csv", "results/demo/figures/dual_encoders/figure2.csv"
    )
    assert ended.jobs["figure"] == 2 and ended.jobs["analyse_pair_similarity"] == 1
    assert ended.jobs["finetune_descriptions"] == 1, "the five that both figures show"
    assert not ended.count("retrieve")


def test_a_configured_figure_is_made_by_default(project):
    ended = project.plan("--config", "tables=[pretraining_tasks/table3]", "figures=[dual_encoders/figure4]")
    assert ended.jobs["figure"] == 1 and ended.jobs["table"] == 1


def test_quality_by_tokens_is_made_by_name_and_trains_nothing_twice(project):
    """The start, and seven objectives whose jobs leave three snapshots each; on two data sets, of which the demo fine-tunes on
    both. A default run of the demo leaves it out; one of the scale small has it."""
    ended = project.plan("results/demo/figures/pretrieve/figure1.svg")
    assert ended.jobs["pretrain"] == 1 and ended.jobs["pretrain_at12_at25_at50"] == 7
    assert ended.count("finetune_questions") == ended.count("finetune_descriptions") == 1 + 7 * 4
    assert not ended.count("retrieve") and ended.count("bm25") == 2, "scored by the jobs that train"
    listed = {
        scale: Plan.load(read_config(words=[f"scale={scale}"])).config["figures"]
        for scale in ("demo", "small", "paper")
    }
    assert {scale for scale, names in listed.items() if "pretrieve/figure1" in names} == {"small"}
    assert {len(set(names) - {"pretrieve/figure1"}) for names in listed.values()} == {9}
