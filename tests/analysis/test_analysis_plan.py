"""What the configuration asks for, how mistakes in it end, and the program from end to end.

Seen to fail when: names, or lengths, are not checked; a data set's retrievers are looked for under its own name
instead of the one that is trained on; later seeds are left out; the program's CSV drops the stage; ``encoders`` reach
the program's options; the analyses are part of the configuration's hash; the program does not count its lists.
"""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pretrieve.analysis import plan
from pretrieve.analysis.shared import summary
from pretrieve.base import paths
from pretrieve.base.errors import ConfigError
from pretrieve.base.program import make_parser
from pretrieve.commands import analyse
from pretrieve.training.csv_rows import write_rows
from pretrieve.workflow.configuration import check_config, config_hash

ENTROPY, SIMILARITY, DECODER = (
    f"analyses.demo.{name}" for name in ("attention_entropy", "pair_similarity", "decoder_states")
)


def check(config: dict[str, Any]) -> None:
    check_config(config, config["tables"])


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    place = config
    for part in parents:
        place = place[part]
    place[last] = value
    return config


def test_the_repositorys_analyses(config) -> None:
    check(config)
    assert set(plan.analyses(config)) == {*plan.LENGTHS, "cls_use"}
    assert not plan.analyses(config | {"scale": "other"})
    assert config_hash(changed(config, f"{ENTROPY}.texts", 5)) == config_hash(config)
    assert paths.analysis_file("results/demo", "pair_similarity") == "results/demo/analyses/pair_similarity.csv"


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        ("analyses.dmo", {}, ["analyses.dmo: 'dmo'", "did you mean 'demo'?"]),
        ("analyses.demo.entropy", {}, ["analyses.demo.entropy: unknown key", "allowed: attention_entropy"]),
        (f"{ENTROPY}.encoders", ["condensr"], [f"{ENTROPY}.encoders: 'condensr'", "did you mean 'condenser'?"]),
        (f"{ENTROPY}.encoders", [], [f"{ENTROPY}.encoders: []"]),
        (f"{ENTROPY}.encoders", ["bow-mlp-none"], ["'bow-mlp-none' is a bow-mlp; it has no [CLS] state"]),
        (f"{ENTROPY}.length", 129, [f"{ENTROPY}.length: 129 is more than body.max_positions=128"]),
        (f"{ENTROPY}.length", 2, [f"{ENTROPY}.length: 2"]),
        (f"{ENTROPY}.texts", 0, [f"{ENTROPY}.texts: 0"]),
        (f"{ENTROPY}.finetuned.recipe", "rqa", [f"{ENTROPY}.finetuned.recipe: 'rqa'", "did you mean 'reqa'?"]),
        (f"{ENTROPY}.finetuned.size", "10pct", [f"{ENTROPY}.finetuned.size: '10pct'", "allowed: 1pct"]),
        (f"{ENTROPY}.finetuned.dataset", "question", ["finetuned.dataset: 'question'", "did you mean 'questions'?"]),
        (f"{SIMILARITY}.lengths", [64, 16, 200], [f"{SIMILARITY}.lengths: 200 is more than body.max_positions"]),
        (f"{DECODER}.encoders", ["condenser"], ["'condenser' has no decoder", "these have one: ", "seed-3-2"]),
    ],
)
def test_mistakes(config, path: str, value: Any, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        check(changed(config, path, value))
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_models(config) -> None:
    config["seeds"] = [1, 4]
    config["analyses"]["demo"]["attention_entropy"] |= {
        "encoders": ["condenser", "bert"],
        "finetuned": {"recipe": "reqa", "size": "80pct", "dataset": "fanoutqa"},
    }
    check(config)
    trained_on = config["datasets"]["fanoutqa"]["trained_on"]
    assert [tuple(model) for model in plan.models(config, "attention_entropy", "results/demo")] == [
        (encoder, seed, stage, f"results/demo/{folder}/seed{seed}")
        for encoder in ("condenser", "bert")
        for seed in (1, 4)
        for stage, folder in [
            ("pretrained", f"encoders/{encoder}"),
            ("reqa-80pct", f"retrievers/{encoder}.reqa-80pct/{trained_on}"),
        ]
    ]
    assert plan.program_options(config, "attention_entropy") == {"texts": 1000, "length": 64, "seed": 1}
    assert {model.stage for model in plan.models(config, "decoder_states", "r")} == {"pretrained"}


def test_rows(tmp_path: Path) -> None:
    import numpy as np

    assert summary("x", np.array([1.0, 2.0, 6.0])) == {"x": 3.0, "sd": 7**0.5, "n": 3}
    assert summary("x", np.array([2.5])) == {"x": 2.5, "sd": "", "n": 1}
    write_rows(
        tmp_path / "a" / "b.csv", [{"encoder": "e", "x": 1 / 3, "n": 1_000_000}, {"encoder": "f", "x": 2e-9, "n": 3}]
    )
    assert (tmp_path / "a" / "b.csv").read_text() == "encoder,x,n\ne,0.333333,1000000\nf,2e-09,3\n"


OPTIONS = {
    "attention_entropy": ({"texts": 6, "length": 16, "seed": 1}, "layer,entropy,sd,n,uniform", 3),
    "pair_similarity": ({"pairs": 6, "lengths": [8, 16], "seed": 1}, "length,cosine,sd,n", 2),
    "decoder_states": ({"texts": 5, "length": 10, "seed": 1}, "span,layers,position,cosine,sd,n", 9),
}


def run(*words: object) -> None:
    analyse.main(make_parser(analyse).parse_args([*map(str, words)]))


@pytest.mark.parametrize("analysis", OPTIONS)
def test_the_program(with_decoder, articles, tmp_path: Path, analysis: str) -> None:
    options, columns, rows_of_one = OPTIONS[analysis]
    directory, _, _ = with_decoder(1, 2)
    out, words = tmp_path / "out" / f"{analysis}.csv", ["--options", json.dumps(options), "--store", articles.directory]
    models = ["--encoders", "a", "b", "--seeds", "1", "2", "--stages", "pretrained", "reqa-80pct", "--threads", "1"]
    run(analysis, *words, *models, "--directories", directory, directory, "--out", out)
    text = out.read_text()
    assert text.splitlines()[0] == f"encoder,seed,stage,{columns}"
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["encoder"], row["seed"], row["stage"]) for row in rows] == (
        [("a", "1", "pretrained")] * rows_of_one + [("b", "2", "reqa-80pct")] * rows_of_one
    )
    one, two = ([{**row, "encoder": "", "seed": "", "stage": ""} for row in rows[i::rows_of_one]] for i in (0, 1))
    assert one[0] == one[1] and two[0] == two[1] != one[0], "the same directory, the same texts"


def test_the_program_refuses_and_ends_well(program, saved, articles, tmp_path: Path) -> None:
    directory, _ = saved("plain")
    words = ["--options", json.dumps(OPTIONS["decoder_states"][0]), "--store", articles.directory]
    words += ["--encoders", "a", "--seeds", "1", "--stages", "pretrained", "--directories", directory]
    script, out = "workflow_scripts/analyse.py", tmp_path / "x.csv"
    done = program(script, "decoder_states", *words, "--out", out)
    assert done.returncode == 1 and not out.exists() and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("DataError: ") and "have one" in done.stderr
    with pytest.raises(ConfigError, match="paired options"):
        run("decoder_states", *words, directory, "--out", out)
    words[1] = json.dumps(OPTIONS["attention_entropy"][0])
    done = program(script, "attention_entropy", *words, "--out", out)
    assert done.returncode == 0 and out.exists(), done.stderr
