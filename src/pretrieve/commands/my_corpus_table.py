"""Compare the objectives that were trained on a corpus of one's own: a table, and a sentence that says what to use."""

from __future__ import annotations

import argparse
from pathlib import Path

import jinja2

from pretrieve.base import paths
from pretrieve.base.arguments import add_outputs, json_object, required
from pretrieve.base.files import whole_file, write_json
from pretrieve.reporting.tables.my_corpus_table import advise, make_page, read_rows, to_csv, to_markdown
from pretrieve.reporting.tables.results import ResultFiles

TEMPLATES = Path("src/pretrieve/reporting/templates")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus.py: table_request")
    add_outputs(parser, "csv", "md", "html", "choice")


def main(args: argparse.Namespace) -> None:
    request = args.request
    root, files = request["root"], ResultFiles()
    stats = {
        name: files.read(f"{paths.task_dir(root, request[key])}/stats.json")
        for name, key in (("tested", "dataset"), ("trained", "trained_on"))
    }
    stats["collection"] = files.read(f"{root}/collections/{request['dataset']}/stats.json")
    rows = read_rows(request)
    advice = advise(rows, request["metrics"][0], request["baseline"])
    page = make_page(request, rows, stats, advice)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    texts = {
        args.csv: to_csv(rows),
        args.md: to_markdown(page),
        args.html: environment.get_template("my_corpus.html.j2").render(page=page),
    }
    for path, text in texts.items():
        with whole_file(path) as stream:
            stream.write(text.encode())
    choice = {"use": advice.use, "exported": advice.best, "sentence": advice.sentence, **request["lengths"]}
    if advice.best:
        # The first seed: choosing among seeds by the test queries would make its number better than it is.
        seed = next(row.seeds[0] for row in rows if row.system == advice.best)
        choice |= {
            "seed": seed,
            "retriever": paths.retriever_dir(root, advice.best, request["trained_on"], seed),
            "metrics": paths.metrics_file(root, advice.best, request["dataset"], seed),
        }
    write_json(args.choice, choice)
    print(advice.sentence)
