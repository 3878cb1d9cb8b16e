"""Benchmark files as Snakemake 9 writes them, added up."""

from __future__ import annotations

import os

import pytest

from pretrieve.base.errors import DataError
from pretrieve.reporting.report.timing import format_report, read_stages, startup_seconds

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
    assert "starting up 12.0 s in 3 jobs = 10.0% of all job seconds" in text
    assert "2 job(s) ended before they were sampled" in text


def test_startup_adds_the_first_lines_of_logs_and_skips_others(tmp_path):
    lines = {
        "a/x.log": "started in 2.50 s\nwork\n",
        "a/b/y.log": "started in 1.00 s\n",
        "full/disk.log": "started in ",
        "full/disk2.log": "started in 0.",
        "c.log": "DataError: no\n",
        "d.log": "",
    }
    for name, text in lines.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert startup_seconds(tmp_path) == (3.5, 2)
    assert startup_seconds(tmp_path / "a" / "b") == (1.0, 1)
    os.utime(tmp_path / "a/x.log", (1000, 1000))
    assert startup_seconds(tmp_path, since=2000) == (1.0, 1)


def test_a_rule_without_wildcards_has_one_file(tmp_path):
    (tmp_path / "fuse.tsv").write_text("s\tmax_rss\tcpu_time\n2.5\t-\t-\n")
    assert [(stage.rule, stage.jobs, stage.wall_s) for stage in read_stages(tmp_path)] == [("fuse", 1, 2.5)]


def test_no_benchmarks_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no benchmark files"):
        read_stages(tmp_path)
