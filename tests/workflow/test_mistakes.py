"""Mistakes end before any work, in one line that says what is wrong, what is allowed and what was probably meant.

Mutations seen to fail: `with_numbers` left out of common.smk; no rule `no_such_page`; `nearest` returning ''; the
`sys.exit` in common.smk replaced by `raise`; fetch copying before it checks; `show-failed-logs: false` in the profile.
"""

from __future__ import annotations

import hashlib

import pytest
from tiny_science import change_config

#: What Snakemake itself says about its profile and configuration.
NOTICES = ("Using workflow specific profile", "Config file ")


def complaint(ended) -> str:
    """The one line that a refused run leaves on standard error."""
    lines = [line for line in ended.stderr.splitlines() if line and not line.startswith(NOTICES)]
    assert ended.code != 0
    assert len(lines) == 1, ended.text
    assert "Traceback" not in ended.text and "Job stats" not in ended.text
    return lines[0]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("scale=dmo", ["scale", "'dmo'", "allowed: demo", "did you mean 'demo'"]),
        ("tabels=[a]", ["tabels", "unknown key", "allowed:", "did you mean 'tables'"]),
        (
            "tables=[pretraining_tasks/tabel3]",
            [
                "tables",
                "'pretraining_tasks/tabel3'",
                "allowed:",
                "pretrieve/transfer",
                "did you mean 'pretraining_tasks/table",
            ],
        ),
        ("seeds=[1,x]", ["seeds.1", "'x'", "a whole number"]),
        ("seeds=[-1]", ["seeds.0", "-1", "minimum"]),
        ("bm25={b: 2}", ["bm25.b", "2", "maximum"]),
        ("recipes={reqa: {options: {dim: ful}}}", ["recipes.reqa.options.dim", "'ful'", "or full or half or quarter"]),
        (
            "encoders={shallow-bfs: {objective: [bsf]}}",
            ["encoders.shallow-bfs.objective", "'bsf'", "or a list of ict, bfs, wlp", "did you mean 'bfs'"],
        ),
        (
            "encoders={transformer-mlm: {objective: mml}}",
            [
                "encoders.transformer-mlm.objective",
                "'mml'",
                "none, mlm, ",
                "or a list of ict, bfs, wlp",
                "did you mean 'mlm'",
            ],
        ),
        (
            "datasets={questions: {sizes: {80pct: 0.9}}}",
            ["datasets.questions.sizes.80pct", "0.9", "impossible split", "at most 0.805"],
        ),
        ("encoders={retromae: {budget: continud}}", ["encoders.retromae.budget", "did you mean 'continued'"]),
        (
            "encoders={retromae: {options: {decoder_rat: 0.5}}}",
            ["encoders.retromae.options.decoder_rat", "did you mean 'decoder_rate'"],
        ),
        ("encoders={retromae: {preset: papre}}", ["encoders.retromae.preset", "did you mean 'paper'"]),
        ("encoders={base: {start: retromae}}", ["encoders.base.start", "base → retromae → base is a cycle"]),
        (
            "scales={demo: {pretraining: {budgets: {base: {step: 3}}}}}",
            ["scales.demo.pretraining.budgets.base.step", "unknown key", "did you mean 'steps'"],
        ),
        ("datasets={fanoutqa: {trained_on: question}}", ["datasets.fanoutqa.trained_on", "did you mean 'questions'"]),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(project, setting, words):
    line = complaint(project.run("--cores", "1", "--config", setting))
    assert line.startswith("ConfigError: ")
    assert [word for word in words if word not in line] == [], line
    assert not (project.folder / "results").exists()


