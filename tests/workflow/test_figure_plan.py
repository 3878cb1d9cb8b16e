"""Dry runs of figures: each is made by name, from exactly the jobs it needs, and a default run makes the configured ones."""

from __future__ import annotations


def test_figure_6_of_seed_encoder(project):
    ended = project.plan("results/demo/figures/seed_encoder/figure6.svg")
    assert ended.jobs["figure"] == 1 and not ended.count("table")
    # the shared start, BERT and SEED-Encoder; each fine-tuned with BM25 negatives and by ANCE, for all parts of the labels;
    # BERT for longer, whose curve is its own search
    assert ended.jobs["pretrain"] == 3
    # … and the two whose negatives ANCE begins with.
    assert ended.jobs["finetune_questions"] == 4 + 2 and ended.jobs["bm25_questions"] == 1
    assert not ended.count("retrieve") and not ended.count("mine"), "the job that trains a family scores it, and mines with it"


def test_figures_of_analyses_and_maps(project):
    ended = project.plan(
        "results/demo/figures/seed_encoder/figure5.csv", "results/demo/figures/dual_encoders/figure2.csv"
    )
    assert ended.jobs["figure"] == 2 and ended.jobs["analyse_pair_similarity"] == 1
    assert ended.jobs["finetune_descriptions"] == 5 and not ended.count("retrieve")


def test_a_configured_figure_is_made_by_default(project):
    ended = project.plan("--config", "tables=[pretraining_tasks/table3]", "figures=[dual_encoders/figure4]")
    assert ended.jobs["figure"] == 1 and ended.jobs["table"] == 1
