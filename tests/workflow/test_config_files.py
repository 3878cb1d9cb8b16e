"""A user's configuration is laid over the files of ``config/``: it says only what is new or other.

Seen to fail when: a mapping is replaced in place of laid over; null is kept, or removes an entry of a scale as well; ``each`` is
expanded after the user's file is laid over it; an entry shares an object with another; the words of ``--config`` replace whole
sections; rules/common.smk takes the configuration as Snakemake has it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.official.beir import SETS
from pretrieve.models.config import BodyConfig
from pretrieve.references.yaml_files import read_yaml
from pretrieve.workflow.config_files import complete, read_config, read_part
from pretrieve.workflow.job_options import encoder_options
from pretrieve.workflow.plan import Plan, as_argument
from pretrieve.workflow.scales import of_one_scale

ROOT = Path(__file__).parents[2]


def plan_of(config: dict) -> Plan:
    return Plan.load(config, ROOT / "references", ROOT / "resources/sources.tsv")


@pytest.fixture(scope="module")
def whole() -> dict:
    return complete({}, ROOT)


def test_what_a_user_edits_is_short_and_says_what_every_key_means() -> None:
    lines = (ROOT / "config.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    own = read_part(ROOT / "config.yaml")
    keys = [*own, *own["my_corpus_options"]]
    for key in keys:
        place = next(number for number, line in enumerate(lines) if line.lstrip().startswith(f"{key}:"))
        assert "#" in lines[place] or lines[place - 1].lstrip().startswith("#"), key
    for file in (ROOT / "config").rglob("*.yaml"):
        assert not own.keys() & read_part(file).keys(), f"{file} says again what config.yaml says"


def test_keys_are_laid_over_keys_and_lists_replace_lists(whole) -> None:
    mine = {"body": "transformer", "layers": "deep", "start": "base", "objective": "condenser", "budget": "continued"}
    made = complete(
        {
            "encoders": {"mine": mine, "dupmae-ot": {"options": {"decode": "cls"}}},
            "scales": {"demo": {"dims": {"full": 64}, "corpus": "wikispeedia"}},
            "datasets": {"questions": {"metrics": ["mrr"]}},
            "tables": ["pretraining_tasks/table3"],
        },
        ROOT,
    )
    assert made["encoders"] == whole["encoders"] | {
        "mine": mine,
        "dupmae-ot": whole["encoders"]["dupmae-ot"] | {"options": {"decode": "cls"}},
    }
    demo = whole["scales"]["demo"]
    assert made["scales"] == whole["scales"] | {
        "demo": demo | {"dims": demo["dims"] | {"full": 64}, "corpus": "wikispeedia"}
    }
    assert made["datasets"]["questions"] == whole["datasets"]["questions"] | {"metrics": ["mrr"]}
    assert made["tables"] == ["pretraining_tasks/table3"] and made["recipes"] == whole["recipes"]
    assert "mine" in plan_of(made).config["encoders"]


def test_null_takes_away_and_in_a_scales_own_entries_stays(whole) -> None:
    own = {
        "encoders": {"seed-1-2": None, "dupmae-ot": {"options": None}},
        "scales": {"paper": {"encoders": {"seed-1-2": None}, "finetuning": {"ance": {"curve": None}}}},
        "mirror": None,
    }
    made = complete(own, ROOT)
    assert "seed-1-2" not in made["encoders"] and "options" not in made["encoders"]["dupmae-ot"]
    assert made["scales"]["paper"]["encoders"]["seed-1-2"] is None, "it takes the general entry away"
    assert made["scales"]["paper"]["finetuning"]["ance"] == {} and made["mirror"] is None
    assert "seed-1-2" not in plan_of(complete({"scale": "paper"} | own, ROOT)).config["encoders"]


def test_one_entry_stands_for_each_set_of_beir(whole) -> None:
    sets = {name: entry for name, entry in whole["scales"]["paper"]["datasets"].items() if name.startswith("beir-")}
    names = {entry["reader_options"]["name"] for entry in sets.values()}
    assert len(sets) == 25 and names == SETS.keys() - {"msmarco", "bioasq", "signal1m", "trec-news", "robust04"}
    files = {"corpus": "beir-cqadupstack-gis-corpus", "queries": "beir-cqadupstack-gis-queries"}
    assert sets["beir-cqadupstack-gis"]["files"] == files | {"test": "beir-cqadupstack-gis-qrels-test"}
    made = complete({"scales": {"paper": {"datasets": {"beir-nq": {"depth": 7}}}}}, ROOT)["scales"]["paper"]["datasets"]
    assert made["beir-nq"] == sets["beir-nq"] | {"depth": 7} and made["beir-fiqa"] == sets["beir-fiqa"]
    own = {
        "datasets": {
            "mine": {"each": {"a-x": "a/x"}, "reader": "beir", "files": {"corpus": "{file}.jsonl", "test": "{word}"}}
        }
    }
    assert complete(own, ROOT)["datasets"]["a-x"] == {"reader": "beir", "files": {"corpus": "a-x.jsonl", "test": "a/x"}}
    with pytest.raises(ConfigError, match=r"datasets.mine.each: \['a'\] is not allowed; expected NAME: WORD"):
        complete({"datasets": {"mine": {"each": ["a"]}}}, ROOT)


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_a_data_set_that_a_user_adds_is_in_every_scale(scale, tmp_path) -> None:
    """Where the scale has data sets of its own, it was dropped without a word."""
    files = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "test": "test.tsv"}
    mine = {"reader": "beir", "files": files, "trained_on": "questions", "sizes": {"full": "all"}}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"datasets": {"mine": mine, "link-clicks": {"max_examples": 9}}}))
    for config in (
        complete({"scale": scale, "datasets": {"mine": mine}}, ROOT),
        read_config(file, [f"scale={scale}"]),
        read_config(file, ["datasets={mine: {depth: 200}}", f"scale={scale}"]),
        read_config(file) | {"scale": scale},
    ):
        made = plan_of(config).config["datasets"]
        assert made["mine"] in (mine, mine | {"depth": 200})
        assert ("link-clicks" in made) == (scale == "demo"), "another scale has no use for it"


def test_no_two_entries_share_an_object(whole) -> None:
    """A change of one would be of both, as Snakemake's of ``--config`` are."""
    waiting, seen = [whole], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            assert id(value) not in seen, value
            seen.add(id(value))
            waiting += value.values() if isinstance(value, dict) else value
    assert len(seen) > 500