def test_a_mistyped_target_names_the_nearest(project):
    ended = project.run("--cores", "1", "results/demo/tables/pretraining_tasks/tabel3.csv")
    assert ended.code != 0 and "Traceback (" not in ended.text and "Job stats" not in ended.text
    (line,) = [line for line in ended.stderr.splitlines() if "ConfigError: " in line]
    assert "tabel3.csv" in line and "did you mean 'results/demo/tables/pretraining_tasks/table3.csv'" in line
    assert "pretrieve/transfer" in line


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("bertt.dpr-bm25", ["encoders", "'bertt'", "did you mean 'bert'"]),
        ("bert.dpr-bm52", ["recipes", "'dpr-bm52'", "did you mean 'dpr-bm25'"]),
    ],
)
def test_a_mistyped_family_names_the_nearest(project, family, words):
    ended = project.run("-n", f"results/demo/metrics/{family}-full/questions-open/seed1.json")
    assert ended.code != 0 and "Job stats" not in ended.text
    assert all(word in ended.text for word in (f"family {family}: ", *words)), ended.text


def test_metrics_of_an_unknown_data_set_size_or_seed_are_refused(project):
    for name, said in (
        ("transformer-mlm.reqa-1pct/question/seed1", "no data set 'question'"),
        ("transformer-mlm.reqa-1pct/questions/seed9", "no seed9"),
        (
            "transformer-mlm.reqa-2pct/questions/seed1",
            "the data set questions has no size '2pct'; expected one of 1pct",
        ),
    ):
        ended = project.run("--cores", "1", f"results/demo/metrics/{name}.json")
        assert ended.code != 0 and "Job stats" not in ended.text
        assert f"ConfigError: target results/demo/metrics/{name}.json: {said}" in ended.stderr


def test_a_damaged_raw_file_is_never_used(cold):
    """Also: a failed rule shows its log, and what to do next."""
    target = cold.folder / "data/sources/tiny-dump.xml"
    damaged = cold.folder / "mirror/tiny-dump.xml"
    right = hashlib.sha256(damaged.read_bytes()).hexdigest()
    damaged.write_bytes(damaged.read_bytes()[:-20])
    ended = cold.run("--cores", "1", "data/sources/tiny-dump.xml")
    assert ended.code != 0
    (line,) = {line for line in ended.stderr.splitlines() if line.startswith("DataError: ")}
    wrong = hashlib.sha256(damaged.read_bytes()).hexdigest()
    for word in ("tiny-dump.xml", f"expected sha256 {right}", f"has sha256 {wrong}", "--config mirror=FOLDER"):
        assert word in line
    assert "Traceback" not in ended.text
    log = cold.folder / "results/demo/logs/fetch/tiny-dump.xml.log"
    assert line in log.read_text()
    assert ended.text.count(line) >= 2, "the job printed it, and Snakemake shows the log"
    assert "A job failed." in ended.stderr and "run the same command again" in ended.stderr
    assert not target.parent.exists() or not list(target.parent.iterdir()), "neither a file nor half of one"

    damaged.unlink()
    missing = cold.run("--cores", "1", "data/sources/tiny-dump.xml")
    assert missing.code != 0
    for word in (
        "tiny-dump.xml: missing",
        "the folder mirror",
        "the package no_such_package",
        right,
        "--config mirror=",
    ):
        assert word in missing.text, word
    assert not target.exists()


def test_damaged_questions_fail_with_their_name_and_keep_the_rest(warm):
    (warm.folder / "resources/questions/dev.json").write_text('{"data": [')
    before = warm.files("encoders/**/*")
    ended = warm.run("--cores", "1")
    assert ended.code != 0
    assert "DataError: resources/questions/dev.json" in ended.stderr and "Traceback" not in ended.text
    assert "A job failed." in ended.stderr
    assert "Pre-training" not in ended.text and warm.files("encoders/**/*") == before


def test_a_corpus_that_is_not_what_was_expected_stops_the_run(cold):
    change_config(cold.folder, "corpora", "encyclopedia-demo", "expect", to={"pages": 99})
    ended = cold.run("--cores", "1", "results/demo/corpora/encyclopedia-demo/stats.json")
    assert ended.code != 0
    assert "DataError: data/sources/tiny-dump.xml: the corpus has 12 pages, expected 99" in ended.stderr
    assert not cold.files("corpora/**/*.parquet")
