"""A made-up encyclopaedia, questions about it, and the configuration that makes the whole workflow run on them in seconds.

Same Snakefile, rules, programs and references as the project: only ``config.yaml``, ``resources/sources.tsv`` and the raw
files are others. What the tables ask for beyond it becomes `not-run`.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import yaml

from pretrieve.workflow.config_files import read_config

TEXT = """
river stone harbour winter copper garden signal market engine valley bridge island forest letter mirror window candle
hammer ladder basket anchor sailor painter farmer teacher summer silver timber cotton pepper
"""
WORDS = TEXT.split()
TITLES = [f"{word.capitalize()} {other}" for word, other in zip(WORDS[:24], WORDS[5:29], strict=True)]
PAGES, SECTIONS = 12, ("", "History", "Making", "Uses")

#: Encoders of the real configuration that the miniature keeps.
ENCODERS = ("transformer-mlm", "bow-mlp-ict-bfs-wlp")
#: An encoder that goes on from the first of them; no table asks for it.
CONTINUED = "condenser"
TABLES = ["pretraining_tasks/table1", "pretraining_tasks/table3"]
#: A table of the corpus's counts, and a task.
COUNTS, TASK = "results/demo/tables/pretraining_tasks/table1.csv", "results/demo/tasks/questions/stats.json"
#: Scores of recipes that are made of other recipes, of a task of examples, and of the rerank setting; no table asks for them.
CHAINS = [
    *(f"{ENCODERS[0]}.{recipe}-80pct/questions" for recipe in ("dpr-hard", "dupmae-3stage", "ance")),
    f"{ENCODERS[0]}.glue-full/question-entailment",
    f"{ENCODERS[0]}.dpr-hard-80pct/questions-rerank",
]
#: Long enough to be killed in the middle, once a checkpoint is written.
MLM_STEPS = 120


def _sentence(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(7, 12))]
    return f"The {' '.join(words)} {rng.randint(100, 999)}."


def _dump(rng: random.Random) -> str:
    pages = []
    for number, title in enumerate(TITLES[:PAGES], start=1):
        text = []
        for heading in SECTIONS:
            text += [f"== {heading} =="] if heading else []
            for _ in range(3):
                sentences = [_sentence(rng) for _ in range(4)]
                sentences[1] += f" It stands near [[{rng.choice(TITLES)}]] and [[{rng.choice(TITLES)}]] in the north."
                text += [" ".join(sentences), ""]
        pages.append(
            f"<page><title>{title}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
            f'<text xml:space="preserve">{chr(10).join(text)}</text></revision></page>'
        )
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">'
    return "\n".join([head, *pages, "</mediawiki>\n"])


def _leads(rng: random.Random) -> dict[str, dict[str, str]]:
    return {
        title: {
            "title": title,
            "extract": " ".join(_sentence(rng) for _ in range(3)),
            "description": f"{rng.choice(WORDS)} of the {rng.choice(WORDS)}",
            "topic": "things",
        }
        for title in TITLES
    }


def _questions(rng: random.Random, part: str, paragraphs: int) -> dict[str, Any]:
    made = []
    for number in range(paragraphs):
        context = " ".join(_sentence(rng) for _ in range(3))
        answer = context.split(". ")[1].rstrip(".").split()[-1]
        words = " ".join(rng.sample(context.lower().rstrip(".").split(), 5))
        question = {"id": f"{part}{number}", "question": f"What is {words} in {part} {number}?"}
        question["answers"] = [{"text": answer, "answer_start": context.index(answer)}]
        made.append({"context": context, "qas": [question]})
    return {"version": "1.1", "data": [{"title": f"Article {part} {n}", "paragraphs": made[n::12]} for n in range(12)]}


def write_raw_files(project: Path) -> None:
    """Put the raw files into ``mirror/``, their list into ``resources/`` and the questions beside it."""
    rng = random.Random(20)
    mirror = project / "mirror"
    mirror.mkdir()
    (mirror / "tiny-dump.xml").write_text(_dump(rng))
    (mirror / "tiny-leads.json").write_text(json.dumps(_leads(rng)))
    (mirror / "tiny-fanoutqa.json").write_text("[]")
    for part, paragraphs in (("train", 60), ("dev", 4), ("test", 12)):
        (project / f"resources/questions/{part}.json").write_text(json.dumps(_questions(rng, part, paragraphs)))
    names = {
        "enwiki-fragment": "tiny-dump.xml",
        "encyclopaedia-leads": "tiny-leads.json",
        "fanoutqa-dev": "tiny-fanoutqa.json",
    }
    with open(project / "resources/sources.tsv", "w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(["name", "file", "package", "path", "checksum", "bytes", "licence", "needed_by"])
        for name, file in names.items():
            content = (mirror / file).read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            writer.writerow([name, file, f"no_such_package_{file[5:8]}", "data", digest, len(content), "CC0", "tests"])


def write_config(project: Path) -> None:
    """Cut the project's own configuration down; every key that is not named here keeps its value. All of it is in one file."""
    config = read_config(project / "config.yaml", code_folder=project)
    shutil.rmtree(project / "config")
    config["mirror"] = "mirror"
    config["tables"], config["figures"] = TABLES, []
    # Corpora and data sets of other scales are of sources that the miniature has not.
    config["scales"] = {"demo": config["scales"]["demo"]}
    config["corpora"] = {"encyclopedia-demo": config["corpora"]["encyclopedia-demo"]}
    config["datasets"] = {
        name: options
        for name, options in config["datasets"].items()
        if all("/" in file for file in options.get("files", {}).values())
    }
    config["encoders"] = {name: config["encoders"][name] for name in ENCODERS}
    del config["analyses"]  # they name encoders that the miniature has not
    config["corpora"]["encyclopedia-demo"]["expect"] = {"pages": PAGES, "leads": len(TITLES), "wlp_pairs_min": 20}
    config["datasets"]["questions"]["sizes"] = {"5pct": 0.05, "80pct": 0.80}
    reranked = config["datasets"]["questions-rerank"]
    reranked["sizes"], reranked["depth"] = {"80pct": 0.80}, 10
    config["datasets"]["questions-paragraphs"]["sizes"] = {"80pct": 0.80}
    scale = config["scales"]["demo"]
    scale["vocabulary_size"] = 300
    scale["body"] |= {"hidden": 16, "feed_forward": 32}
    scale["bow_mlp"] |= {"hidden": 16, "feed_forward": 32}
    scale["dims"] = {"full": 16, "half": 8, "quarter": 4}
    scale["layers"] = {"deep": 2, "shallow": 1}
    short = scale["pretraining"]["budgets"]["pairs"] | {"batch": 8, "steps": 3}
    scale["pretraining"]["budgets"] = {"pairs": short, "base": short | {"steps": MLM_STEPS}}
    config["encoders"][ENCODERS[0]]["budget"] = "base"
    more = {"start": ENCODERS[0], "objective": "condenser", "budget": "pairs"}
    config["encoders"][CONTINUED] = config["encoders"][ENCODERS[0]] | more
    scale["finetuning"]["reqa"] |= {"batch": 4, "steps": 3, "epochs": 2}
    scale["finetuning"]["ance"]["refresh"] = 1  # of two steps
    (project / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def change_config(project: Path, *path: str, to: Any) -> None:
    """Give one key of a copy's ``config.yaml`` another value."""
    config = yaml.safe_load((project / "config.yaml").read_text())
    place = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    (project / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