def test_words_of_the_command_line_are_laid_over_too(tmp_path, whole) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("scale: small\nscales: {small: {dims: {full: 64}}}\n")
    made = read_config(file, ["seeds=[1,2]", "scales={small: {dims: {half: 32}}}", "only=[bm25]"])
    assert made["scales"]["small"]["dims"] == whole["scales"]["small"]["dims"] | {"full": 64, "half": 32}
    assert (made["scale"], made["seeds"], made["only"]) == ("small", [1, 2], ["bm25"])
    with pytest.raises(ConfigError, match=r"--config 'seeds': expected KEY=VALUE"):
        read_config(file, ["seeds"])
    file.write_text("- a\n")
    with pytest.raises(ConfigError, match=r"mine.yaml: found list; expected keys and values"):
        read_config(file)
    file.write_text("a: [\n")
    with pytest.raises(ConfigError, match=r"mine.yaml: not readable as YAML"):
        read_config(file)


def test_a_section_that_stands_twice_is_refused_and_not_half_lost(tmp_path) -> None:
    """YAML's readers would take the second and say nothing; what is merged may stand twice."""
    file = tmp_path / "mine.yaml"
    file.write_text("scales: {demo: {query_length: 16}}\nseeds: [1]\nscales:\n  demo: {passage_length: 32}\n")
    for read in (read_part, lambda file: read_yaml(file, "claims")):
        with pytest.raises(
            ConfigError, match=r"(?s)mine.yaml: .*the key 'scales' stands here again; .*line 3, column 1"
        ):
            read(file)
    file.write_text("a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: [*b, *a], x: 3}\n")
    assert read_part(file)["c"] == {"x": 3}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"# seeds: [1]\n", "corpus"),
        (b"- seeds\n", "ConfigError: config.yaml: found list; expected keys and values"),
        (b"seeds:\n\t- 1\n", "ConfigError: config.yaml: not readable as YAML: while scanning .* line 2, column 1"),
        (b"# caf\xe9\nseeds: [1]\n", "ConfigError: config.yaml: not readable as YAML: 'utf-8' codec"),
    ],
)
def test_a_config_yaml_that_says_nothing_or_nonsense(project, tmp_path, content, words) -> None:
    """Snakemake would refuse each, without the file's name."""
    (tmp_path / "config.yaml").write_bytes(content)
    ended = project.run("-s", str(project.folder / "Snakefile"), "--directory", str(tmp_path), "--list-rules")
    assert re.search(words, ended.text) and "Error in file" not in ended.text, ended.text
    assert (ended.code == 0) == (words == "corpus")


