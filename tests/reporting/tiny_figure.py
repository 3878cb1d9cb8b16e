"""A figure and a finished run small enough to work out by hand; for the tests of reporting/figures."""

from __future__ import annotations

import json
from pathlib import Path

from pretrieve.reporting.figures.measure import FigureSetting
from pretrieve.reporting.tables.results import Setting

FIGURE = """\
paper: tiny
figure: figure1
caption: Scores & <what> they rest on.
source: §4.1
claim: The better model is better.
panels:
  a:
    title: Scores
    draw: line
    x: {label: Labels, unit: share, scale: ordered}
    y: {label: MRR, unit: fraction}
    series:
      - name: ours
        label: Ours
        method: seed
        from: scores
        role: qa
        metric: mrr@10
        points: {"10%": ours.reqa-small, "100%": ours.reqa-full}
        published: {"10%": "0.30", "50%": "0.35"}
        tolerance: 0.05
      - name: other
        label: Other
        method: bert
        from: scores
        role: qa
        metric: mrr@10
        points: {"10%": other.reqa-small, "100%": {system: ours.reqa-full, role: trivia}}
  b:
    title: Relative
    draw: bar
    x: {label: Task, scale: category}
    y: {label: Change, unit: "%"}
    series:
      - name: gain
        method: seed
        from: scores
        metric: mrr@10
        relative_to: ours.reqa-small
        points: {qa: {system: ours.reqa-full, role: qa}}
  c:
    title: Entropy
    draw: line
    x: {label: Layer, scale: linear}
    y: {label: Entropy, unit: nats}
    series:
      - {name: change, method: seed, variant: difference, from: change, of: [before, after]}
      - &before
        name: before
        method: seed
        variant: before
        from: analysis
        analysis: attention_entropy
        encoder: ours
        stage: pretrained
        x: layer
        y: entropy
      - {<<: *before, name: after, variant: after, stage: finetuned}
      - {<<: *before, name: nobody, method: bert, encoder: nobody}
"""
#: System → for each seed the reciprocal rank of queries q0, q1, q2, and of q3, which only the small size is tested on.
SCORES = {
    "ours.reqa-small": ((0.5, 0.25, 0.0, 1.0), (0.5, 0.5, 0.25, 1.0)),
    "ours.reqa-full": ((1.0, 0.5, 0.0), (1.0, 0.5, 0.5)),
    "other.reqa-small": ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.5)),
}
#: (stage, layer) → entropy of seeds 1 and 2.
ENTROPY = {
    ("pretrained", 1): (1.0, 2.0),
    ("pretrained", 2): (3.0, 3.0),
    ("reqa-full", 1): (2.0, 1.5),
    ("reqa-full", 2): (3.25, 3.0),
}


def write_figure(folder: Path, text: str = FIGURE) -> Path:
    file = folder / "references" / "tiny" / "figure1.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def write_run(folder: Path, **setting: object) -> FigureSetting:
    """The result files below ``folder/results/demo``, and the setting they are of."""
    root = folder / "results/demo"
    for system, seeds in SCORES.items():
        for seed, values in enumerate(seeds, start=1):
            per_query = {f"q{i}": value for i, value in enumerate(values)}
            record = {"metrics": {"mrr@10": sum(values) / len(values)}, "per_query": {"mrr@10": per_query}}
            file = root / f"metrics/{system}/questions/seed{seed}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record))
    lines = ["encoder,seed,stage,layer,entropy,sd,n,uniform"]
    lines += [
        f"ours,{seed},{stage},{layer},{values[seed - 1]},0.1,1000,4"
        for (stage, layer), values in ENTROPY.items()
        for seed in (1, 2)
    ]
    (root / "analyses").mkdir(parents=True, exist_ok=True)
    (root / "analyses/attention_entropy.csv").write_text("\n".join(lines) + "\n")
    tables = {
        "root": str(root),
        "scale": "demo",
        "seeds": (1, 2),
        "roles": {"qa": "questions"},
        "encoders": frozenset({"ours", "other"}),
        "recipes": frozenset({"reqa"}),
    }
    analyses = {"attention_entropy": {"encoders": ["ours"], "finetuned": {"recipe": "reqa"}}}
    return FigureSetting(Setting(**(tables | setting)), analyses, "corpus")
