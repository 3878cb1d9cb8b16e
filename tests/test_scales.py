"""A scale's own entries, the roles of one paper, and vocabularies: what is laid over what, and what does not go together.

Seen to fail when: an entry of a scale takes the place of the general one as a whole, and null is kept as a value; parts
of means are left out; a start or a training task with another vocabulary is let through.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pretrieve.base.errors import ConfigError
from pretrieve.references.tables import Cell
from pretrieve.reporting.tables.results import Setting
from pretrieve.workflow.scales import (
    articles_of,
    at_scale,
    check_scale,
    corpus_of,
    datasets_behind,
    reads,
    roles_of,
    used_corpora,
    vocabulary_corpus,
    vocabulary_of,
    wants_corpus,
)

CONFIG: dict[str, Any] = {
    "scale": "big",
    "scales": {
        "tiny": {"corpus": "leads", "vocabulary_size": 100, "roles": {"dev": "mine"}},
        "big": {
            "corpus": "wiki",
            "vocabulary_size": 200,
            "vocabulary_file": "bert.txt",
            "roles": {"dev": "titled", "seed/dev": "untitled", "old": "kept"},
            "corpora": {
                "wiki": {"dump": "d"},
                "books": {"dump": "b", "vocabulary_size": 300},
                "same": {"dump": "c", "vocabulary_file": "bert.txt"},
            },
            "datasets": {
                "titled": {"title": "separate"},
                "untitled": {"reader": "x", "vocabulary": "books", "trained_on": "trainer"},
            },
            "encoders": {"a": {"start": None, "budget": "long"}, "b": None, "c": {"body": "t", "corpus": "books"}},
            "recipes": {"r": {"options": {"top": 260}}},
        },
    },
    "corpora": {"leads": {"dump": "l"}},
    "datasets": {
        "mine": {"reader": "x"},
        "titled": {"reader": "x", "title": "none"},
        "kept": {"reader": "x"},
        "trainer": {"reader": "x", "vocabulary": "books"},
    },
    "encoders": {"a": {"body": "t", "start": "b", "budget": "short"}, "b": {"body": "t"}},
    "recipes": {"r": {"recipe": "base", "options": {"top": 43, "parts": "ot"}}, "s": {}},
}


@pytest.fixture
def config() -> dict[str, Any]:
    return copy.deepcopy(CONFIG)


def test_entries_are_laid_over_key_by_key_and_null_takes_away(config) -> None:
    made = at_scale(config)
    assert made["encoders"] == {"a": {"body": "t", "budget": "long"}, "c": {"body": "t", "corpus": "books"}}
    assert made["recipes"] == {"r": {"recipe": "base", "options": {"top": 260}}, "s": {}}
    assert made["datasets"]["titled"] == {"reader": "x", "title": "separate"}
    assert list(made["corpora"]) == ["leads", "wiki", "books", "same"]
    assert config == CONFIG, "the configuration that was given stays as it is"
    assert at_scale(made) == made


def test_a_scale_with_data_sets_keeps_of_the_others_what_it_needs(config) -> None:
    assert set(at_scale(config)["datasets"]) == {"titled", "untitled", "kept", "trainer"}


def test_a_scale_with_data_sets_keeps_the_parts_of_its_means(config) -> None:
    config["datasets"]["part"] = {"reader": "x", "trained_on": "mine"}
    config["scales"]["big"]["means"] = {"all": ["titled", "more"], "more": ["part", "kept"]}
    made = at_scale(config)
    assert set(made["datasets"]) == {"titled", "untitled", "kept", "trainer", "part", "mine"}
    assert datasets_behind(made, "all") == ("titled", "part", "kept") and datasets_behind(made, "kept") == ("kept",)
    for wrong in (3, ["a"], {"all": 3}, {"all": [{}]}):
        config["scales"]["big"]["means"] = wrong
        assert "titled" in at_scale(config)["datasets"], "what is wrong with it, the schema's check says"


def test_a_scale_without_own_entries_is_the_configuration_itself(config) -> None:
    config["scale"] = "tiny"
    assert at_scale(config) is config


@pytest.mark.parametrize("wrong", [3, ["a"], {"a": 3}])
def test_what_is_no_entry_is_refused(config, wrong) -> None:
    config["scales"]["big"]["encoders"] = wrong
    with pytest.raises(ConfigError, match=r"scales\.big\.encoders.* is not allowed; expected keys"):
        at_scale(config)


@pytest.mark.parametrize(
    ("key", "wrong"), [("roles", ["x"]), ("roles", {"dev": ["x"]}), ("datasets", {"x": {"trained_on": ["x"]}})]
)
def test_shapes_that_the_schema_refuses_are_left_to_it(config, key, wrong) -> None:
    config["scales"]["big"][key] = wrong
    assert at_scale(config)["scales"]["big"]["vocabulary_size"] == 200


def test_a_role_of_one_paper_goes_before_the_general_one(config) -> None:
    assert roles_of(config, "seed") == {"dev": "untitled", "old": "kept"}
    assert roles_of(config, "other") == roles_of(config, None) == {"dev": "titled", "old": "kept"}


def test_vocabularies(config) -> None:
    made = at_scale(config)
    assert (corpus_of(made, "a"), corpus_of(made, "c")) == ("wiki", "books")
    assert (vocabulary_corpus(made, "titled"), vocabulary_corpus(made, "untitled")) == ("wiki", "books")
    assert vocabulary_of(made, "wiki") == (200, "bert.txt", "bert.txt")
    assert vocabulary_of(made, "books") == (300, "", "trained on books"), "its own size is without the scale's file"
    assert vocabulary_of(made, "same").name == vocabulary_of(made, "wiki").name
    readable = {(encoder, data): reads(made, encoder, data) for encoder in "ac" for data in ("titled", "untitled")}
    assert [pair for pair, answer in readable.items() if answer] == [("a", "titled"), ("c", "untitled")]
    assert used_corpora(made) == ["wiki", "books"]
    check_scale(made)


@pytest.mark.parametrize(
    ("section", "name", "change", "words"),
    [
        (
            "encoders",
            "a",
            {"start": "c"},
            "encoders.a.corpus: 'wiki' has the vocabulary 'bert.txt', but its start 'c' has 'trained on books'",
        ),
        (
            "encoders",
            "a",
            {"corpus": "wikki"},
            "encoders.a.corpus: 'wikki' is not allowed; allowed: books, leads, same, wiki; did you mean 'wiki'?",
        ),
        (
            "datasets",
            "untitled",
            {"vocabulary": "same"},
            "datasets.untitled.vocabulary: 'same' has the vocabulary 'bert.txt', but 'trainer'",
        ),
        ("datasets", "kept", {"vocabulary": "no"}, "datasets.kept.vocabulary: 'no' is not allowed"),
        (
            "datasets",
            "kept",
            {"corpus": "no"},
            "datasets.kept.corpus: 'no' is not allowed; allowed: books, leads, same",
        ),
        ("datasets", "kept", {"corpus": "wiki"}, "datasets.kept.corpus: the reader 'x' takes nothing from a corpus"),
    ],
)
def test_what_does_not_go_together(config, section, name, change, words) -> None:
    made = dict(at_scale(config))
    made[section] = made[section] | {name: made[section][name] | change}
    with pytest.raises(ConfigError) as caught:
        check_scale(made)
    assert words in str(caught.value)


def test_a_data_set_is_made_of_its_own_corpus_or_the_scales(config) -> None:
    made = dict(at_scale(config))
    own = {"reader": "descriptions", "corpus": "books"}
    made["datasets"] = made["datasets"] | {"own": own, "asked": {"reader": "x", "open": True}}
    check_scale(made)
    assert [(name, articles_of(made, name)) for name in made["datasets"] if wants_corpus(made, name)] == [
        ("own", "books"),
        ("asked", "wiki"),
    ]
    assert vocabulary_corpus(made, "own") == "wiki", "its words are the scale's all the same"


def test_a_cell_of_two_vocabularies_is_not_run_and_says_why() -> None:
    setting = Setting(
        "results/big", "big", (1,), {"dev": "untitled"}, frozenset({"a", "c"}), frozenset({"r"}),
        vocabularies={"encoders.c": "trained on books", "datasets.untitled": "trained on books"},
    )  # fmt: skip

    def why(system: str) -> str:
        cell = Cell("", "", system, "dev", "mrr@10", "", "", "", "")
        return setting.why_not_run(cell)

    assert (
        why("a.r-full")
        == "encoder a reads the vocabulary of the big scale, the data set untitled is made with trained on books"
    )
    assert why("c.r-full") == why("bm25.r-full") == ""
