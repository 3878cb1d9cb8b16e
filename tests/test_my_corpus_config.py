"""The configuration that is made for a folder of one's own.

Seen to fail when: ``with_my_corpus`` changes the configuration it is given; a recipe's own start is left behind.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from pretrieve.base.errors import ConfigError, PretrieveError
from pretrieve.workflow import my_corpus
from pretrieve.workflow.config_files import complete
from pretrieve.workflow.configuration import check_config
from pretrieve.workflow.job_options import encoder_options, recipe_options
from pretrieve.workflow.my_corpus_rows import table_inputs, table_request
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import at_scale


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": f"d{n}", "text": f"A sentence about {n}. Another one."}) for n in range(30)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "one?"}\n{"_id": 2, "text": "two?"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n2\td29\t0\n")
    return folder


def test_the_configuration_is_the_folders(folder: Path, config: dict) -> None:
    before = copy.deepcopy(config)
    assert my_corpus.with_my_corpus(config) is config, "without a folder nothing changes"
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert config == before
    check_config(made, made["tables"])
    assert made["datasets"]["my-corpus"]["trained_on"] == "my-corpus-pairs" and "bert" in made["encoders"]
    options, made = made["my_corpus_options"], made
    retromae = encoder_options(made, "retromae")
    assert retromae.budget.to_dict() == options["budgets"]["continued"]
    assert retromae.objective["length"] == options["passage_length"]
    published = encoder_options(made, "published")
    assert retromae.start == published.start == options["start"] and published.budget is None
    assert encoder_options(made, "ict").head == "none", "the start's own vectors, through no fresh projection"
    assert encoder_options(made, "condenser").objective["skip_layer"] == 3
    request = table_request(made, "results/demo/my_corpus")
    kinds = [row["kind"] for row in request["rows"]]
    dense, seeds = len(options["objectives"]) - 1 + 2, len(options["seeds"])  # no sections, so no ICT + BFS
    assert kinds[:3] == ["bm25", "as-is", "fine-tuned"] and kinds.count("hybrid") == dense
    assert kinds.count("continued") == dense - 2 and "rerank" not in kinds and "scratch" not in kinds
    assert request["lengths"] == {"query_length": 64, "passage_length": options["passage_length"]}
    assert len(table_inputs(request)) == 1 + 2 * (1 + (dense - 1) * seeds) + 2
    for row in request["rows"]:
        assert row.keys() >= {"label", "system", "seeds", "costs"} and (row["kind"] == "hybrid") == ("dense" in row)
    with open(folder / "queries.jsonl", "a") as stream:
        stream.writelines(f'{{"_id": "t{n}", "text": "what?"}}\n' for n in range(4))
    (folder / "qrels/train.tsv").write_text("".join(f"t{n}\td1\t1\n" for n in range(4)))
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert set(made["datasets"]) == {"my-corpus"} and "trained_on" not in made["datasets"]["my-corpus"]
    assert table_request(made, "x")["rows"][-1]["kind"] == "rerank", "there are pairs to train a cross-encoder with"
    made["my_corpus_options"]["rerank"] = 0
    assert table_request(made, "x")["rows"][-1]["kind"] == "hybrid"


@pytest.mark.parametrize(("name", "conventions", "more"), [("arguana", ["drop-identical-ids"], 1), ("scifact", [], 0)])
def test_the_query_itself_is_dropped_in_arguana(folder: Path, config: dict, name: str, conventions, more: int) -> None:
    """Its queries are documents. One more hit is kept, for the metrics cut the list after that."""
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder.rename(folder.with_name(name)))})
    check_config(made, made["tables"])
    data, request = made["datasets"]["my-corpus"], table_request(made, "x")
    assert data.get("conventions", []) == request.get("conventions", []) == conventions
    assert data["depth"] == request["depth"] == made["my_corpus_options"]["depth"] + more
    assert any("a hit with that id is dropped" in line for line in request["remarks"]) == bool(conventions)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_a_scale_with_entries_of_its_own_compares_too(folder: Path, config: dict, scale: str) -> None:
    """Its entries were not laid over the general ones before the check, and its ``originals`` were of roles that had gone."""
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder), "scale": scale})
    check_config(made, made["tables"])
    assert {"my-corpus", "my-corpus-pairs"} == set(made["datasets"]) and "bert" in made["encoders"]


def test_random_weights_are_a_row_on_request(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["objectives"] = ["scratch"]
    made = my_corpus.with_my_corpus(config)
    assert encoder_options(made, "scratch").start is None
    assert encoder_options(made, "scratch").body["hidden"] == encoder_options(made, "published").body["hidden"] == 384
    assert [row["kind"] for row in table_request(made, "x")["rows"]][2:4] == ["fine-tuned", "scratch"]


@pytest.mark.parametrize("name", ["optimus", "cocondenser"])
def test_other_objectives_are_rows_on_request(folder: Path, config: dict, name: str) -> None:
    """The preset of coCondenser is for twelve layers."""
    config["my_corpus_options"]["objectives"] = [name]
    plan = Plan.load(my_corpus.with_my_corpus(config | {"my_corpus": str(folder)}))
    assert name in plan.config["encoders"]


def test_a_recipe_brings_what_it_goes_on_from(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["recipe"] = "dpr-hard"
    assert set(my_corpus.with_my_corpus(config)["recipes"]) == {"dpr-hard", "dpr-bm25", "as-it-is", "reranker"}


NO_RETRIEVER = {"as-it-is", "dupmae-teacher", "dupmae-teacher-cls", "sts", "sections", "glue", "news"}


@pytest.mark.parametrize("scale", ["demo", "paper"])
def test_every_recipe_that_trains_a_retriever_of_vectors_is_configured(folder: Path, config: dict, scale: str) -> None:
    """Chains were refused for options of the scale that nobody had written for this folder: another head of the start, a mean
    where [CLS] is needed, a thousand negatives."""
    config |= {"my_corpus": str(folder), "scale": scale}
    for recipe in config["recipes"]:
        config["my_corpus_options"]["recipe"] = recipe
        joint = recipe.startswith("dupmae") and not recipe.endswith("-cls")
        if recipe in NO_RETRIEVER or joint:
            words = "trains no retriever" if recipe in NO_RETRIEVER else "set .*finetuning.representation: dense"
            with pytest.raises(ConfigError, match=rf"my_corpus_options.recipe: '{recipe}'.*{words}"):
                my_corpus.with_my_corpus(config)
            continue
        made = my_corpus.with_my_corpus(config)
        check_config(made, made["tables"])
        for name in made["recipes"].keys() - {"reranker", "as-it-is"}:
            options, own = recipe_options(made, name, "my-corpus"), config["my_corpus_options"]
            given = dict(own["reranker" if options["kind"] == "cross-encoder" else "finetuning"])
            given |= at_scale(config)["recipes"][name].get("options", {})  # ance-long has steps of its own
            for key in ("batch", "steps", "learning_rate", "pooling", "similarity", "temperature"):
                assert options.get(key) == given.get(key), (recipe, name, key)
            assert (options["query_length"], options["passage_length"]) == (64, 256)
            assert options["schedule_steps"] == 0, "a rate of 273,437 steps would not leave its warm-up"
            assert options["group"] == (given["group"] if options["negatives"] else 1)
            assert options["pool"] <= made["mining_depth"]
            assert options["refresh"] == (min(-(-given["steps"] // 3), 10_000) if name.startswith("ance") else 0)


def test_dupmaes_three_stages_are_the_papers(folder: Path, config: dict) -> None:
    """What a user says of the last is said of its shape and its steps, not of its negatives."""
    config["my_corpus"] = str(folder)
    options = config["my_corpus_options"]
    options["recipe"] = "dupmae-3stage"
    options["finetuning"] |= {"representation": "dense", "negatives": ["bm25"], "pool": 50, "contrastive_weight": 0.1}
    made = my_corpus.with_my_corpus(config)
    check_config(made, made["tables"])
    stage = {name: recipe_options(made, name, "my-corpus") for name in made["recipes"]}
    assert stage.keys() == {f"dupmae-{name}" for name in ("1stage", "2stage", "3stage", "teacher")} | {
        "reranker",
        "as-it-is",
    }
    assert stage["dupmae-3stage"]["negatives"] == ["bm25"] and stage["dupmae-3stage"]["teacher"] == "dupmae-teacher"
    assert stage["dupmae-3stage"]["start"] == "dupmae-2stage" and stage["dupmae-2stage"]["start"] == "dupmae-1stage"
    for name in ("dupmae-2stage", "dupmae-teacher"):
        assert stage[name]["negatives"] == ["mined:dupmae-1stage"]
    assert stage["dupmae-2stage"]["pool"] == 50 and stage["dupmae-teacher"]["pool"] == options["reranker"]["pool"]


@pytest.mark.parametrize(
    ("recipe", "given", "words"),
    [
        ("ance", {"pool": 500}, "finetuning.pool: 500 documents of each list of negatives, but mining_depth is 200"),
        ("dpr-hard", {"pool": 1, "group": 4}, "finetuning.pool: 1 for a query, of each list, but a group has 3"),
        ("dupmae-3stage-cls", {"group": 1}, "finetuning: group 1 leaves a query no negative"),
        ("dupmae-3stage-cls", {"loss": "hinge"}, "finetuning.loss: 'hinge' is not allowed; allowed: distillation"),
        (
            "dual-t5-ade",
            {"head": "none"},
            "finetuning.head: with none a vector is the body's 384 numbers, but .*dim 768",
        ),
        ("reqa-half", {"head": "none", "dim": "hidden"}, "finetuning.head: .* dim half; expected another head$"),
        (
            "dpr-bm25",
            {"negatives": ["mined:dupmae-1stage"]},
            "recipe: 'dupmae-1stage' has a joint representation",
        ),
        (
            "dpr-bm25",
            {"negatives": ["mined:dupmae-teacher-cls"]},
            "finetuning.negatives: 'dupmae-teacher-cls' trains a model of kind",
        ),
        (
            "dpr-bm25",
            {"negatives": ["mined:nix"]},
            "finetuning: 'nix', which dpr-bm25 starts from or takes negatives of",
        ),
    ],
)
def test_options_of_a_chain_are_refused_by_the_users_keys(
    folder: Path, config: dict, recipe: str, given: dict, words: str
) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["recipe"] = recipe
    config["my_corpus_options"]["finetuning"] |= given
    with pytest.raises(ConfigError, match=rf"config: my_corpus_options\.{words}"):
        made = my_corpus.with_my_corpus(config)
        check_config(made, made["tables"])


def test_a_recipes_own_option_is_not_called_the_users(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["recipe"] = "dupmae-2stage-cls"
    config["my_corpus_options"]["finetuning"] |= {"negatives": ["bm25"], "group": 1}
    made = my_corpus.with_my_corpus(config)
    with pytest.raises(
        ConfigError, match=r"recipes\.dupmae-2stage-cls\.options\.negatives: \['mined:dupmae-1stage-cls'\]"
    ):
        check_config(made, made["tables"])


def test_a_teacher_has_what_is_said_of_the_reranker(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    options = config["my_corpus_options"]
    options["recipe"] = "dupmae-3stage"
    options["finetuning"]["representation"] = "dense"
    options["reranker"]["negatives"] = ["mined:dupmae-1stage"]
    made = my_corpus.with_my_corpus(config)
    assert recipe_options(made, "dupmae-teacher", "my-corpus")["negatives"] == ["mined:dupmae-1stage"]
    assert not [line for line in my_corpus.remarks(made) if "reranker" in line]


@pytest.mark.parametrize(
    ("recipe", "given", "line"),
    [
        ("dpr-hard", {}, None),
        ("ance", {"head": "none"}, None),
        (
            "ance",
            {},
            "(head: linear-norm) is put behind the start; .*{head: none, dim: hidden}} leaves it out",
        ),
        ("reqa-half", {}, "(head: linear) is put behind the start$"),
    ],
)
def test_a_fresh_projection_is_told(folder: Path, config: dict, recipe: str, given: dict, line: str | None) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"]["recipe"] = recipe
    config["my_corpus_options"]["finetuning"] |= given
    found = [one for one in my_corpus.remarks(my_corpus.with_my_corpus(config)) if "projection" in one]
    assert len(found) == (line is not None)
    assert line is None or re.search(line.replace("(", r"\(").replace(")", r"\)"), found[0])


def test_all_rows_read_as_much_as_the_recipe(folder: Path, config: dict) -> None:
    """The published encoder read 256 tokens beside others that read 128, and the table said 128 of both."""
    options = config["my_corpus_options"]
    options["finetuning"] |= {"query_length": 32, "passage_length": 128}
    options["reranker"]["passage_length"] = 96
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    request = table_request(made, "results/demo/my_corpus")
    assert request["lengths"] == {"query_length": 32, "passage_length": 128}
    for recipe, length in (("as-it-is", 128), ("reranker", 96)):
        found = recipe_options(made, recipe, "my-corpus")
        assert (found["query_length"], found["passage_length"]) == (32, length)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("recipe", "dpr-bm52", "my_corpus_options.recipe: 'dpr-bm52' is not allowed"),
        ("recipe", "as-it-is", "my_corpus_options.recipe: 'as-it-is' trains no retriever; expected one that does"),
        ("recipe", "news", "my_corpus_options.recipe: 'news' trains no retriever"),
        ("objectives", ["berd"], "my_corpus_options.objectives: 'berd'.*did you mean 'bert'"),
        ("passage_length", 4096, "passage_length: 4096 is not allowed; expected 7 to 512"),
        ("passage_length", 6, "my_corpus_options.passage_length: 6 is not allowed; expected 7 to 512"),
        ("depth", 20, "my_corpus_options.depth: 20 hits of a query are too few for the metrics; expected 100 or more"),
        (
            "budgets",
            {
                name: {"batch": 4, "steps": 20, "learning_rate": 1.0e-5, "heads_steps": 30, "heads_rate": 1.0e-3}
                for name in ("scratch", "continued", "pairs")
            },
            "config: my_corpus_options.budgets.[a-z]+.heads_steps: 30 of 20 steps; expected fewer",
        ),
        ("depth", 2**31, "my_corpus_options.depth: 2147483648 is not allowed: .* the maximum of 2147483647"),
        (
            "language",
            "english",
            "my_corpus_options.language: 'english' is not allowed; allowed: ar, auto, bn, .*, no, ",
        ),
    ],
)
def test_a_wrong_option_is_refused(folder: Path, config: dict, key: str, value: object, words: str) -> None:
    config["my_corpus"] = str(folder)
    config["my_corpus_options"][key] = value
    with pytest.raises(ConfigError, match=words):
        check_config(my_corpus.with_my_corpus(config), config["tables"])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, None),
        ({"my_corpus_options": {"pairs": 100}}, "my_corpus_options.pairs has no effect: none are made"),
        (
            {"my_corpus_options": {"objectives": ["bert"], "pretraining": {"dupmae": {"decode": "cls"}}}},
            "my_corpus_options.pretraining.dupmae has no effect: no row has this objective",
        ),
        (
            {"my_corpus_options": {"budgets": {"scratch": {"batch": 8}}}},
            "my_corpus_options.budgets.scratch has no effect: no row has it",
        ),
        (
            {"my_corpus_options": {"recipe": "reqa-half", "finetuning": {"dim": "full"}}},
            "my_corpus_options.finetuning.dim has no effect: the recipe has half",
        ),
        (
            {"my_corpus_options": {"recipe": "dupmae-1stage-cls", "finetuning": {"group": 4}}},
            "my_corpus_options.finetuning.group has no effect: the recipe does not have it",
        ),
        (
            {"my_corpus_options": {"reranker": {"negatives": ["mined:dpr-bm25"]}}},
            "my_corpus_options.reranker.negatives has no effect: the recipe has ['bm25']",
        ),
        ({"seeds": [5]}, "seeds has no effect: my_corpus_options.seeds is [1, 2]"),
        ({"bm25": {"language": "de"}}, "bm25.language has no effect: my_corpus_options.language is auto"),
        ({"metrics": ["mrr"]}, "metrics has no effect: the table has ndcg@10, mrr@10, recall@10, recall@100"),
        ({"only": ["bm25"]}, "only has no effect: my_corpus_options.objectives decides the rows"),
    ],
)
def test_a_setting_without_effect_is_told(folder: Path, given: dict, line: str | None) -> None:
    with open(folder / "queries.jsonl", "a") as stream:
        stream.writelines(f'{{"_id": "t{n}", "text": "what?"}}\n' for n in range(4))
    (folder / "qrels/train.tsv").write_text("".join(f"t{n}\td1\t1\n" for n in range(4)))
    config = complete(given | {"my_corpus": str(folder)})
    made = my_corpus.with_my_corpus(config)
    check_config(made, made["tables"])
    assert [one for one in my_corpus.remarks(made) if "no effect" in one] == [line] * (line is not None)
    planned = config["my_corpus_options"] | {"timetable": "timetable.json"}
    remarks = my_corpus.remarks(my_corpus.with_my_corpus(config | {"my_corpus_options": planned}))
    assert not any("budgets" in one for one in remarks), "a plan has written those of all rows"


def test_without_training_questions_there_is_no_cross_encoder(folder: Path, config: dict) -> None:
    config["my_corpus"] = str(folder)
    for hits in (20, 0):
        config["my_corpus_options"]["rerank"] = hits
        remarks = my_corpus.remarks(my_corpus.with_my_corpus(config))
        assert any("no row with a cross-encoder (rerank)" in line for line in remarks) == bool(hits)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"documents": "sections"}, "documents: .*/corpus.jsonl has BEIR's layout, .*; leave documents out$"),
        ({"columns": {"id": "key"}}, "columns: .* leave columns out, or name the file, a table: my_corpus=.*jsonl$"),
        (
            {"scale": {"passage_length": 99}},
            "scale.passage_length: unknown key; allowed: body, dims, layers, pooling, ",
        ),
    ],
)
def test_an_option_of_other_places_is_refused(folder: Path, given: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"config: my_corpus_options\.{words}"):
        my_corpus.with_my_corpus(complete({"my_corpus": str(folder), "my_corpus_options": given}))


def test_names_that_are_not_utf8(folder: Path, config: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were a traceback: of a file that is passed over, and of the folder; another one would have come with the table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for place, name in (("texts", b"a.md"), ("texts", b"caf\xe9.png"), (folder / "qrels", b"caf\xe9.tsv")):
        Path(place, os.fsdecode(name)).write_text("A text. Another one.")
    for place, line in (
        (Path("texts"), "passed over: 1, the first: texts/caf\\udce9.png"),
        (folder, "caf\\udce9.tsv is not"),
    ):
        made = my_corpus.with_my_corpus(config | {"my_corpus": str(place)})
        assert line in "\n".join(my_corpus.remarks(made))
    (tmp_path / "texts").rename(tmp_path / os.fsdecode(b"caf\xe9"))
    with pytest.raises(ConfigError, match=r"my_corpus: the path 'caf\\udce9' is not UTF-8; expected one that is"):
        my_corpus.with_my_corpus(config | {"my_corpus": os.fsdecode(b"caf\xe9")})


def corpus(folder: Path, texts: list[str]) -> None:
    lines = [json.dumps({"_id": f"d{number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))


def test_texts_without_sentences_train_on_crops(folder: Path, config: dict) -> None:
    corpus(folder, [f"only a line of words without end {number}" for number in range(30)])
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    check_config(made, made["tables"])
    assert made["datasets"]["my-corpus-pairs"]["reader"] == "random-crops" and "ict" not in made["encoders"]
    corpus(folder, [f"A sentence about {number}. Another one." if number < 9 else "One. Two." for number in range(30)])
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert "my-corpus-pairs" not in made["datasets"], "nine documents that pairs can be made of"


@pytest.mark.parametrize("text", ["यह किताब नंबर {} है। वह बहुत अच्छी है और बड़ी है।", "นักเรียน {} อ่านหนังสือ ในห้องสมุด ทุกวัน"])
def test_sentences_of_scripts_with_marks_of_their_own_are_pairs(folder: Path, config: dict, text: str) -> None:
    """Of Hindi and Thai, also of the texts to pre-train on."""
    corpus(folder, [text.format(number) for number in range(30)])
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert made["datasets"]["my-corpus-pairs"]["reader"] == "inverse-cloze" and "ict" in made["encoders"]


def test_where_no_pairs_can_be_made_bm25_is_measured(
    folder: Path, config: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus(folder, ["One text of some words. And all are equal."] * 30)
    typo = config["my_corpus_options"] | {"objectives": ["berd"]}
    with pytest.raises(ConfigError, match="did you mean 'bert'"):
        my_corpus.with_my_corpus(config | {"my_corpus": str(folder), "my_corpus_options": typo})
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    check_config(made, made["tables"])
    assert set(made["datasets"]) == {"my-corpus"} and "trained_on" not in made["datasets"]["my-corpus"]
    assert [row["kind"] for row in table_request(made, "results")["rows"]] == ["bm25", "as-is", "hybrid"]
    my_corpus.print_remarks(made)
    assert table_request(made, "results")["remarks"] == my_corpus.remarks(made), "the table says it again"
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("my_corpus: ") for line in lines) and len(lines) == 3
    assert "nothing is trained" in lines[0] and "another one: 29" in lines[1] and "language: en" in lines[2]


def test_without_questions_nothing_is_said_of_training_and_hybrids(folder: Path, config: dict) -> None:
    corpus(folder, [f"Der Hund von Haus {number} wartet auf Regen. Dann geht er." for number in range(30)])
    (folder / "queries.jsonl").unlink()
    shutil.rmtree(folder / "qrels")
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    assert made["my_corpus_found"]["skipped"], "no sections for ict-bfs"
    assert [line.partition(":")[0] for line in my_corpus.remarks(made)] == ["no questions", "language"]


def test_a_card_names_each_file_of_the_folder_once(folder: Path, config: dict) -> None:
    plan = Plan.load(my_corpus.with_my_corpus(config | {"my_corpus": str(folder)}))
    assert sum("corpus.jsonl" in line for line in plan.licences("my-corpus-pairs")) == 1


def test_the_language_decides_the_analyser(folder: Path, config: dict) -> None:
    corpus(folder, [f"Der Hund von Haus {number} wartet auf Regen. Dann geht er." for number in range(30)])
    for said, language in (("auto", "de"), ("none", "none")):
        config["my_corpus_options"]["language"] = said
        made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
        check_config(made, made["tables"])
        assert made["bm25"] == {**config["bm25"], "language": language} and "language" not in config["bm25"]


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("my_corpus_options", "language", False),
        ("my_corpus_options", "start_languages", ["en", False]),
        ("bm25", "language", False),
    ],
)
def test_norwegian_needs_quotes(config: dict, section: str, key: str, value: object) -> None:
    """YAML 1.1 reads the word no as false, which another user may mean: it is no language."""
    assert yaml.safe_load("no") is False
    config[section] = config[section] | {key: value}
    with pytest.raises(
        ConfigError, match=rf'{section}.{key}.*: YAML reads the word no as false; expected "no", in quotes'
    ):
        check_config(config, config["tables"])


@pytest.mark.parametrize("sections", [False, True])
def test_objectives_that_documents_do_not_allow_are_skipped(folder: Path, config: dict, sections: bool) -> None:
    corpus(folder, [f"One {number}. Two.\n{'# Part' * sections}\nThree. Four." for number in range(30)])
    config["my_corpus_options"]["objectives"] = ["wlp", "ict-wlp", "ict-bfs", "ict"]
    made = my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
    no_links, no_sections = "documents of a folder have no links", "no sections (lines '# …')"
    skipped = {"wlp": no_links, "ict-wlp": no_links} | ({} if sections else {"ict-bfs": no_sections})
    assert set(made["encoders"]) == {"published", "ict", *(["ict-bfs"] if sections else [])}
    said = [line for line in my_corpus.remarks(made) if " is skipped: " in line]
    assert said == [f"{name} is skipped: {lacks}" for name, lacks in skipped.items()]


def test_a_place_that_is_no_folder_of_beirs_is_converted(
    folder: Path, config: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = folder.rename(folder.with_name("quora"))
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    (folder / "corpus.jsonl").unlink()
    rows = [f"{document['_id']},{document['text']}" for document in documents]
    (folder / "corpus.csv").write_text("\n".join(["id,text", *rows]))
    for place in (folder, folder / "corpus.csv"):
        made = my_corpus.with_my_corpus(config | {"my_corpus": str(place)})
        files = made["datasets"]["my-corpus"]["files"]
        assert files["corpus"] == "results/demo/my_corpus/documents/corpus.jsonl"
        assert files["test"] == str(folder / "qrels/test.tsv"), "questions stand beside"
        assert made["datasets"]["my-corpus"]["conventions"] == ["drop-identical-ids"], "whose they are, its name says"
    with pytest.raises(PretrieveError, match="none: no such file or folder"):
        my_corpus.with_my_corpus(config | {"my_corpus": "none"})


def test_judgements_that_the_conversion_has_no_ids_for(
    folder: Path, config: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note that says why was lost with the error."""
    monkeypatch.chdir(tmp_path)
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.csv").write_text("\n".join(["note,text", *(f"{one['_id']},{one['text']}" for one in documents)]))
    with pytest.raises(PretrieveError, match="is not an _id of .*Note on corpus.jsonl: table without a column of ids"):
        my_corpus.with_my_corpus(config | {"my_corpus": str(folder)})
