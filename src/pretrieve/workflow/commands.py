"""The command that makes a file of ``results/`` again, as one types it in a checkout as it comes."""

from collections.abc import Collection
from pathlib import Path

#: The scale of config.yaml as it comes; every other one is told on the command line.
DEFAULT_SCALE = "demo"
#: What the name of a rehearsed scale ends in.
REHEARSAL = "-rehearsal"


def command(
    files: Collection[str],
    scale: str,
    seeds: Collection[int] = (),
    only: Collection[str] | None = None,
    mirror: bool = False,
) -> str:
    """Snakemake's command line for some files of a scale; ``seeds`` where they are not the scale's own. ``mirror``: it needs a
    folder with source files, DIR, which differs between machines.

    >>> command(["a.csv"], "demo")
    'snakemake a.csv'
    >>> command(["a.csv", "b.csv"], "small", [1], ["bm25"])
    "snakemake a.csv b.csv --config scale=small 'seeds=[1]' 'only=[bm25]'"
    >>> command(["a.csv"], "small", mirror=True)
    'snakemake a.csv --config scale=small mirror=DIR'
    """
    real = scale.removesuffix(REHEARSAL)
    told = [] if real == DEFAULT_SCALE else [f"scale={real}"]
    told += [] if real == scale else ["rehearsal=1"]
    told += ["mirror=DIR"] if mirror else []
    told += [f"'seeds=[{','.join(map(str, seeds))}]'"] if seeds else []
    told += [] if only is None else [f"'only=[{','.join(sorted(only))}]'"]
    return " ".join(["snakemake", *files, *(["--config", *told] if told else [])])


def make_it(path: Path | str) -> str:
    """``Make it with: COMMAND``, the end of a message about a file that is not there; its folder says which scale it is of.

    >>> make_it("results/small/overlap/a/stats.json")
    'Make it with: snakemake results/small/overlap/a/stats.json --config scale=small'
    >>> make_it("results/published/2026-11-28-demo-57f17cd/claims.csv")
    'It is part of a published run: git checkout -- results/published/2026-11-28-demo-57f17cd/claims.csv'
    """
    first, scale, *_ = (*Path(path).parts, "", "")
    if (first, scale) == ("results", "published"):
        return f"It is part of a published run: git checkout -- {path}"
    return f"Make it with: {command([str(path)], scale if first == 'results' and scale else DEFAULT_SCALE)}"
