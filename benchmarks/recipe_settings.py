"""How a scale's settings of fine-tuning recipes were chosen: a grid on the dev questions, one setting for all rows.

Goes on where ``demo_settings.py`` ends: the encoders are those of a run, seed and training questions are its own. Each setting
fine-tunes every row of its group on all training questions and scores the *dev* questions, which no table uses: recall@100
over all candidates. The setting with the highest mean over the rows is the scale's: never one setting for one row.

    snakemake retrievers
    PYTHONPATH=src python benchmarks/recipe_settings.py [--only GROUP ...]
    PYTHONPATH=src python benchmarks/recipe_settings.py --scale small      # after a run of that scale

Prints a table and adds to benchmarks/results/recipe_settings.json, or recipe_settings_small.json. About 20 minutes on one core.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from demo_settings import dev_ranks

from pretrieve.base import paths
from pretrieve.finetuning.fine_tuning import FineTuning
from pretrieve.finetuning.finetune import finetune
from pretrieve.models.retriever_files import load_retriever
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device, choose_device
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import recipe_options
from pretrieve.workflow.scales import at_scale

#: Scale → the task whose questions train and choose.
TASKS = {"demo": "questions", "small": "squad-passages"}
DEPTH = 100

T5_ROWS = tuple(f"t5-small.dual-t5-{sharing}" for sharing in ("sde", "ade", "ade-fte", "ade-spl"))
BERT_ROWS = tuple(f"{encoder}.{recipe}" for encoder in ("bert", "retromae") for recipe in ("dpr-bm25", "seed-pairwise"))
DUPMAE_ROWS = (
    "retromae.dupmae-1stage-cls",
    "dupmae.dupmae-1stage-cls",
    "dupmae.dupmae-1stage-ot",
    "dupmae.dupmae-1stage",
)

#: A group: rows, and name → changed options of their recipes.
Group = tuple[tuple[str, ...], dict[str, dict]]
DEMO: dict[str, Group] = {
    "dual-t5": (
        T5_ROWS,
        {
            "adafactor-1e-2": {"optimiser": "adafactor", "learning_rate": 1e-2},
            "adafactor-3e-3": {"optimiser": "adafactor", "learning_rate": 3e-3},
            "adamw-5e-4": {"optimiser": "adamw", "learning_rate": 5e-4},
            "adamw-2e-3": {"optimiser": "adamw", "learning_rate": 2e-3},
        },
    ),
    "bert": (
        BERT_ROWS,
        {
            "2.5e-5": {"learning_rate": 2.5e-5},
            "5e-5": {"learning_rate": 5e-5},
            "1e-4": {"learning_rate": 1e-4},
            "2.5e-4": {"learning_rate": 2.5e-4},
            "5e-4": {"learning_rate": 5e-4},
            "1e-3": {"learning_rate": 1e-3},
        },
    ),
    # The paper's temperature is 1, of inner products that nothing bounds.
    "dupmae": (
        DUPMAE_ROWS,
        {
            f"{rate}, temperature {temperature}": {"learning_rate": float(rate), "temperature": temperature}
            for temperature in (1.0, 6.0, 30.0)
            for rate in ("1e-4", "5e-4")
        },
    ),
    # Goes on from what the run trained with the setting above: measure that first.
    "dupmae-3stage": (
        ("retromae.dupmae-3stage-cls", "dupmae.dupmae-3stage"),
        {rate: {"learning_rate": float(rate)} for rate in ("5e-4", "1e-4", "2.5e-5", "5e-6")},
    ),
}
SMALL: dict[str, Group] = {
    "bm25": (
        ("bert.dpr-bm25", "seed-3-2.seed-pairwise"),
        {rate: {"learning_rate": float(rate)} for rate in ("2e-4", "5e-4", "1e-3", "5e-5")},
    ),
    # Goes on from what the run trained with the setting above: measure that first.
    "ance": (
        ("seed-mlm.ance", "seed-3-2.ance"),
        {rate: {"learning_rate": float(rate)} for rate in ("2e-4", "5e-5", "1e-5", "2e-6")},
    ),
}
GROUPS = {"demo": DEMO, "small": SMALL}


def negatives_of(encoder: str, source: str, task: str, root: Path) -> Path:
    """BM25's file of the run, or what a retriever of the encoder found in it."""
    mined = source.startswith("mined:")
    system = f"{encoder}.{source.removeprefix('mined:')}-full" if mined else source
    return Path(paths.negatives_file(str(root), system, task, 1 if mined else 0))


def tuned_ranks(
    config: Mapping[str, Any], row: str, changes: dict, root: Path, seed: int, device: Device
) -> np.ndarray:
    """Fine-tune one row with some options changed; its :func:`demo_settings.dev_ranks`."""
    encoder, recipe = row.split(".")
    name = TASKS[config["scale"]]
    options = recipe_options(config, recipe, name) | changes | {"curve": 0}
    negatives = {source: negatives_of(encoder, source, name, root) for source in options["negatives"]}
    task, begin = Path(paths.task_dir(str(root), name)), Path(paths.encoder_dir(str(root), encoder, 1))
    made = {
        key: Path(paths.retriever_dir(str(root), f"{encoder}.{options[key]}-full", name, 1))
        for key in ("start", "teacher")
        if options.get(key, "encoder") != "encoder"
    }
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        run = FineTuning(options, begin, task, "full", seed, device, work, negatives=negatives, **made)
        finetune(run, Path(scratch) / row / name / "seed")
        dual, _ = load_retriever(Path(scratch) / row / name / "seed")
        dual.to(device.device)
        return dev_ranks(dual, Dataset(task).read_by(dual.config.kind), "full", options, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(GROUPS), default="demo")
    parser.add_argument("--only", nargs="*", help="groups; by default all of the scale")
    parser.add_argument("--root", type=Path, help="by default results/SCALE")
    parser.add_argument("--seed", type=int, default=11, help="not a seed of the tables")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    groups = GROUPS[arguments.scale]
    if unknown := {*(arguments.only or ())} - {*groups}:
        parser.error(f"--only: {', '.join(sorted(unknown))}; the scale {arguments.scale} has {', '.join(groups)}")
    suffix = "" if arguments.scale == "demo" else f"_{arguments.scale}"
    out = arguments.out or Path(f"benchmarks/results/recipe_settings{suffix}.json")
    root = arguments.root or Path("results") / arguments.scale
    config = at_scale(read_config() | {"scale": arguments.scale})
    device = choose_device("auto", 1)
    results = json.loads(out.read_text()) if out.exists() else {}
    for group in arguments.only or groups:
        rows, settings = groups[group]
        for name, changes in settings.items():
            if name in results.get(group, {}):  # delete the file to measure anew
                continue
            ranks = {row: tuned_ranks(config, row, changes, root, arguments.seed, device) for row in rows}
            recalls = {row: float((some < DEPTH).mean()) for row, some in ranks.items()}
            mean = float(np.mean(list(recalls.values())))
            results.setdefault(group, {})[name] = {"changes": changes, "recall@100": recalls, "mean": mean}
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(results, indent=1) + "\n")
            print(
                f"{group:8} {name:16} mean {mean:.3f}  " + "  ".join(f"{v:.3f}" for v in recalls.values()), flush=True
            )


if __name__ == "__main__":
    main()
