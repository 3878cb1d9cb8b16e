"""How the demo's settings of fine-tuning recipes were chosen: a grid on the dev questions, one setting for all rows.

Goes on where ``demo_settings.py`` ends: the encoders are those of a run, seed and training questions are its own. Each setting
fine-tunes every row of its group on all training questions and scores the *dev* questions, which no table uses: recall@100
over all candidates. The setting with the highest mean over the rows is the demo's: never one setting for one row.

    snakemake retrievers
    PYTHONPATH=src python benchmarks/recipe_settings.py [--only GROUP ...]

Prints a table and adds to benchmarks/results/recipe_settings.json. About 20 minutes on one core.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import yaml

from pretrieve import paths
from pretrieve.finetuning.fine_tuning import FineTuning
from pretrieve.finetuning.run import finetune
from pretrieve.job_options import recipe_options
from pretrieve.models.retriever_files import load_retriever
from pretrieve.retrieval.embed import encode
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device, choose_device

TASK = "questions"
DEPTH = 100

T5_ROWS = tuple(f"t5-small.dual-t5-{sharing}" for sharing in ("sde", "ade", "ade-fte", "ade-spl"))
BERT_ROWS = tuple(f"{encoder}.{recipe}" for encoder in ("bert", "retromae") for recipe in ("dpr-bm25", "seed-pairwise"))
DUPMAE_ROWS = (
    "retromae.dupmae-1stage-cls",
    "dupmae.dupmae-1stage-cls",
    "dupmae.dupmae-1stage-ot",
    "dupmae.dupmae-1stage",
)

#: group → rows, and name → changed options of their recipes.
GROUPS: dict[str, tuple[tuple[str, ...], dict[str, dict]]] = {
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


def dev_recall(retriever: Path, task: Path, size: str, options: dict, device: Device) -> float:
    """Recall@DEPTH of the dev questions over all candidates."""
    dual, _ = load_retriever(retriever)
    dual.to(device.device)
    data = Dataset(task).read_by(dual.config.kind)
    rows, everything = data.split(size, "dev"), np.arange(len(data.candidate_passage))
    queries = encode(dual.query, lambda r: data.pack_queries(r, options["query_length"]), rows, device)
    documents = encode(dual.document, lambda r: data.pack_candidates(r, options["passage_length"]), everything, device)
    scores = queries @ documents.T
    right = scores[np.arange(len(rows)), data.positive[rows]]
    return float(((scores > right[:, None]).sum(axis=1) < DEPTH).mean())


def negatives_of(encoder: str, source: str, root: Path) -> Path:
    """BM25's file of the run, or what a retriever of the encoder found in it."""
    mined = source.startswith("mined:")
    system = f"{encoder}.{source.removeprefix('mined:')}-full" if mined else source
    return Path(paths.negatives_file(str(root), system, TASK, 1 if mined else 0))


def score(config: dict, row: str, changes: dict, root: Path, seed: int, device: Device) -> float:
    """Fine-tune one row with some options changed; its dev recall."""
    encoder, recipe = row.split(".")
    options = recipe_options(config, recipe, TASK) | changes | {"curve": 0}
    negatives = {source: negatives_of(encoder, source, root) for source in options["negatives"]}
    task, begin = Path(paths.task_dir(str(root), TASK)), Path(paths.encoder_dir(str(root), encoder, 1))
    made = {
        name: Path(paths.retriever_dir(str(root), f"{encoder}.{options[name]}-full", TASK, 1))
        for name in ("start", "teacher")
        if options.get(name, "encoder") != "encoder"
    }
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        run = FineTuning(options, begin, task, "full", seed, device, work, negatives=negatives, **made)
        finetune(run, Path(scratch) / row / TASK / "seed")
        return dev_recall(Path(scratch) / row / TASK / "seed", task, "full", options, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(GROUPS))
    parser.add_argument("--root", type=Path, default=Path("results/demo"))
    parser.add_argument("--seed", type=int, default=11, help="not a seed of the tables")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/recipe_settings.json"))
    arguments = parser.parse_args()
    config = yaml.safe_load(Path("config.yaml").read_text())
    device = choose_device("auto", 1)
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for group in arguments.only or GROUPS:
        rows, settings = GROUPS[group]
        for name, changes in settings.items():
            if name in results.get(group, {}):  # delete the file to measure anew
                continue
            recalls = {row: score(config, row, changes, arguments.root, arguments.seed, device) for row in rows}
            mean = float(np.mean(list(recalls.values())))
            results.setdefault(group, {})[name] = {"changes": changes, "recall@100": recalls, "mean": mean}
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
            print(
                f"{group:8} {name:16} mean {mean:.3f}  " + "  ".join(f"{v:.3f}" for v in recalls.values()), flush=True
            )


if __name__ == "__main__":
    main()
