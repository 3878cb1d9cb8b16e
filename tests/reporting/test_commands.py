"""The commands that pages and messages name.

Seen to fail when: a scale, a rehearsal, a mirror, seeds or rows that are not those of config.yaml are left out; a path's scale is
not read off it, or read off a path that is not in results/.
"""

from __future__ import annotations

import pytest

from pretrieve.workflow.commands import command, make_it


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"scale": "demo"}, "snakemake a b"),
        ({"scale": "demo", "seeds": (1, 2)}, "snakemake a b --config 'seeds=[1,2]'"),
        ({"scale": "small", "only": {"bm25", "bert.sts"}}, "snakemake a b --config scale=small 'only=[bert.sts,bm25]'"),
        ({"scale": "small", "seeds": [1], "only": []}, "snakemake a b --config scale=small 'seeds=[1]' 'only=[]'"),
        ({"scale": "small", "seeds": [1], "mirror": True}, "snakemake a b --config scale=small mirror=DIR 'seeds=[1]'"),
        ({"scale": "paper-rehearsal"}, "snakemake a b --config scale=paper rehearsal=1"),
        ({"scale": "demo-rehearsal"}, "snakemake a b --config rehearsal=1"),
    ],
)
def test_what_is_not_in_the_configuration_is_told(given: dict, expected: str) -> None:
    assert command(["a", "b"], **given) == expected


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("results/demo/a.csv", ""),
        ("results/small/tables/p/t.csv", " --config scale=small"),
        ("results/paper-rehearsal/a.csv", " --config scale=paper rehearsal=1"),
        ("data/raw/a.zip", ""),
        ("a.csv", ""),
    ],
)
def test_a_missing_file_is_made_at_its_scale(path: str, told: str) -> None:
    assert make_it(path) == f"Make it with: snakemake {path}{told}"
