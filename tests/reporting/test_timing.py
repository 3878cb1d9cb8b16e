"""Benchmark files as Snakemake 9 writes them, added up."""

from __future__ import annotations

import json

import pytest

from pretrieve.errors import DataError
from pretrieve.reporting.timing import format_report, read_stages, startup_seconds

HEAD = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
LONG = "60.0000\t0:01:00\t1000.00\t2000.00\t900.00\t950.00\t1.00\t2.00\t150.00\t90.00\n"
SHORT = "0.2000\t0:00:00\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\n"


@pytest.fixture
def benchmarks(tmp_path):
    for name, text in {
        "pretrain/a.tsv": HEAD + LONG,
        "pretrain/deeper/b.tsv": HEAD + LONG.replace("1000.00", "500.00").replace("90.00", "30.00"),
        "table/t.tsv": HEAD + SHORT + SHORT,
    }.items():
        path = tmp_path / "benchmarks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "benchmarks"


def test_jobs_are_added_up_by_rule_longest_first(benchmarks):
    pretrain, table = read_stages(benchmarks)
    assert (pretrain.rule, pretrain.jobs, pretrain.wall_s, pretrain.cpu_s) == ("pretrain", 2, 120.0, 120.0)
    assert pretrain.peak_gb == pytest.approx(1000 * 2**20 / 1e9)
    assert (table.rule, table.jobs, table.unsampled) == ("table", 2, 2) and table.wall_s == pytest.approx(0.4)


def test_report_is_ascii_and_its_shares_add_up(benchmarks):
    text = format_report(read_stages(benchmarks), elapsed=60.2, startup=(12.04, 3))
    assert text.isascii()
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["pretrain"][1:5] == ["2", "120.0", "120.0", "1.00"] and rows["pretrain"][6] == "99.7%"
    assert rows["total"][1:3] == ["4", "120.4"]
    shares = sum(float(rows[rule][6].rstrip("%")) for rule in ("pretrain", "table"))
    assert shares == pytest.approx(100, abs=0.1)
    assert "2.00 jobs ran at a time" in text
    assert "starting up 12.0 s in 3 stages = 10.0% of all job seconds" in text
    assert "2 job(s) ended before they were sampled" in text


def test_startup_reads_files_and_folders_and_skips_what_has_none(tmp_path):
    for name, cost in {
        "a/cost.json": {"startup_s": 2.5},
        "a/b/seed1.cost.json": {"startup_s": 1},
        "c.json": {},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(cost))
    assert startup_seconds([tmp_path / "a", tmp_path / "c.json"]) == (3.5, 2)
    assert startup_seconds([tmp_path / "c.json"]) == (0.0, 0)
    with pytest.raises(DataError, match="not readable as JSON"):
        startup_seconds([tmp_path / "none.json"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD.replace("cpu_time", "cpu"), "line 1: no column cpu_time; found s, h:m:s"),
        (HEAD + LONG.replace("60.0000", "NA"), "line 2: column s is 'NA'; expected a number"),
        (HEAD + LONG.replace("90.00", "soon"), "line 2: column cpu_time is 'soon'"),
        (HEAD + "1.0\t0:00:01\n", "line 2: column cpu_time is None"),
        ("", "line 1: no column cpu_time, max_rss, s; found nothing"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(benchmarks, text, message):
    path = benchmarks / "table" / "t.tsv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_stages(benchmarks)
    assert message in str(error.value) and str(path) in str(error.value)


def test_no_benchmarks_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no benchmark files"):
        read_stages(tmp_path)