def test_a_file_of_configfile_that_says_a_section_twice(project, tmp_path) -> None:
    (tmp_path / "mine.yaml").write_text("encoders: {a: null}\nencoders: {b: null}\n")
    ended = project.run("--list-rules", "--configfile", str(tmp_path / "mine.yaml"))
    assert ended.code == 1 and "mine.yaml: not readable as YAML: the key 'encoders' stands here again" in ended.stderr
    (tmp_path / "mine.json").write_text('{\n\t"seeds":\t[1]\n}\n')
    assert project.run("--list-rules", "--configfile", str(tmp_path / "mine.json")).code == 0


def test_folders_and_columns_whose_names_are_numbers_keep_them() -> None:
    """A table that pandas wrote without names has the columns 0, 1, 2."""
    made = complete({"my_corpus": "2024", "mirror": "null", "my_corpus_options": {"columns": {"text": "0"}}}, ROOT)
    assert (made["my_corpus"], made.get("mirror"), made["my_corpus_options"]["columns"]) == (
        "2024",
        None,
        {"text": "0"},
    )
    with pytest.raises(ConfigError, match=r"my_corpus: 2024 is not allowed; expected a text or nothing: write it in"):
        plan_of(complete({"my_corpus": 2024}, ROOT))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "datasets: {questions: {sizes: {500: 100}}}",
            "config: datasets.questions.sizes: YAML reads the key 500 as int",
        ),
        ("encoders: {2024: {body: t5}}", "config: encoders: YAML reads the key 2024 as int"),
        ("scales: {demo: {roles: {yes: questions}}}", "config: scales.demo.roles: YAML reads the key True as bool"),
    ],
)
def test_a_key_that_is_no_text_is_refused(text, words) -> None:
    with pytest.raises(ConfigError, match=f"{words}; expected a text: write it in quotes"):
        complete(yaml.safe_load(text), ROOT)


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_one_scale_is_enough_for_what_reads_results(whole, scale) -> None:
    """And its words are far from the 128 KiB that Linux lets one argument have."""
    plan = plan_of(whole | {"scale": scale})
    one = of_one_scale(plan.config)
    assert len(as_argument(one)) < 40_000
    again = plan_of(one)
    assert (again.scale, again.root, again.seeds) == (plan.scale, plan.root, plan.seeds)
    assert all(
        again.table_inputs(*name.split("/")) == plan.table_inputs(*name.split("/")) for name in plan.config["tables"]
    )


def test_the_smallest_scale_is_one(project, tmp_path) -> None:
    """As config/README.md has it: it is planned, and its numbers make every encoder."""
    (block,) = re.findall(r"^```yaml\n(scale: .*?)^```$", (ROOT / "config/README.md").read_text(), re.M | re.S)
    (tmp_path / "config.yaml").write_text(block)
    config = plan_of(read_config(tmp_path / "config.yaml")).config
    for name in config["encoders"]:
        options = encoder_options(config, name)
        BodyConfig.from_dict(options.body)
        assert options.objective.get("skip_layer", 0) < options.body.get("layers", 1), name
    planned = project.plan("-s", str(project.folder / "Snakefile"), "--directory", str(tmp_path))
    assert planned.jobs["table"] == 1 and planned.count("pretrain") > 1


@pytest.mark.parametrize("page", ["reproduce-a-table", "data", "example-tasks", "fine-tuning", "pretraining-tokens"])
def test_the_settings_that_a_page_shows_are_taken(page, tmp_path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / f"docs/{page}.md").read_text(), re.M | re.S)
    (tmp_path / "config.yaml").write_text(block)
    plan_of(read_config(tmp_path / "config.yaml"))


def test_the_workflow_takes_a_small_file_for_all_of_it(project, tmp_path) -> None:
    mine = {"encoders": {"mine": {"body": "transformer", "layers": "deep", "objective": "mlm", "budget": "base"}}}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(mine))
    ended = project.run("encoders", "--summary", "--configfile", str(file), "--config", "encoders={seed-1-8: null}")
    assert ended.code == 0, ended.text
    assert "encoders/mine/seed1" in ended.text and "encoders/cocondenser/seed1" in ended.text
    assert "encoders/seed-1-8/seed1" not in ended.text
